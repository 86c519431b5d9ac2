"""A run's records in columns, from which summaries of both engines are computed."""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np

from farm.results.summary.ends import Ends, Flags, Numbers
from farm.results.summary.spans import Attempts, Spans


class Columns:
    """Jobs, builders and attempts; all use the same numbering of builders."""

    def __init__(self, ends: Ends, spans: Spans, void: Attempts, last_at: float) -> None:
        self.ends = ends
        self.spans = spans
        self.void = void
        #: farm time of the last event
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

    def only(self, ends: Flags, spans: Flags) -> Columns:
        """Return some jobs and some lives of builders, with all void attempts."""
        rows = np.append(np.where(ends, np.cumsum(ends) - 1, -1), -1)
        void = msgspec.structs.replace(self.void, row=rows[self.void.row])
        return Columns(self.ends.taken(ends), self.spans.taken(spans), void, self.last_at)
