"""The tables of a run, and the observer that fills them.

``EndJob`` already contains a job's whole history, so nothing is copied during a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import nan
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from farm.columns import Coded, Numbers, coded, integers, total
from farm.core.commands import Command, EndJob, Ignored, RequestBuilder, RequeueJob, StartJob
from farm.core.events import (
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    EstimateMade,
    Event,
    JobsSubmitted,
)
from farm.core.model import Cause, Job
from farm.records.attempt import Happened
from farm.results.table.builder_columns import Attempts, BuilderLives, Builders, VoidAttempt
from farm.results.table.job_columns import OUTCOMES, Edges, Jobs, RecordedColumns


class RunRecords(msgspec.Struct, kw_only=True, eq=False, dict=True):
    """What is known of a run; all tables use the same numbers for builders."""

    #: in order of ending
    jobs: Jobs
    #: those that were submitted and never ended
    lost: Jobs
    builders: Builders
    void: Attempts
    #: events handled, stale ones included
    events: int
    #: farm time of the last event, or the run's end: until then builders that did not leave stayed
    last_at: float
    #: the rows of ``jobs``, and of ``lost``, in a workload that is one trace; None: go by ids
    rows: Sequence[Numbers] | None = None
    #: the needs of jobs by their rows, those of ``lost`` behind those of ``jobs``; None: go by ids
    edges: Edges | None = None

    @property
    def count(self) -> int:
        """The number of jobs."""
        return len(self.jobs) + len(self.lost)

    @cached_property
    def attempts(self) -> Attempts:
        """Every ended attempt that held a slot."""
        return Attempts.all(self.jobs, self.void)

    @cached_property
    def pool_of(self) -> Numbers:
        """The pool of each builder, by number; -1: neither requested nor joined."""
        numbered = (table.builder.codes for table in (self.builders, self.jobs, self.void))
        most = max(int(numbers.max(initial=-1)) for numbers in numbered)
        pools: Numbers = np.full(most + 2, -1, np.int64)  # the last entry is for builder -1: none
        pools[self.builders.builder.codes] = self.builders.pool.codes
        return pools

    def having(self, **more: object) -> RunRecords:
        """Return the same with more that is common to all jobs (``Jobs``), and their builders."""
        tables = (self.jobs, self.lost)
        boots = self.builders.booting_times
        jobs, lost = (table.having(booting_times=boots, **more) for table in tables)
        return msgspec.structs.replace(self, jobs=jobs, lost=lost)

    def beside(self, recorded: Sequence[tuple[Callable[[], list[str]], Happened]]) -> RunRecords:
        """Return the same with what really happened to the jobs of each trace, by their ids."""
        if not recorded:
            return self
        known = RecordedColumns.of(Happened.joined([happened for _, happened in recorded]))
        tables, rows = (self.jobs, self.lost), self.rows
        if rows is None:
            every = (one for ids, _ in recorded for one in ids())
            places = {one: row for row, one in enumerate(every)}
            rows = [integers(map(places.get, table.job_id.tolist())) for table in tables]
        jobs, lost = (
            table.having(recorded=known, recorded_row=row)
            for table, row in zip(tables, rows, strict=True)
        )
        return msgspec.structs.replace(self, jobs=jobs, lost=lost)

    def saved_time(self, jobs: Jobs) -> float:
        """Return the slot time that fail-fast saved among these jobs, seconds.

        For a job cancelled while waiting, its whole service time; for one stopped while running,
        what was left of it on its builder, without contention.
        """
        spared = jobs.taken(jobs.cause.where(Cause.FAIL_FAST))
        speeds = np.ones(len(self.pool_of))
        speeds[self.builders.builder.codes] = self.builders.speed
        ran = spared.service_time
        left = np.maximum(0.0, spared.work / speeds[spared.builder.codes] - ran)
        return total(np.where(np.isnan(ran), spared.work, left))


def lost(jobs: Sequence[EndJob], **given: object) -> Jobs:
    """Return the table of jobs that never ended."""
    outcome = Coded(np.full(len(jobs), OUTCOMES.index("lost")), OUTCOMES)
    return Jobs.of(jobs, outcome=outcome, **given)


class Recorder:
    """Observer that collects a run's records, for millions of jobs if need be."""

    def __init__(self) -> None:
        self.ends: list[EndJob] = []
        #: the jobs that have not ended, and when they were submitted
        self._open: dict[str, tuple[Job, float]] = {}
        self._lives = BuilderLives()
        self._void: list[VoidAttempt] = []
        self._estimates = estimates = dict[str, float | None]()
        self._has_needs = False
        self._events = 0
        self._last: Event | None = None
        self._dispatched: dict[str, float] = {}
        self._take: dict[type[Event], Callable[[Any], object]] = {
            JobsSubmitted: self._submitted,
            BuilderJoined: self._lived,
            BuilderRetired: self._lived,
            BuilderLost: self._lived,
            EstimateMade: lambda event: estimates.setdefault(event.job, event.dispatch_at),
        }

    def __call__(self, event: Event, commands: Sequence[Command]) -> None:
        """Handle one event and its commands."""
        self._events += 1
        self._last = event
        take = self._take.get(type(event))
        if take is not None and type(commands) is not Ignored:
            take(event)
        for command in commands:
            if type(command) is StartJob:
                self._dispatched[command.job.id] = event.at
            elif type(command) is EndJob:
                self.ends.append(command)
                self._open.pop(command.job.id, None)
                self._dispatched.pop(command.job.id, None)
            elif type(command) is RequeueJob:
                job, builder = command.job, command.builder
                began = self._dispatched.pop(job, event.at)
                self._void.append(VoidAttempt(job, builder, began, event.at, command.reason))
            elif type(command) is RequestBuilder:
                self._lives.take(command, event.at)

    def records(
        self,
        running: Mapping[str, EndJob] = MappingProxyType({}),
        released_at: Mapping[str, float] = MappingProxyType({}),
    ) -> RunRecords:
        """Return the records so far.

        Args:
            running: by id the jobs that run, as if they had ended; their slots count as busy until
                the last event.
            released_at: by id, when those were released that wait, and were blocked.
        """
        last_at = self._last.at if self._last else 0.0
        ends, void, spans = [*self.ends], [*self._void], [*self._lives.spans]
        void += [
            VoidAttempt(job, end.builder, end.dispatched_at, last_at, "running")
            for job, end in running.items()
            if end.builder is not None and end.dispatched_at is not None
        ]
        endless = [
            running.get(job.id)
            or EndJob(job, "cancelled", 0, at, nan, released_at=released_at.get(job.id))
            for job, at in self._open.values()
        ]
        rows = {end.job.id: row for row, end in enumerate(ends)} if void else {}
        numbers = dict[str, int]()
        more: dict[str, Any] = {"estimates": self._estimates, "has_needs": self._has_needs}

        def builders_of(records: Sequence[Any]) -> Coded:
            return coded([one.builder for one in records], numbers)

        return RunRecords(
            builders=Builders.of(spans, builder=builders_of(spans)),
            jobs=Jobs.of(ends, builder=builders_of(ends), **more),
            lost=lost(endless, builder=builders_of(endless), **more),
            void=Attempts.of(
                void,
                builder=builders_of(void),
                row=np.array([rows.get(one.job, -1) for one in void], np.int64),
            ),
            events=self._events,
            last_at=last_at,
        )

    def _lived(self, event: BuilderJoined | BuilderRetired | BuilderLost) -> None:
        self._lives.take(event, event.at)

    def _submitted(self, event: JobsSubmitted) -> None:
        for job in event.jobs:
            self._open.setdefault(job.id, (job, event.at))
            if job.needs or job.group is not None:
                self._has_needs = True
