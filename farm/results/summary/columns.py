"""A run's records in columns, from which summaries of both engines are computed."""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np

from farm.core.model import Cause
from farm.results.summary.job_columns import CAUSES, Ends, Numbers, total
from farm.results.summary.spans import Attempts, Spans


class Columns:
    """Jobs, builders and attempts; all use the same numbering of builders."""

    def __init__(self, ends: Ends, spans: Spans, void: Attempts, last_at: float) -> None:
        self.ends = ends
        self.spans = spans
        self.void = void
        #: until when builders that did not leave were present: the last event, or the run's end
        self.last_at = last_at

    @cached_property
    def attempts(self) -> Attempts:
        """Every ended attempt that held a slot."""
        return Attempts.all(self.ends, self.void)

    @cached_property
    def pool_of(self) -> Numbers:
        """The pool of each builder, by number; -1: neither requested nor joined."""
        numbers = (self.spans.builder, self.ends.builder, self.void.builder)
        most = max(int(column.max(initial=-1)) for column in numbers)
        pools: Numbers = np.full(most + 2, -1, np.int64)  # the last entry is for builder -1: none
        pools[self.spans.builder] = self.spans.pool
        return pools

    def lasting(self, until: float) -> Columns:
        """Return the same of a run that lasted at least until then, without events."""
        return Columns(self.ends, self.spans, self.void, max(self.last_at, until))

    def touching(self, start: float, end: float) -> Columns:
        """Return the jobs and builders that the Taskcluster simulator counts in a run phase.

        Its recorder drops those that ended before the phase or came after it; the others count with
        their whole lives. So a builder whose jobs all ended before the phase, but which was still
        present when it began, counts as over-provisioned, from the instant it joined.
        """
        ends, spans = self.ends, self.spans
        some = ~(ends.finished_at < start) & (ends.arrived_at <= end)
        there = ~(spans.gone_at < start) & ~(spans.requested_at > end)
        rows = np.append(np.where(some, np.cumsum(some) - 1, -1), -1)
        void = msgspec.structs.replace(self.void, row=rows[self.void.row])
        return Columns(ends.taken(some), spans.taken(there), void, self.last_at)

    def saved_time(self, ends: Ends) -> float:
        """Return the slot time that fail-fast saved among these jobs, seconds.

        For a job cancelled while waiting, its whole service time; for one stopped while running,
        what was left of it on its builder, without contention.
        """
        spared = ends.taken(ends.cause == CAUSES[Cause.FAIL_FAST])
        speeds = np.ones(len(self.pool_of))
        speeds[self.spans.builder] = self.spans.speed
        # a start without a builder is that of a void attempt: the job waited again
        ran = np.where(spared.builder < 0, np.nan, spared.finished_at - spared.started_at)
        left = np.maximum(0.0, spared.service_time / speeds[spared.builder] - ran)
        return total(np.where(np.isnan(ran), spared.service_time, left))
