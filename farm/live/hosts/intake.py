"""Turns reports into events stamped with farm time, and finds what is lost or must be resent.

Reports of a host are accepted only about the builders that it runs and the attempts that it was
given; all others are refused.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence

import msgspec

from farm.core import events
from farm.core.events import (
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    DrainRequested,
    Event,
    JobFinished,
    JobsSubmitted,
    JobStarted,
)
from farm.core.model import Builder
from farm.core.pools.retirement import pattern_of
from farm.emulation.builder import BuilderEvent
from farm.live.hosts.requested_builders import BuilderRequests
from farm.live.hosts.roster import HostState, Roster, UnknownHosts
from farm.live.hosts.submissions import Submissions
from farm.live.wire import messages as wire
from farm.live.wire.dead_letters import SHOWN, Reason, Refusals
from farm.live.wire.inbox import Entry
from farm.live.wire.messages import HostCommand, Play
from farm.live.wire.report_checks import flaw_of_message, readable

log = logging.getLogger(__name__)

OtherReport = wire.PlannerReport | wire.Ask

#: maximum number of present hosts
MAX_HOSTS = 10_000
#: slots of a builder that was not requested, if its pool's builders have fewer
MAX_OWN_SLOTS = 100


class Intake:
    """Keeps the roster of hosts and appends events to ``events``, stamped with farm time.

    Args:
        requests: the requested builders.
        roster: the known hosts.
        send: adds a command for a host to the current batch.
        refusals: collects refused messages.
        known: returns which of these jobs were submitted before; None: not checked.
    """

    def __init__(
        self,
        requests: BuilderRequests,
        roster: Roster,
        send: Callable[[HostState, HostCommand], None],
        refusals: Refusals | None = None,
        known: Callable[[Sequence[str]], Container[str]] | None = None,
    ) -> None:
        self.events: deque[Event] = deque()
        #: reports of provisioners and operators, for the control plane
        self.others: list[OtherReport] = []
        #: the last heartbeat of each host, in parts, to be compared with what it should hold
        self.beats: dict[str, list[tuple[HostState, wire.Beat]]] = {}
        self.submissions = Submissions(requests.pools.values(), self.events, self._refuse, known)
        self._requests = requests
        self._roster = roster
        self._unknown_hosts = UnknownHosts(roster.patience.grace)
        self._send = send
        self._refusals = refusals or Refusals()
        self._at_real = 0.0

    def take_in(self, entry: Entry, at: float, now: float) -> None:
        """Turn an envelope into events at farm time ``at``; ``now`` is real time (monotonic)."""
        self._at_real = now
        host = None
        if entry.stream == "reports":
            host = self._sender(entry, now)
            if host is None:
                return
        for report in entry.envelope.reports:
            if (flaw := flaw_of_message(report)) is not None:
                self._refuse(entry, "out-of-bounds", flaw, report)
            elif host is None:
                self._from_elsewhere(entry, report, at)
            elif not host.lost:
                self._from_host(host, entry, report, at)

    def _refuse(self, entry: Entry, reason: Reason, why: str, what: object = None) -> None:
        text = "" if what is None else msgspec.json.encode(what).decode()[:SHOWN]
        self._refusals.add(entry.refused(reason, why, text))

    def place(self) -> None:
        """Assign requested builders to hosts with room; the others wait for one."""
        wanted, self._requests.wanted = self._requests.wanted, deque()
        full: set[str] = set()
        for play in wanted:
            pool = play.builder.pool
            host = None if pool in full else self._roster.host_for(pool)
            if host is None:
                full.add(pool)
                self._requests.wanted.append(play)
            else:
                self._send(host, self._roster.assign(host, play, self._at_real))

    def lose(self, host: HostState, at: float, reason: str, *, excused: bool = False) -> None:
        """Declare a host lost with all its builders (``excused``: it was asked to leave)."""
        if host.plays:  # a host without builders had been dismissed
            log.warning("builder host %s is lost: %s", host.name, reason)
        for builder in self._roster.give_up(host):
            self._gone(BuilderLost(at, builder, reason, excused))
        self.place()

    def lose_hostless(self, builders: Iterable[str], at: float) -> None:
        """Declare those of the builders lost of whose host nothing is known."""
        reason = "nothing is known of its host any more"
        hostless = [builder for builder in builders if builder not in self._roster.host_of]
        self.events.extend(BuilderLost(at, builder, reason, excused=True) for builder in hostless)

    def give_up(self, builder: str, at: float, reason: str, *, excused: bool = False) -> None:
        """Give up a requested builder that will not join, or whose machine is gone."""
        host = self._roster.host_of.get(builder)
        if host is not None and host.own:
            self.lose(host, at, reason, excused=excused)
            return
        if builder not in self._requests.booting or (host is not None and builder in host.joined):
            return  # too late: it has joined, or was not requested
        self._requests.wanted = deque(p for p in self._requests.wanted if p.builder.id != builder)
        if host is not None:
            self._send(host, self._roster.retire(host, builder, self._at_real))
            self._roster.gone(builder)
        self._gone(BuilderLost(at, builder, readable(reason)))
        self.place()

    def _gone(self, event: BuilderLost | BuilderRetired) -> None:
        """Remove a builder that left or will not join."""
        self._requests.not_booting(event.builder)
        self.events.append(event)

    # --- hosts ------------------------------------------------------------------------------

    def _sender(self, entry: Entry, now: float) -> HostState | None:
        """Return the sending host; None if its life is unknown, or this is a repetition."""
        envelope = entry.envelope
        host = self._roster.hosts.get(envelope.sender)
        if host is None:
            host = self._new_host(entry, now)
        elif host.life != envelope.life:
            # a new life is accepted when the old one has left, or has been silent for too long
            why = f"host {envelope.sender} is there as another life"
            self._refuse(entry, "unknown-life", why)
            return None
        if host is None or envelope.seq <= host.seq:
            return None
        host.seq, host.heard_at = envelope.seq, now
        return host

    def _new_host(self, entry: Entry, now: float) -> HostState | None:
        """Accept a host with a new life; one that is still running must be reset first."""
        envelope = entry.envelope
        up = next((r for r in envelope.reports if isinstance(r, wire.HostUp)), None)
        if up is not None and (flaw := self._flaw_of_new_host(up)) is not None:
            self._refuse(entry, "out-of-bounds", flaw)
        elif up is not None:
            return self._roster.arrive(envelope.sender, envelope.life, now, up)
        else:
            self._refuse(entry, "unknown-life", f"host {envelope.sender} is not known as this life")
            beats = any(isinstance(report, wire.Beat) for report in envelope.reports)
            if beats and self._unknown_hosts.should_reset(envelope.sender, now):
                unknown = HostState(envelope.sender, envelope.life, heard_at=now)
                self._send(unknown, wire.Reset(envelope.life))
        return None

    def _flaw_of_new_host(self, up: wire.HostUp) -> str | None:
        if len(self._roster.hosts) >= MAX_HOSTS:
            return f"{MAX_HOSTS} hosts are there: no more are allowed"
        if self._roster.is_of_earlier_life(up.incarnation):
            return "it belongs to an earlier life of the farm"
        return flaw_of_message(up)

    def _on_beat(self, host: HostState, beat: wire.Beat, at: float) -> None:
        if not beat.after:  # the first part; the others follow at once
            self._roster.hear_beat(host)
            self.beats.pop(host.name, None)
        if beat.leaving:
            self._on_leaving(host, beat, at)
        self.beats.setdefault(host.name, []).append((host, beat))

    def _on_leaving(self, host: HostState, beat: wire.Beat, at: float) -> None:
        """Drain the builders of a leaving host; those not booted yet are assigned to others."""
        self.events.extend(
            DrainRequested(at, pattern_of(builder), retire=True)
            for builder in self._roster.leaves(host)
        )
        for builder, play in list(host.plays.items()):
            unplayed = builder not in beat.builders and beat.covers(builder)
            if builder not in host.joined and unplayed:
                self._roster.gone(builder)
                self._requests.wanted.append(play)
        self.place()

    def compare(self, host: HostState, beat: wire.Beat, queued: int, at: float) -> None:
        """Resend what is missing from a heartbeat, and declare lost attempts lost."""
        if host.lost:
            return
        self._roster.hear_progress(host, beat, at)
        again, lost, stuck = self._roster.check(host, beat, self._at_real, queued)
        for command in again:
            self._send(host, command)
        for dispatch in lost:
            job, attempt = dispatch.command.job.id, dispatch.command.attempt
            self._roster.over(host, (job, attempt))
            reason = "its builder does not know it"
            builder = dispatch.command.builder
            self.events.append(events.AttemptLost(at, job, attempt, builder, reason))
        if stuck:
            self.lose(host, at, "its host takes no commands")

    # --- builders and attempts --------------------------------------------------------------

    def _from_host(self, host: HostState, entry: Entry, report: wire.Report, at: float) -> None:
        if isinstance(report, wire.Beat):
            self._on_beat(host, report, at)
        elif isinstance(report, wire.HostUp):
            self.place()
        elif isinstance(report, wire.HostLeft):
            self.lose(host, at, "its host left", excused=True)
        elif isinstance(report, BuilderJoined):
            self._on_joined(host, entry, report, at)
        elif isinstance(report, JobStarted | JobFinished):
            self._on_attempt(host, entry, report, at)
        elif isinstance(report, BuilderEvent):
            if not _is_about_own(report, host):
                self._refuse(entry, "not-its-own", f"{host.name} does not play it", report)
            elif isinstance(report, BuilderRetired | BuilderLost):
                self._on_gone(report, at)
            else:
                self.events.append(wire.stamped(report, at))

    def _on_attempt(
        self, host: HostState, entry: Entry, report: JobStarted | JobFinished, at: float
    ) -> None:
        token = (report.job, report.attempt)
        dispatch = host.dispatches.get(token)
        if dispatch is None or dispatch.command.builder != report.builder:
            # another host's, or one that was given up in the meantime
            self._refuse(entry, "not-its-own", f"{host.name} has no such attempt", report)
            return
        if isinstance(report, JobStarted):
            self._roster.confirm(host, token)
            self.events.append(wire.stamped(report, at))
        else:
            self._roster.over(host, token)
            outcome, reason = report.outcome, readable(report.reason)
            self.events.append(JobFinished(at, *token, report.builder, outcome, reason))

    def _on_joined(self, host: HostState, entry: Entry, report: BuilderJoined, at: float) -> None:
        name = report.builder.id
        if name not in host.plays:
            found = self._own_builder(host, report.builder)
            if isinstance(found, str):
                self._refuse(entry, "not-its-own", found, report)
                return
            if (flaw := self._flaw_of_own(found.builder)) is not None:
                self._refuse(entry, "out-of-bounds", flaw, report)
                return
            self._roster.assign(host, found, self._at_real)
        # as requested, whatever the host reports
        builder = host.plays[name].builder
        self._roster.joined(host, name)
        self._requests.not_booting(name)
        self.events.append(BuilderJoined(at, builder))

    def _own_builder(self, host: HostState, builder: Builder) -> Play | str:
        """Return how a separate host (a container) runs its builder, or why it may not."""
        if not host.own or host.plays:
            return f"{host.name} was not told to play {builder.id}"
        if builder.id in self._roster.host_of:
            return f"another host plays {builder.id}"
        if builder.pool not in self._requests.pools or host.pool not in ("", builder.pool):
            return f"{host.name} may not play builders of pool {builder.pool}"
        if (play := self._requests.outside.get(builder.id)) is not None:
            return play
        if builder.id in self._requests.booting:
            return f"{builder.id} is to be played by another host"
        # it was not requested, and has no index yet
        return Play(builder=msgspec.structs.replace(builder, index=-1))

    def _flaw_of_own(self, builder: Builder) -> str | None:
        """Return why a builder that was not requested is too large for the scheduler's memory."""
        most = max(MAX_OWN_SLOTS, self._requests.pools[builder.pool].slots)
        if builder.index >= 0 or builder.slots <= most:
            return None
        return f"{builder.id} was not requested, and has {builder.slots} slots: at most {most}"

    def _on_gone(self, report: BuilderRetired | BuilderLost, at: float) -> None:
        self._roster.gone(report.builder)
        if isinstance(report, BuilderLost):
            report = BuilderLost(at, report.builder, readable(report.reason))
        self._gone(wire.stamped(report, at))
        self.place()

    # --- submitters, operators, provisioners, readers ---------------------------------------

    def _from_elsewhere(self, entry: Entry, report: wire.Report, at: float) -> None:
        if isinstance(report, JobsSubmitted):
            self.submissions.take(entry, report, at)
        elif isinstance(report, wire.LoadDone):
            self.submissions.end(at)
        elif isinstance(report, wire.Watch | wire.Plan) and report.pool not in self._requests.pools:
            self._refuse(entry, "out-of-bounds", f"there is no pool {report.pool!r:.100}", report)
        elif isinstance(report, OtherReport):
            self.others.append(report)
        elif isinstance(report, wire.Request):
            self.events.append(wire.stamped(report, at))


def _is_about_own(report: BuilderEvent, host: HostState) -> bool:
    if isinstance(report, DrainRequested):
        return report.pattern in map(pattern_of, host.plays)
    return not isinstance(report, BuilderJoined) and report.builder in host.plays
