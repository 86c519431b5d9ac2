"""What hosts and submitters report, turned into facts; who is lost, and what is sent again."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Any

import msgspec

from farm.core import events
from farm.core.events import Event
from farm.core.model import Job
from farm.core.pools.retirement import pattern_of
from farm.live.hosts.registry import HostState, Roster
from farm.live.hosts.requests import Fleet
from farm.live.wire import messages as wire
from farm.live.wire.job_limits import flaw_of
from farm.live.wire.messages import Envelope, Order, Play

log = logging.getLogger(__name__)

OtherReport = wire.Watch | wire.Plan | wire.GiveUpBuilder | wire.Ask


class Intake:
    """Keeps the roster of hosts and appends facts to ``facts``, stamped with farm time.

    Args:
        fleet: which builders there are to be.
        roster: which hosts there are.
        send: puts an order to a host into the batch that is being made.
    """

    def __init__(
        self, fleet: Fleet, roster: Roster, send: Callable[[HostState, Order], None]
    ) -> None:
        self.facts: deque[Event] = deque()
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
        self._takers: dict[type, Callable[[HostState, Any, float], None]] = {
            wire.Beat: self._on_beat,
            wire.BuilderUp: self._on_builder_up,
            wire.BuilderGone: self._on_builder_gone,
            wire.Started: self._on_started,
            wire.Finished: self._on_finished,
            wire.Cleaned: self._on_cleaned,
            wire.Load: self._on_load,
            wire.HostLeft: self._on_host_left,
        }
        self._at_real = 0.0

    def take_in(self, envelope: Envelope, at: float, now: float) -> None:
        """Turn one envelope into facts at farm time ``at``; ``now`` is real (monotonic)."""
        self._at_real = now
        for report in envelope.reports:
            kind = type(report)
            if kind in self._takers:
                host = self._speaker(envelope, now)
                if host is not None:
                    self._takers[kind](host, report, at)
                else:
                    self._from_the_past(report, at)
            elif isinstance(report, wire.HostUp):
                self._on_host_up(envelope, report, at, now)
            else:
                self._from_submitter(report, at)

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
            self._gone(events.BuilderLost(at, builder, reason, excused))
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
        self._gone(events.BuilderLost(at, builder, reason))
        self.place()

    def _gone(self, event: events.BuilderLost | events.BuilderRetired) -> None:
        """A builder is no more, or will not come."""
        self._fleet.not_booting(event.builder)
        self.facts.append(event)

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
        known = self._roster.hosts.get(envelope.sender)
        if known is not None and not known.lost:
            if known.life == envelope.life:
                return
            self.lose(known, at, "its host began a new life")
        self._roster.arrive(envelope.sender, envelope.life, now, report)
        self.place()

    def _on_host_left(self, host: HostState, _: wire.HostLeft, at: float) -> None:
        self.lose(host, at, "its host left", excused=True)

    def _on_beat(self, host: HostState, beat: wire.Beat, at: float) -> None:
        self._roster.hear_beat(host)
        if beat.leaving:
            self._on_leaving(host, beat, at)
        self.beats.append((host, beat))

    def _on_leaving(self, host: HostState, beat: wire.Beat, at: float) -> None:
        """Its builders finish what they run and go; another host plays whom it has not begun."""
        self.facts.extend(
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
        for order in again:
            self._send(host, order)
        for dispatch in lost:
            order = dispatch.order
            self._roster.over(host, (order.job.id, order.attempt))
            reason = "its builder does not know it"
            self.facts.append(
                events.AttemptLost(at, order.job.id, order.attempt, order.builder, reason)
            )
        if stuck:
            self.lose(host, at, "its host takes no orders")

    # --- builders and attempts --------------------------------------------------------------

    def _on_builder_up(self, host: HostState, report: wire.BuilderUp, at: float) -> None:
        builder = report.builder
        if builder.id not in host.plays:
            # a host that plays a builder of its own (a container): it is taken as it is, but for
            # its place among the others if it was not requested
            if builder.id not in self._fleet.booting:
                builder = msgspec.structs.replace(builder, index=-1)
            self._roster.assign(host, Play(v=wire.VERSION, builder=builder), self._at_real)
        self._roster.joined(host, builder.id)
        self._fleet.not_booting(builder.id)
        self.facts.append(events.BuilderJoined(at, builder))

    def _on_builder_gone(self, host: HostState, report: wire.BuilderGone, at: float) -> None:
        name = report.builder
        if name not in host.plays:
            return
        self._roster.gone(name)
        lost = events.BuilderLost(at, name, "lost")
        self._gone(lost if report.lost else events.BuilderRetired(at, name))
        self.place()

    def _on_started(self, host: HostState, report: wire.Started, at: float) -> None:
        self._roster.confirm(host, (report.job, report.attempt))
        self.facts.append(events.JobStarted(at, report.job, report.attempt, report.builder))

    def _on_finished(self, host: HostState, report: wire.Finished, at: float) -> None:
        self._roster.over(host, (report.job, report.attempt))
        self.facts.append(_finished(report, at))

    def _on_cleaned(self, _: HostState, report: wire.Cleaned, at: float) -> None:
        self.facts.append(events.SlotCleaned(at, report.builder, report.slot))

    def _on_load(self, _: HostState, report: wire.Load, at: float) -> None:
        self.facts.append(events.LoadReported(at, report.builder, report.load, report.overloaded))

    def _from_the_past(self, report: object, at: float) -> None:
        """A life that is over speaks of its attempts: a fact that the scheduler will ignore."""
        if isinstance(report, wire.Started):
            self.facts.append(events.JobStarted(at, report.job, report.attempt, report.builder))
        elif isinstance(report, wire.Finished):
            self.facts.append(_finished(report, at))

    # --- submitters -------------------------------------------------------------------------

    def _from_submitter(self, report: wire.Report, at: float) -> None:
        if isinstance(report, wire.LoadDone):
            self.end_load(at)
        elif isinstance(report, wire.Submit):
            self._on_submit(report, at)
        elif isinstance(report, wire.Cancel):
            self.facts.append(
                events.CancelRequested(
                    at, report.jobs, report.matrix, report.invocation, report.reason
                )
            )
        elif isinstance(report, wire.ChangePriority):
            self.facts.append(
                events.PriorityChanged(at, report.job, report.level, report.score, report.priority)
            )
        elif isinstance(report, wire.Drain):
            self.facts.append(events.DrainRequested(at, report.pattern, report.retire))
        elif isinstance(report, wire.Undrain):
            self.facts.append(events.UndrainRequested(at, report.pattern))
        elif isinstance(report, wire.Watch | wire.Plan | wire.GiveUpBuilder | wire.Ask):
            self.others.append(report)

    def end_load(self, at: float) -> None:
        """Nothing more is submitted; say so once."""
        if not self.load_done:
            self.load_done = True
            self.facts.append(events.ArrivalsEnded(at))

    def _on_submit(self, report: wire.Submit, at: float) -> None:
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
        self.facts.append(events.JobsSubmitted(at, jobs))

    def _new(self, jobs: Sequence[Job], known: Container[str]) -> tuple[Job, ...]:
        """Leave out those that were handed in before, an instant before too."""
        if not self.facts:
            self._just_now.clear()
        new: list[Job] = []
        for job in jobs:
            if job.id not in known and job.id not in self._just_now:
                self._just_now.add(job.id)
                new.append(job)
        return tuple(new)


def _finished(report: wire.Finished, at: float) -> Event:
    return events.JobFinished(
        at, report.job, report.attempt, report.builder, report.outcome, report.reason
    )
