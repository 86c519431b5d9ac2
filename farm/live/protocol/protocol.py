"""The protocol of a live farm: messages and commands in; events and commands for hosts out.

It is pure: instants are given, real ones as ``now`` (monotonic), farm time as ``at``. What a
successor must know of it is in records (``farm.live.store.saved``).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from farm.core.commands import Command, EndJob, RequestBuilder, SetAlarm
from farm.core.events import AlarmRang, BuilderLost, JobsSubmitted
from farm.core.pools.spec import PoolSpec
from farm.core.state.working_state import JobState
from farm.forecasts.runtime.interface import JobProgress
from farm.live.protocol.failure_detection import FailureDetector, Patience
from farm.live.protocol.hosts import Hosts
from farm.live.protocol.out import Out
from farm.live.protocol.plans import Plans
from farm.live.protocol.roster import BuilderRequests, Roster
from farm.live.protocol.submissions import LiveJobs, Submissions
from farm.live.store.saved import HostLife, SavedFarm
from farm.live.wire import messages as wire
from farm.live.wire.inbox import InboxEntry
from farm.live.wire.pool_report import HostRecord
from farm.live.wire.report_checks import flaw_of_message


class PoolStanding(NamedTuple):
    """What the protocol knows of a pool."""

    watch: wire.Watch | None
    plan: wire.Plan | None
    #: requested builders that no host plays yet
    unplaced: int
    #: builders that need no room on a host that stays
    elsewhere: int


class ForSuccessor(NamedTuple):
    """What the next scheduler must know beside jobs and builders."""

    #: hosts of which something is new; None: it is gone
    lives: dict[str, HostLife | None]
    #: requested builders, waiting for a host with room, or for hosts of their own
    wanted: tuple[wire.Play, ...]
    outside: tuple[wire.Play, ...]
    #: serial of the last job accepted
    accepted: int


class Protocol:
    """Knows hosts, requested builders, submissions and plans; what comes of it goes to ``out``.

    ``incarnation`` names the life of a farm whose hosts end with it; ``known``: see Submissions.
    """

    def __init__(
        self,
        out: Out,
        pools: Sequence[PoolSpec],
        speed: float,
        patience: Patience,
        incarnation: str,
        known: Callable[[Sequence[str]], Mapping[str, str]] | None = None,
    ) -> None:
        self.out = out
        self.roster = Roster(incarnation)
        self.failures = FailureDetector(self.roster, patience)
        self.builders = BuilderRequests(pools, speed)
        self.hosts = Hosts(self.roster, self.failures, self.builders, self.out)
        self._live = LiveJobs(pools)
        self.submissions = Submissions(self._live, self.out, known)
        self.plans = Plans(self.builders, self.hosts, self.out)
        #: builders were requested that no host was looked for yet
        self._to_be_placed = False
        #: the instants of alarms, farm time
        self._alarms: list[float] = []
        #: when messages were last read, real
        self._read_at = math.inf

    @property
    def changes(self) -> tuple[int, int]:
        """Counts of what changed about hosts and about plans."""
        return self.roster.changes, self.plans.changes

    @property
    def is_load_done(self) -> bool:
        """Whether nothing more is submitted."""
        return self.submissions.ended

    @property
    def known_hosts(self) -> Collection[str]:
        """The names of the hosts that are there."""
        return self.roster.hosts.keys()

    def host_records(self) -> dict[str, HostRecord]:
        """Return the hosts that are there, as they are published."""
        return {
            host.name: HostRecord(host.name, len(host.plays), host.own, host.leaving)
            for host in self.roster.hosts.values()
        }

    def standing(self, pool: str) -> PoolStanding:
        """Return what is known of a pool."""
        hosts = (host.plays for host in self.roster.hosts.values() if host.own or host.leaving)
        there = [*hosts, self.builders.outside]
        elsewhere = sum(play.builder.pool == pool for plays in there for play in plays.values())
        return PoolStanding(*self.plans.of(pool), self.builders.unplaced[pool], elsewhere)

    def next_plan_at(self, after: float) -> float:
        """Return the farm time of the next plan of any pool; infinity if none is planned."""
        return self.plans.next_at(after)

    def figures(self) -> dict[str, object]:
        """Return what it knows of the farm's status."""
        return {
            "submitted": self.submissions.accepted,
            "hosts": len(self.roster.hosts),
            "worst_delay": self.submissions.worst_delay,
            "unplaced": self.builders.unplaced,
        }

    def for_successor(self, *, anew: bool = False) -> ForSuccessor:
        """Return what the next scheduler must know; ``anew``: of all hosts, not only new things."""
        lives, builders = self.roster.take_changed(anew=anew), self.builders
        wanted, outside = tuple(builders.wanted.values()), tuple(builders.outside.values())
        return ForSuccessor(lives, wanted, outside, self.submissions.accepted)

    def progress(self, jobs: Mapping[str, JobState]) -> dict[str, JobProgress]:
        """Return what running attempts reported last, by job."""
        states = map(jobs.get, self.roster.jobs())
        found = ((state.job.id, self.progress_of(state)) for state in states if state)
        return {job: progress for job, progress in found if progress is not None}

    def progress_of(self, state: JobState) -> JobProgress | None:
        """Return the progress of a running attempt that its builder reported last, if any."""
        if state.slot is None or state.started_at is None:
            return None
        token = state.job.id, state.attempts
        found = self.roster.progress_of(token, state.slot.builder.builder.id)
        return (
            None if found is None else JobProgress(found[0], max(0.0, found[1] - state.started_at))
        )

    @property
    def booting(self) -> list[wire.Play]:
        """The builders that were requested and have not joined, as they are to be played."""
        hosts, requests = self.roster.hosts.values(), self.builders
        hosted = (host.plays[name] for host in hosts for name in host.plays.keys() - host.joined)
        return [*requests.wanted.values(), *requests.outside.values(), *hosted]

    @property
    def builders_to_host(self) -> int:
        """How many builders hosts play, or are to play."""
        return len(self.roster.host_of) + len(self.builders.wanted)

    def has_room(self, waiting: int, most: int) -> bool:
        """Whether more jobs are taken: fewer than ``most`` wait, a large one counted as several."""
        return waiting + self._live.extra < most

    def receive(
        self, entries: Sequence[InboxEntry], within: float, at: float, now: float
    ) -> list[str]:
        """Handle messages that were read at this instant, and were waited for so long.

        If they should have been read before, no host counts as silent. Returns the hosts of which
        must be known how many messages lie on their lists.
        """
        self.hosts.now = now
        if now - self._read_at > within + self.failures.patience.gap:
            self.failures.restart_timeouts(now)
        self._read_at = now
        for entry in entries:
            self.out.message = entry
            if entry.stream == "reports":
                is_news = not self.roster.was_sent_before(entry.id)
                self.hosts.hear(entry.envelope, at, is_news=is_news)
            else:
                for report in entry.envelope.reports:
                    self.take(report, at)
        self.out.message = None
        return self.hosts.unsure()

    def close(self, at: float) -> None:
        """Accept no more jobs."""
        self.submissions.close(at)

    def take(self, report: wire.Report, at: float) -> None:
        """Handle what a submitter, an operator or a provisioner says."""
        if (flaw := flaw_of_message(report)) is not None:
            self.out.refuse("out-of-bounds", flaw, report)
        elif isinstance(report, JobsSubmitted):
            self.submissions.take(report, at)
        elif isinstance(report, wire.LoadDone):
            self.submissions.end(at)
        elif isinstance(report, wire.PlannerReport):
            self.plans.take(report, at)
        elif isinstance(report, wire.Ask):
            self.out.asked.append(report)
        elif isinstance(report, wire.Request):
            self.out.add(wire.stamped(report, at))

    def obey(self, command: Command, now: float) -> None:
        """Carry out what the scheduler commands."""
        self.hosts.now = now
        if isinstance(command, EndJob):
            self._live.ended(command.job)
        elif isinstance(command, RequestBuilder):
            self.builders.request(command)
            self._to_be_placed = True
        elif isinstance(command, SetAlarm):
            heapq.heappush(self._alarms, command.rings_at)
        else:
            self.hosts.obey(command)

    def place(self) -> None:
        """Find hosts for the builders that were requested since the last time, all at once."""
        if self._to_be_placed:
            self._to_be_placed = False
            self.hosts.place()

    def due(self, now: float, real_until: Callable[[float], float]) -> float:
        """Return when something is to be done without a message: an alarm, a silence (real)."""
        alarm = self._alarms[0] if self._alarms else math.inf
        return min(now + real_until(alarm), self.failures.next_silence())

    def silent(self, since: float) -> bool:
        """Whether a host had been silent for too long at that instant (real)."""
        return bool(self.failures.silent(since))

    def restart_timeouts(self, now: float) -> None:
        """Let no time count in which no host could be heard."""
        self.failures.restart_timeouts(now)

    def settle(self, queued: Mapping[str, int], since: float, at: float) -> None:
        """Handle what follows from the messages, or from time: lost attempts and hosts, alarms.

        ``queued``: how many messages lie on the lists of the unsure hosts; ``since``: see
        ``silent``.
        """
        self.hosts.compare(queued, at)
        for host in self.failures.silent(since):
            # a container that ended before this scheduler began: stopped with it, for all it knows
            self.hosts.lose(host, at, "its host is silent", excused=not host.is_heard)
        while self._alarms and self._alarms[0] <= at:
            heapq.heappop(self._alarms)
            self.out.add(AlarmRang(at))

    def go_on(self, saved: SavedFarm, known: Sequence[str], at: float, now: float) -> None:
        """Continue a restored farm; ``known``: the builders that its scheduler has."""
        self.hosts.now = now
        self.builders.go_on(saved)
        self.roster.go_on(saved, self.failures.patience.silence, now)
        self.submissions.go_on(saved)
        self.hosts.place()
        # before hosts are given up, which forgets their builders: of a builder that is lost twice
        # the second loss would be that of the one that was requested by its name
        without_host = [name for name in known if name not in self.roster.host_of]
        for host in self.roster.of_earlier_lives():
            self.hosts.lose(host, at, "its farm ended", returns=True)
        reason = "nothing is known of its host any more"
        for builder in without_host:
            self.out.add(BuilderLost(at, builder, reason, excused=True, returns=True))
