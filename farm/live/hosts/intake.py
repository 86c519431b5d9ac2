"""The scheduler's door: reports become events of now; who is lost, and what is sent again."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Container, Sequence

import msgspec

from farm.core import events
from farm.core.events import (
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    Event,
    JobFinished,
    JobsSubmitted,
    JobStarted,
)
from farm.core.model import Job
from farm.core.pools.retirement import pattern_of
from farm.live.hosts.registry import HostState, Roster
from farm.live.hosts.requests import Fleet
from farm.live.wire import messages as wire
from farm.live.wire.job_limits import flaw_of
from farm.live.wire.messages import Envelope, HostCommand, Play

log = logging.getLogger(__name__)

OtherReport = wire.Watch | wire.Plan | wire.GiveUpBuilder | wire.Ask


class Intake:
    """Keeps the roster of hosts and appends events to ``events``, stamped with farm time.

    Args:
        fleet: which builders there are to be.
        roster: which hosts there are.
        send: puts a command to a host into the batch that is being made.
    """

    def __init__(
        self, fleet: Fleet, roster: Roster, send: Callable[[HostState, HostCommand], None]
    ) -> None:
        self.events: deque[Event] = deque()
        self.load_done = False
        #: submissions are not taken in any more
        self.closed = False
        self.jobs_taken_in = 0
        #: largest intended arrival -> intake, farm seconds
        self.worst_delay = 0.0
        #: what provisioners and operators said, for the one who looks after them
        self.others: list[OtherReport] = []
        #: tells which of these jobs were handed in before; None: nobody hands in twice
        self.known: Callable[[Sequence[str]], Container[str]] | None = None
        #: heartbeats to be compared with what their hosts ought to hold
        self.beats: list[tuple[HostState, wire.Beat]] = []
        #: ids taken in that the one who knows may not know yet
        self._just_now: set[str] = set()
        self._fleet = fleet
        self._roster = roster
        self._send = send
        self._at_real = 0.0

    def take_in(self, envelope: Envelope, at: float, now: float) -> None:
        """Turn one envelope into events at farm time ``at``; ``now`` is real (monotonic)."""
        self._at_real = now
        for report in envelope.reports:
            if isinstance(report, wire.HostUp):
                self._on_host_up(envelope, report, at, now)
            elif not isinstance(report, wire.HostReport):
                self._from_submitter(report, at)
            elif (host := self._speaker(envelope, now)) is not None:
                self._from_host(host, report, at)
            elif isinstance(report, JobStarted | JobFinished):
                # a life that is over reports on its attempts: the scheduler will ignore it
                self.events.append(wire.stamped(report, at))

    def place(self) -> None:
        """Give the builders that are wanted to hosts that have room; the others wait for one."""
        wanted, self._fleet.wanted = self._fleet.wanted, deque()
        full: set[str] = set()
        for play in wanted:
            pool = play.builder.pool
            host = None if pool in full else self._roster.host_for(pool)
            if host is None:
                full.add(pool)
                self._fleet.wanted.append(play)
            else:
                self._send(host, self._roster.assign(host, play, self._at_real))

    def lose(self, host: HostState, at: float, reason: str, *, excused: bool = False) -> None:
        """Give a host up: all its builders are lost (``excused``: it was told to go)."""
        if host.plays:  # one that plays nobody any more was let go
            log.warning("builder host %s is lost: %s", host.name, reason)
        for builder in self._roster.give_up(host):
            self._gone(BuilderLost(at, builder, reason, excused))
        self.place()

    def give_up(self, builder: str, at: float, reason: str) -> None:
        """A builder that was asked for will not come, or its machine is gone."""
        host = self._roster.host_of.get(builder)
        if host is not None and host.own:
            self.lose(host, at, reason)
            return
        if builder not in self._fleet.booting or (host is not None and builder in host.joined):
            return  # too late: it is there, or nobody asked for it
        self._fleet.wanted = deque(p for p in self._fleet.wanted if p.builder.id != builder)
        if host is not None:
            self._send(host, self._roster.retire(host, builder, self._at_real))
            self._roster.gone(builder)
        self._gone(BuilderLost(at, builder, reason))
        self.place()

    def _gone(self, event: BuilderLost | BuilderRetired) -> None:
        """A builder is no more, or will not come."""
        self._fleet.not_booting(event.builder)
        self.events.append(event)

    # --- hosts ------------------------------------------------------------------------------

    def _speaker(self, envelope: Envelope, now: float) -> HostState | None:
        """Return the host that speaks; None if this life of it is over."""
        host = self._roster.hosts.get(envelope.sender)
        if host is None:
            # it was up before this scheduler was: let it begin anew
            host = self._roster.arrive(envelope.sender, envelope.life, now)
            host.lost = True
        if host.lost and host.life == envelope.life:
            reset = self._roster.reset(host, envelope.life, now)
            if reset is not None:
                self._send(host, reset)
        if host.lost or host.life != envelope.life:
            return None
        host.heard_at = now
        return host

    def _on_host_up(self, envelope: Envelope, report: wire.HostUp, at: float, now: float) -> None:
        if self._roster.is_alien(report.incarnation):
            log.warning("refused host %s: it is of an earlier life of the farm", envelope.sender)
            return
        known = self._roster.hosts.get(envelope.sender)
        if known is not None and not known.lost:
            if known.life == envelope.life:
                return
            self.lose(known, at, "its host began a new life")
        self._roster.arrive(envelope.sender, envelope.life, now, report)
        self.place()

    def _on_beat(self, host: HostState, beat: wire.Beat, at: float) -> None:
        self._roster.hear_beat(host)
        if beat.leaving:
            self._on_leaving(host, beat, at)
        self.beats.append((host, beat))

    def _on_leaving(self, host: HostState, beat: wire.Beat, at: float) -> None:
        """Its builders finish what they run and go; another host plays whom it has not begun."""
        self.events.extend(
            events.DrainRequested(at, pattern_of(builder), retire=True)
            for builder in self._roster.leaves(host)
        )
        for builder, play in list(host.plays.items()):
            if builder not in host.joined and builder not in beat.builders:
                self._roster.gone(builder)
                self._fleet.wanted.append(play)
        self.place()

    def compare(self, host: HostState, beat: wire.Beat, queued: int, at: float) -> None:
        """Send again what a heartbeat shows to be missing, and declare lost what is lost."""
        if host.lost:
            return
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

    def _from_host(self, host: HostState, report: wire.HostReport, at: float) -> None:
        if isinstance(report, wire.Beat):
            self._on_beat(host, report, at)
        elif isinstance(report, wire.HostLeft):
            self.lose(host, at, "its host left", excused=True)
        elif isinstance(report, BuilderJoined):
            self._on_joined(host, report, at)
        elif isinstance(report, BuilderRetired | BuilderLost):
            self._on_gone(host, report, at)
        else:
            if isinstance(report, JobStarted):
                self._roster.confirm(host, (report.job, report.attempt))
            elif isinstance(report, JobFinished):
                self._roster.over(host, (report.job, report.attempt))
            self.events.append(wire.stamped(report, at))

    def _on_joined(self, host: HostState, report: BuilderJoined, at: float) -> None:
        builder = report.builder
        if builder.id not in host.plays:
            # a host that plays a builder of its own (a container): it is taken as it is, but for
            # its place among the others if it was not requested
            if builder.id not in self._fleet.booting:
                builder = msgspec.structs.replace(builder, index=-1)
            self._roster.assign(host, Play(builder=builder), self._at_real)
        self._roster.joined(host, builder.id)
        self._fleet.not_booting(builder.id)
        self.events.append(BuilderJoined(at, builder))

    def _on_gone(self, host: HostState, report: BuilderRetired | BuilderLost, at: float) -> None:
        if report.builder in host.plays:
            self._roster.gone(report.builder)
            self._gone(wire.stamped(report, at))
            self.place()

    # --- submitters -------------------------------------------------------------------------

    def _from_submitter(
        self, report: wire.SubmitterEvent | wire.LoadDone | OtherReport, at: float
    ) -> None:
        if isinstance(report, JobsSubmitted):
            self._on_submit(report, at)
        elif isinstance(report, wire.LoadDone):
            self.end_load(at)
        elif isinstance(report, OtherReport):
            self.others.append(report)
        else:
            self.events.append(wire.stamped(report, at))

    def end_load(self, at: float) -> None:
        """Nothing more is submitted; say so once."""
        if not self.load_done:
            self.load_done = True
            self.events.append(events.ArrivalsEnded(at))

    def _on_submit(self, report: JobsSubmitted, at: float) -> None:
        if self.closed:
            return
        flaws = [flaw for job in report.jobs if (flaw := flaw_of(job)) is not None]
        for flaw in flaws[:10]:
            log.warning("refused a submitted job: %s", flaw)
        jobs = report.jobs
        if flaws:
            jobs = tuple(job for job in jobs if flaw_of(job) is None)
        if self.known is not None and jobs:
            jobs = self._new(jobs, self.known([job.id for job in jobs]))
        if not jobs:
            return
        self.jobs_taken_in += len(jobs)
        first = min((job.arrived_at for job in jobs if job.arrived_at is not None), default=at)
        self.worst_delay = max(self.worst_delay, at - first)
        self.events.append(JobsSubmitted(at, jobs))

    def _new(self, jobs: Sequence[Job], known: Container[str]) -> tuple[Job, ...]:
        """Leave out those that were handed in before, an instant before too."""
        if not self.events:
            self._just_now.clear()
        new: list[Job] = []
        for job in jobs:
            if job.id not in known and job.id not in self._just_now:
                self._just_now.add(job.id)
                new.append(job)
        return tuple(new)
