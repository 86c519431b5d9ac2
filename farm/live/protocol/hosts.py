"""What builder hosts say: events come of it, and commands for them.

Reports of a host are accepted only about the builders that it runs and the attempts that it was
given; all others are refused.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from farm.core import events
from farm.core.commands import CancelJob, Command, LoseBuilder, RetireBuilder, StartJob
from farm.core.events import (
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    DrainRequested,
    JobFinished,
    JobStarted,
    pattern_of,
)
from farm.emulation.builder import BuilderEvent
from farm.live.protocol.failure_detection import FailureDetector
from farm.live.protocol.out import Out
from farm.live.protocol.roster import BuilderRequests, HostState, Roster
from farm.live.wire import messages as wire
from farm.live.wire.messages import Envelope, HostCommand
from farm.live.wire.report_checks import flaw_of_message, readable

log = logging.getLogger(__name__)

#: maximum number of present hosts
MAX_HOSTS = 10_000
#: unknown senders that are reset within the grace
MAX_RESET = 100


class Hosts:
    """Keeps the roster of hosts; events, commands and refusals go to ``out``.

    Farm time is given as ``at``; real time (monotonic) is ``now``, which the protocol sets.
    """

    def __init__(
        self, roster: Roster, failures: FailureDetector, builders: BuilderRequests, out: Out
    ) -> None:
        self._roster, self._failures = roster, failures
        self._builders, self._out = builders, out
        #: the last heartbeat of each host, in parts, to be compared with what it should hold
        self._beats: dict[str, list[tuple[HostState, wire.Beat]]] = {}
        #: when unknown senders were reset, the longest ago first
        self._reset_at: dict[str, float] = {}
        self.now = 0.0

    def hear(self, envelope: Envelope[wire.Report], at: float, *, is_news: bool = True) -> None:
        """Handle what a host says; ``is_news``: it was sent since this scheduler began."""
        if (host := self._sender(envelope, is_news)) is None:
            return
        for report in envelope.reports:
            if (flaw := flaw_of_message(report)) is not None:
                self._out.refuse("out-of-bounds", flaw, report)
            elif not host.lost:
                self._take(host, report, at)

    def obey(self, command: Command) -> None:
        """Send a command that is for a builder; if its host is gone, its loss is known next."""
        if not isinstance(command, StartJob | CancelJob | RetireBuilder | LoseBuilder):
            return
        if (host := self._roster.host_of.get(command.builder)) is None:
            return
        if isinstance(command, StartJob):
            self._roster.dispatch(host, command, self.now)
        elif isinstance(command, CancelJob):
            self._roster.cancel(host, command, self.now)
        elif isinstance(command, RetireBuilder):
            self._roster.retire(host, command.builder, self.now)
        self._send(host, command)

    def _send(self, host: HostState, command: HostCommand) -> None:
        self._out.to_hosts.append((host.name, command))

    def place(self) -> None:
        """Assign requested builders to hosts with room; the others wait for one."""
        full: set[str] = set()
        for builder, play in list(self._builders.wanted.items()):
            pool = play.builder.pool
            host = None if pool in full else self._roster.host_for(pool)
            if host is None:
                full.add(pool)
            else:
                del self._builders.wanted[builder]
                self._send(host, self._roster.assign(host, play, self.now))

    def lose(
        self,
        host: HostState,
        at: float,
        reason: str,
        *,
        excused: bool = False,
        returns: bool = False,
    ) -> None:
        """Declare a host lost with all its builders.

        Args:
            host: the host.
            at: now, farm time.
            reason: why, for people.
            excused: it was asked to leave, so that the loss counts against no job
                (``farm.core.jobs.requeueing``). It may be started again, as by farm down, farm up.
            returns: it was not, and yet is started again, with its farm.
        """
        if host.plays and not excused:  # a host without builders had been dismissed
            log.warning("builder host %s is lost: %s", host.name, reason)
        for builder in self._roster.give_up(host):
            self._gone(BuilderLost(at, builder, reason, excused, returns=excused or returns))
        self.place()

    def give_up(self, builder: str, at: float, reason: str, *, excused: bool = False) -> None:
        """Give up a requested builder that will not join, or whose machine is gone."""
        host = self._roster.host_of.get(builder)
        if host is not None and host.own:
            self.lose(host, at, reason, excused=excused)
            return
        builders = self._builders
        if builder not in builders.wanted and builder not in builders.outside:
            if host is None or builder in host.joined:
                return  # too late: it has joined, or was not requested
            self._send(host, self._roster.retire(host, builder, self.now))
            self._roster.gone(builder)
        # no job can have run on it, so there is nothing to excuse
        self._gone(BuilderLost(at, builder, readable(reason)))
        self.place()

    def _gone(self, event: BuilderLost | BuilderRetired) -> None:
        """Remove a builder that left or will not join."""
        self._builders.forget(event.builder)
        self._out.add(event)

    # --- hosts ------------------------------------------------------------------------------

    def _sender(self, envelope: Envelope[wire.Report], is_news: bool) -> HostState | None:
        """Return the sending host, after noting that it was heard; None: it is not listened to.

        A host is known by its name and by its life, a number that it draws whenever it begins anew.

        ======================  ============================================================
        the roster has          and then
        ======================  ============================================================
        this life               it is heard, unless the envelope is a repetition; one older than
                                this scheduler is read, too, but is no sign that the host lives
        another life of it      it is refused until that one has left or was silent too long
        no host of this name    it is admitted if it says what it is (``HostUp``); else it is
                                refused, and told to begin anew
        ======================  ============================================================
        """
        host = self._roster.hosts.get(envelope.sender)
        if host is None:
            host = self._admitted(envelope)
        elif host.life != envelope.life:
            why = f"host {envelope.sender} is there as another life"
            self._out.refuse("unknown-life", why)
            return None
        if host is None or envelope.seq <= host.seq:
            return None
        host.seq = envelope.seq
        if is_news:
            host.heard_at = self.now
            host.is_heard = True
        return host

    def _admitted(self, envelope: Envelope[wire.Report]) -> HostState | None:
        """Admit a host that the roster does not have, if it says what it is; None: refused.

        One that only sends heartbeats was given up for lost, or was up before this scheduler. It is
        reset: it may play builders, and run attempts, that are somewhere else by now.
        """
        up = next((r for r in envelope.reports if isinstance(r, wire.HostUp)), None)
        if up is not None:
            flaw = self._flaw_of_new_host(up)
            if flaw is None:
                return self._roster.arrive(envelope.sender, envelope.life, self.now, up)
            self._out.refuse("out-of-bounds", flaw)
            return None
        self._out.refuse("unknown-life", f"host {envelope.sender} is not known as this life")
        beats = any(isinstance(report, wire.Beat) for report in envelope.reports)
        if beats and self._may_reset(envelope.sender):
            unknown = HostState(envelope.sender, envelope.life, heard_at=self.now)
            self._send(unknown, wire.Reset(envelope.life))
        return None

    def _may_reset(self, sender: str) -> bool:
        """Return whether a sender may be reset: once within the grace, and not too many of them.

        What claims to be a host need not be one, so its claims must not fill this process's memory.
        """
        since = self.now - self._failures.patience.grace
        recent = self._reset_at = {name: at for name, at in self._reset_at.items() if at > since}
        if sender in recent or len(recent) >= MAX_RESET:
            return False
        recent[sender] = self.now
        return True

    def _flaw_of_new_host(self, up: wire.HostUp) -> str | None:
        if len(self._roster.hosts) >= MAX_HOSTS:
            return f"{MAX_HOSTS} hosts are there: no more are allowed"
        if self._roster.is_of_earlier_life(up.incarnation):
            return "it belongs to an earlier life of the farm"
        return flaw_of_message(up)

    def _on_beat(self, host: HostState, beat: wire.Beat, at: float) -> None:
        if not beat.after:  # the first part; the others follow at once
            host.begun_since_beat.clear()  # it covers everything reported before it
            self._beats.pop(host.name, None)
        if beat.leaving:
            self._on_leaving(host, beat, at)
        self._beats.setdefault(host.name, []).append((host, beat))

    def _on_leaving(self, host: HostState, beat: wire.Beat, at: float) -> None:
        """Drain the builders of a leaving host; those not booted yet are assigned to others.

        The host drops the latter itself (``workers.host``), and waits for the attempts of the
        others. That it has dropped one shows in its heartbeat.
        """
        for builder in self._roster.leaves(host):
            self._out.add(DrainRequested(at, pattern_of(builder), retire=True))
        for builder, play in list(host.plays.items()):
            unplayed = builder not in beat.builders and beat.covers(builder)
            if builder not in host.joined and unplayed:
                self._roster.gone(builder)
                self._builders.wanted[builder] = play
        self.place()

    def unsure(self) -> list[str]:
        """Return the hosts that may miss something: how much lies on their lists decides."""
        misses = self._failures.misses_something
        beats = self._beats.items()
        return [name for name, parts in beats if any(misses(*part, self.now) for part in parts)]

    def compare(self, queued: Mapping[str, int], at: float) -> None:
        """Compare the last heartbeats with what hosts should hold; ``queued``: on their lists."""
        beats, self._beats = self._beats, {}
        for name, parts in beats.items():
            for host, beat in parts:
                if not host.lost:
                    self._compare(host, beat, queued.get(name, 0), at)

    def _compare(self, host: HostState, beat: wire.Beat, queued: int, at: float) -> None:
        """Resend what is missing from a heartbeat, and declare lost attempts lost."""
        self._roster.hear_progress(host, beat, at)
        again, lost, stuck = self._failures.check(host, beat, self.now, queued)
        for command in again:
            self._send(host, command)
        for dispatch in lost:
            start, reason = dispatch.command, "its builder does not know it"
            token = start.job.id, start.attempt
            host.dispatches.pop(token, None)
            self._out.add(events.AttemptLost(at, *token, start.builder, reason))
        if stuck:
            self.lose(host, at, "its host takes no commands")

    # --- builders and attempts --------------------------------------------------------------

    def _take(self, host: HostState, report: wire.Report, at: float) -> None:
        if isinstance(report, wire.Beat):
            self._on_beat(host, report, at)
        elif isinstance(report, wire.HostUp):
            self.place()
        elif isinstance(report, wire.HostLeft):
            self.lose(host, at, "its host left", excused=True)
        elif isinstance(report, BuilderJoined):
            self._on_joined(host, report, at)
        elif isinstance(report, JobStarted | JobFinished):
            self._on_attempt(host, report, at)
        elif isinstance(report, BuilderEvent):
            if not _is_about_own(report, host):
                self._out.refuse("not-its-own", f"{host.name} does not play it", report)
            elif isinstance(report, BuilderRetired | BuilderLost):
                self._on_gone(report, at)
            else:
                self._out.add(wire.stamped(report, at))

    def _on_attempt(self, host: HostState, report: JobStarted | JobFinished, at: float) -> None:
        token = (report.job, report.attempt)
        dispatch = host.dispatches.get(token)
        if dispatch is None or dispatch.command.builder != report.builder:
            # another host's, or one that was given up in the meantime
            self._out.refuse("not-its-own", f"{host.name} has no such attempt", report)
            return
        if isinstance(report, JobStarted):
            self._roster.confirm(host, token)
            self._out.add(wire.stamped(report, at))
        else:
            del host.dispatches[token]
            outcome, reason = report.outcome, readable(report.reason)
            self._out.add(JobFinished(at, *token, report.builder, outcome, reason))

    def _on_joined(self, host: HostState, report: BuilderJoined, at: float) -> None:
        name = report.builder.id
        if name not in host.plays:
            taken = name in self._roster.host_of
            found = self._builders.own(host, report.builder, taken=taken)
            if isinstance(found, str):
                self._out.refuse("not-its-own", found, report)
                return
            if (flaw := self._builders.flaw_of_own(found.builder)) is not None:
                self._out.refuse("out-of-bounds", flaw, report)
                return
            self._roster.assign(host, found, self.now)
        # as requested, whatever the host reports
        builder = host.plays[name].builder
        self._roster.joined(host, name)
        self._builders.forget(name)
        self._out.add(BuilderJoined(at, builder))

    def _on_gone(self, report: BuilderRetired | BuilderLost, at: float) -> None:
        self._roster.gone(report.builder)
        if isinstance(report, BuilderLost):
            report = BuilderLost(at, report.builder, readable(report.reason))
        self._gone(wire.stamped(report, at))
        self.place()


def _is_about_own(report: BuilderEvent, host: HostState) -> bool:
    if isinstance(report, DrainRequested):
        return report.pattern in map(pattern_of, host.plays)
    return not isinstance(report, BuilderJoined) and report.builder in host.plays
