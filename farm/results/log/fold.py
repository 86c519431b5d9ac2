"""The farm's state at any instant, as a fold over the event log; and series sampled from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from farm.core.commands import (
    Command,
    DrainBuilder,
    EndJob,
    Ignored,
    RequestBuilder,
    RequeueJob,
    RetireBuilder,
    StartJob,
)
from farm.core.events import (
    AttemptLost,
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    DrainRequested,
    Event,
    JobFinished,
    JobsSubmitted,
    JobStarted,
    UndrainRequested,
)
from farm.results.json_names import json_name
from farm.results.log.reader import Entry

BuilderStateName = Literal["requested", "idle", "busy", "draining", "retired", "lost"]
JobStateName = Literal["waiting", "dispatched", "running"]


class FarmCounts(msgspec.Struct, frozen=True, rename=json_name):
    """Counts at one instant. Ended jobs and builders that left are counted since the start."""

    at: float
    waiting: int
    dispatched: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    builders_requested: int
    builders_idle: int
    builders_busy: int
    builders_draining: int
    builders_retired: int
    builders_lost: int
    slots: int
    busy_slots: int


class FoldedBuilder(msgspec.Struct):
    """A builder as the log describes it."""

    pool: str
    state: BuilderStateName
    slots: int = 0
    busy: int = 0
    joined: bool = False
    draining: bool = False
    leaving: bool = False


class FarmFold:
    """Observer that keeps the state of the farm: counts, jobs and builders by state.

    A job that another's execution serves (same action) counts as waiting until it ends.
    """

    def __init__(self) -> None:
        self.at = 0.0
        #: the jobs that have not ended, by id
        self.jobs: dict[str, JobStateName] = {}
        #: the builders that are requested or present, by id
        self.builders: dict[str, FoldedBuilder] = {}
        self._job_counts: Counter[str] = Counter()
        self._builder_counts: Counter[str] = Counter()
        self._slots = self._busy_slots = 0
        #: attempts that hold a slot: job -> builder
        self._placed: dict[str, str] = {}
        self._take: dict[type, Callable[[Any], None]] = {
            JobsSubmitted: self._submitted,
            JobStarted: self._started,
            JobFinished: self._attempt_over,
            AttemptLost: self._attempt_over,
            BuilderJoined: self._joined,
            BuilderRetired: lambda event: self._gone(event.builder, "retired"),
            BuilderLost: lambda event: self._gone(event.builder, "lost"),
            DrainRequested: self._drained,
            UndrainRequested: self._undrained,
            StartJob: self._dispatched,
            RequeueJob: self._requeued,
            EndJob: self._ended,
            RequestBuilder: self._requested,
            DrainBuilder: self._told_to_go,
            RetireBuilder: self._told_to_go,
        }

    def __call__(self, event: Event, commands: Sequence[Command]) -> None:
        """Take in one event and its commands; a stale event only advances the time."""
        self.at = event.at
        if type(commands) is Ignored:
            return
        for value in (event, *commands):
            take = self._take.get(type(value))
            if take is not None:
                take(value)

    def counts(self, at: float | None = None) -> FarmCounts:
        """Return the current counts, dated ``at`` (default: the last event)."""
        jobs, builders = self._job_counts, self._builder_counts
        values: list[Any] = [
            self.at if at is None else at,
            *(jobs[state] for state in _JOB_STATES),
            *(builders[state] for state in _BUILDER_STATES),
            self._slots,
            self._busy_slots,
        ]
        return FarmCounts(*values)

    # --- jobs -------------------------------------------------------------------------------

    def _submitted(self, event: JobsSubmitted) -> None:
        for job in event.jobs:
            if job.id not in self.jobs:
                self._set_job(job.id, "waiting")

    def _dispatched(self, command: StartJob) -> None:
        name = command.job.id
        self._placed[name] = command.builder
        self._occupy(command.builder, 1)
        if name in self.jobs:  # otherwise it has ended, and its execution serves others
            self._set_job(name, "dispatched")

    def _requeued(self, command: RequeueJob) -> None:
        if command.job in self.jobs:
            self._set_job(command.job, "waiting")

    def _started(self, event: JobStarted) -> None:
        if event.job in self.jobs:
            self._set_job(event.job, "running")

    def _attempt_over(self, event: JobFinished | AttemptLost) -> None:
        builder = self._placed.pop(event.job, None)
        if builder is not None:
            self._occupy(builder, -1)

    def _ended(self, command: EndJob) -> None:
        before = self.jobs.pop(command.job.id, None)
        if before is not None:
            self._job_counts[before] -= 1
            self._job_counts[command.outcome] += 1

    def _set_job(self, name: str, state: JobStateName) -> None:
        before = self.jobs.get(name)
        if before is not None:
            self._job_counts[before] -= 1
        self.jobs[name] = state
        self._job_counts[state] += 1

    # --- builders ---------------------------------------------------------------------------

    def _requested(self, command: RequestBuilder) -> None:
        builder = command.builder
        self.builders[builder.id] = FoldedBuilder(builder.pool, "requested")
        self._builder_counts["requested"] += 1

    def _joined(self, event: BuilderJoined) -> None:
        name, slots = event.builder.id, event.builder.slots
        builder = self.builders.get(name)
        if builder is None:
            builder = self.builders[name] = FoldedBuilder(event.builder.pool, "requested")
            self._builder_counts["requested"] += 1
        builder.slots, builder.joined = slots, True
        self._slots += slots
        self._settle(builder)

    def _gone(self, name: str, state: Literal["retired", "lost"]) -> None:
        builder = self.builders.pop(name, None)
        if builder is None:
            return
        self._slots -= builder.slots
        self._busy_slots -= builder.busy
        self._builder_counts[builder.state] -= 1
        self._builder_counts[state] += 1
        if builder.busy:
            for job in [job for job, where in self._placed.items() if where == name]:
                del self._placed[job]

    def _drained(self, event: DrainRequested) -> None:
        for builder in self._named(event.pattern):
            builder.draining = True
            builder.leaving = builder.leaving or event.retire
            self._settle(builder)

    def _undrained(self, event: UndrainRequested) -> None:
        for builder in self._named(event.pattern):
            builder.draining = builder.leaving
            self._settle(builder)

    def _told_to_go(self, command: DrainBuilder | RetireBuilder) -> None:
        builder = self.builders.get(command.builder)
        if builder is not None:
            builder.draining = builder.leaving = True
            self._settle(builder)

    def _occupy(self, name: str, slots: int) -> None:
        builder = self.builders.get(name)
        if builder is not None:
            builder.busy += slots
            self._busy_slots += slots
            self._settle(builder)

    def _settle(self, builder: FoldedBuilder) -> None:
        """Set the state of a present builder from its flags."""
        if builder.draining:
            state: BuilderStateName = "draining"
        else:
            state = "busy" if builder.busy else "idle"
        if state != builder.state:
            self._builder_counts[builder.state] -= 1
            self._builder_counts[state] += 1
            builder.state = state

    def _named(self, pattern: str) -> list[FoldedBuilder]:
        return [b for name, b in self.builders.items() if b.joined and fnmatchcase(name, pattern)]


_JOB_STATES = ("waiting", "dispatched", "running", "succeeded", "failed", "cancelled")
_BUILDER_STATES = ("requested", "idle", "busy", "draining", "retired", "lost")


def fold(entries: Iterable[Entry]) -> FarmFold:
    """Return the state after all entries."""
    farm = FarmFold()
    for entry in entries:
        farm(entry.event, entry.commands)
    return farm


def sample(
    entries: Iterable[Entry], interval: float, until: float | None = None
) -> Iterator[FarmCounts]:
    """Yield the counts at 0, interval, 2·interval …, each with all events up to and at that time.

    The series ends with the last sample that is not after ``until`` (default: the last event).
    Raises ValueError for an interval that is not positive.
    """
    if not interval > 0:
        raise ValueError(f"interval {interval} is not positive")
    farm, number = FarmFold(), 0
    for entry in entries:
        while (at := number * interval) < entry.event.at and (until is None or at <= until):
            yield farm.counts(at)
            number += 1
        if until is not None and entry.event.at > until:
            return
        farm(entry.event, entry.commands)
    end = farm.at if until is None else until
    while (at := number * interval) <= end:
        yield farm.counts(at)
        number += 1
