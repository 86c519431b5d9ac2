"""The records of a run in memory: the history of each job and the life of each builder.

``EndJob`` already contains a job's whole history, so the records *are* the EndJob values; nothing
is copied during a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from farm.core.commands import Command, EndJob, Ignored, RequestBuilder, RequeueJob, StartJob
from farm.core.events import (
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    EstimateMade,
    Event,
    JobsSubmitted,
)
from farm.core.model import Builder, Job
from farm.results.summary.columns import Columns
from farm.results.summary.job_columns import Ends
from farm.results.summary.spans import Attempts, BuilderEnd, BuilderSpan, Spans, VoidAttempt


class RunRecords(msgspec.Struct):
    """The data from which summaries and tables are computed.

    ``ends`` is in order of ending; ``unended`` has the submitted jobs that never ended, each with
    the instant of its submission; ``estimates`` the first dispatch estimate of each job (the
    instant, or None: no estimate).
    """

    ends: Sequence[EndJob]
    unended: Sequence[tuple[Job, float]]
    estimates: dict[str, float | None]
    #: events handled, stale ones included
    events: int
    #: farm time of the last event
    last_at: float
    builders: Sequence[BuilderSpan] = ()
    void_attempts: Sequence[VoidAttempt] = ()
    #: jobs, builders and attempts in columns, if these were made first
    made_of: Columns | None = None
    #: of a run in progress: those of the unended jobs that run, by id
    running: Mapping[str, EndJob] = {}

    def columns(self) -> Columns:
        """Return jobs, builders and attempts in columns."""
        if self.made_of is not None:
            return self.made_of
        builders: dict[str, int] = {}
        spans = Spans.of(self.builders, builders)
        ends = Ends.of(self.ends, builders)
        void = Attempts.void(self.void_attempts, self.ends, builders)
        return Columns(ends, spans, void, self.last_at)


class Recorder:
    """Observer that collects a run's records, for millions of jobs if need be."""

    def __init__(self) -> None:
        self._ends: list[EndJob] = []
        #: the jobs that have not ended, and when they were submitted
        self._open: dict[str, tuple[Job, float]] = {}
        self._builders: list[BuilderSpan] = []
        self._void: list[VoidAttempt] = []
        self._estimates: dict[str, float | None] = {}
        self._events = 0
        self._last: Event | None = None
        self._dispatched: dict[str, float] = {}
        self._living: dict[str, BuilderSpan] = {}
        self._take: dict[type[Event], Callable[[Any], None]] = {
            JobsSubmitted: self._submitted,
            BuilderJoined: self._joined,
            BuilderRetired: lambda event: self._gone(event, "retired"),
            BuilderLost: lambda event: self._gone(event, "lost"),
            EstimateMade: self._note_estimate,
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
                self._ends.append(command)
                self._open.pop(command.job.id, None)
                self._dispatched.pop(command.job.id, None)
            elif type(command) is RequeueJob:
                self._give_up(command, event.at)
            elif type(command) is RequestBuilder:
                self._span(command.builder).requested_at = event.at

    def records(self) -> RunRecords:
        """Return the records so far (the lists are shared, not copied)."""
        return RunRecords(
            ends=self._ends,
            unended=list(self._open.values()),
            builders=self._builders,
            void_attempts=self._void,
            estimates=self._estimates,
            events=self._events,
            last_at=self._last.at if self._last else 0.0,
        )

    def _submitted(self, event: JobsSubmitted) -> None:
        for job in event.jobs:
            self._open.setdefault(job.id, (job, event.at))

    def _give_up(self, command: RequeueJob, at: float) -> None:
        dispatched_at = self._dispatched.pop(command.job, at)
        self._void.append(
            VoidAttempt(command.job, command.builder, dispatched_at, at, command.reason)
        )

    def _span(self, builder: Builder) -> BuilderSpan:
        span = BuilderSpan(builder.id, builder.pool, builder.slots, speed=builder.speed)
        self._builders.append(span)
        self._living[builder.id] = span
        return span

    def _joined(self, event: BuilderJoined) -> None:
        builder = event.builder
        span = self._living.get(builder.id) or self._span(builder)
        span.slots, span.speed = builder.slots, builder.speed
        if span.joined_at is None:
            span.joined_at = event.at

    def _gone(self, event: BuilderRetired | BuilderLost, end: BuilderEnd) -> None:
        span = self._living.pop(event.builder, None)
        if span is not None:
            span.gone_at, span.end = event.at, end

    def _note_estimate(self, event: EstimateMade) -> None:
        self._estimates.setdefault(event.job, event.dispatch_at)
