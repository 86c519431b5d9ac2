"""The lives of builders and the attempts on their slots, as values and in columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from farm.core.commands import EndJob
from farm.results.summary.descriptive_statistics import Floats
from farm.results.summary.job_columns import Ends, Flags, Numbers, floats, numbered, which

BuilderEnd = Literal["retired", "lost"]
STAYED, RETIRED, LOST = range(3)
_ENDS = {None: STAYED, "retired": RETIRED, "lost": LOST}


class BuilderSpan(msgspec.Struct):
    """One life of a builder, from request (or joining) until it has left; farm time."""

    builder: str
    pool: str
    slots: int = 1
    requested_at: float | None = None
    joined_at: float | None = None
    gone_at: float | None = None
    end: BuilderEnd | None = None
    speed: float = 1.0


class VoidAttempt(msgspec.Struct, frozen=True, gc=False):
    """A void attempt, which held a slot from its dispatch until it was given up."""

    job: str
    builder: str
    dispatched_at: float
    ended_at: float
    reason: str = ""


class Spans(msgspec.Struct, frozen=True, kw_only=True):
    """Lives of builders; instants never reached are NaN, builders and pools are numbered."""

    builder: Numbers
    pool: Numbers
    slots: Numbers
    speed: Floats
    requested_at: Floats
    joined_at: Floats
    gone_at: Floats
    end: Numbers
    pools: Sequence[str]

    @classmethod
    def of(cls, spans: Sequence[BuilderSpan], builders: dict[str, int]) -> Spans:
        """Return the columns of these lives."""
        pool, pools = numbered([span.pool for span in spans])
        return cls(
            builder=numbered([span.builder for span in spans], builders)[0],
            pool=pool,
            slots=np.array([span.slots for span in spans], np.int64),
            speed=floats([span.speed for span in spans]),
            requested_at=floats([span.requested_at for span in spans]),
            joined_at=floats([span.joined_at for span in spans]),
            gone_at=floats([span.gone_at for span in spans]),
            end=np.array([_ENDS[span.end] for span in spans], np.int64),
            pools=pools,
        )

    def taken(self, some: Flags) -> Spans:
        """Return a selection."""
        columns = {name: getattr(self, name)[some] for name in self.__struct_fields__[:-1]}
        return Spans(**columns, pools=self.pools)


class Attempts(msgspec.Struct, frozen=True, kw_only=True):
    """Ended attempts that held a slot."""

    builder: Numbers
    #: the row of its job among the ends; -1: the job never ended
    row: Numbers
    dispatched_at: Floats
    ended_at: Floats

    @classmethod
    def void(
        cls, attempts: Sequence[VoidAttempt], ends: Sequence[EndJob], builders: dict[str, int]
    ) -> Attempts:
        """Return the void attempts."""
        rows = {end.job.id: row for row, end in enumerate(ends)} if attempts else {}
        return cls(
            builder=numbered([one.builder for one in attempts], builders)[0],
            row=np.array([rows.get(one.job, -1) for one in attempts], np.int64),
            dispatched_at=floats([one.dispatched_at for one in attempts]),
            ended_at=floats([one.ended_at for one in attempts]),
        )

    @classmethod
    def all(cls, ends: Ends, void: Attempts) -> Attempts:
        """Return every attempt: those of the jobs that ended, then the void ones."""
        dispatched = (ends.builder >= 0) & ~np.isnan(ends.dispatched_at)
        over_at = _over_at(ends, dispatched)
        some = which(~np.isnan(over_at))
        return cls(
            builder=_with(ends.builder[some], void.builder),
            row=_with(np.arange(len(ends), dtype=np.int32)[some], void.row),
            dispatched_at=_with(ends.dispatched_at[some], void.dispatched_at),
            ended_at=_with(over_at[some], void.ended_at),
        )


def _with(column: Any, more: Any) -> Any:
    return np.concatenate((column, more)) if len(more) else column


def _over_at(ends: Ends, dispatched: Flags) -> Floats:
    """Return when each job's own execution ended; NaN if it had none.

    An execution outlives its leader while it serves others; it is recognised by its slot.
    """
    own = dispatched & ~ends.shared
    if own.all():
        return ends.finished_at
    over_at: Floats = np.where(own, ends.finished_at, np.nan)
    served = np.flatnonzero(dispatched & ends.shared)
    if not len(served):
        return over_at
    which = list(zip(ends.builder, ends.slot, ends.dispatched_at, strict=True))
    last = {which[row]: row for row in served.tolist()}
    for row in np.flatnonzero(own).tolist():
        if (follower := last.pop(which[row], None)) is not None:
            over_at[row] = max(over_at[row], ends.finished_at[follower])
    for row in last.values():
        over_at[row] = ends.finished_at[row]
    return over_at
