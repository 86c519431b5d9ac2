"""The columns of the lives of builders, and of the attempts on their slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar, get_args

import msgspec
import numpy as np
import numpy.typing as npt

from farm.columns import Coded, Flags, Floats, Numbers, coded, floats, integers, one_of, which
from farm.core.commands import RequestBuilder
from farm.core.events import BuilderJoined, BuilderLost, BuilderRetired
from farm.core.model import Builder
from farm.results.table.columnar_table import Column, Table
from farm.results.table.job_columns import Jobs

BuilderEnd = Literal["retired", "lost"]
ENDS: Sequence[BuilderEnd] = get_args(BuilderEnd)
LifeStep = RequestBuilder | BuilderJoined | BuilderRetired | BuilderLost
"""The event or command that begins a builder's life, continues it, or ends it."""


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


class Builders(Table):
    """Lives of builders, in order of their first event; instants never reached are NaN."""

    builder = Column(coded, "builder")
    pool = Column(coded, "pool")
    slots = Column(integers, "slots")
    speed = Column(floats, "speed")
    requested_at = Column(floats, "requested_at")
    joined_at = Column(floats, "joined_at")
    gone_at = Column(floats, "gone_at")
    end = Column(one_of(ENDS), "end")

    def booting_times(self, builder: Numbers, since: Floats, dispatched_at: Floats) -> Floats:
        """Return for how long, from an instant on, the builders were booting that took jobs.

        Args:
            builder: the number of the builder that took each job; below 0: none did.
            since: from when the time of each job counts, farm time.
            dispatched_at: when the builder took it, farm time.

        NaN where no builder took the job.
        """
        # a builder that comes again under its name lives several times: the last one that had
        # joined by then took the job
        lives = self.taken(np.lexsort((self.joined_at, self.builder.codes)))
        lives = lives.taken(~np.isnan(lives.joined_at))
        if not len(lives):
            return np.full(len(builder), np.nan)
        row = np.searchsorted(lives.builder.codes, builder, side="right") - 1
        first = np.searchsorted(lives.builder.codes, builder, side="left")
        while (is_later := (row > first) & (lives.joined_at[row] > dispatched_at)).any():
            row = row - is_later
        took: Flags = (row >= first) & ~np.isnan(dispatched_at)
        requested_at = np.fmin(lives.requested_at, lives.joined_at)[row]
        until = np.minimum(lives.joined_at[row], dispatched_at)
        booting = np.maximum(0.0, until - np.maximum(requested_at, since))
        return np.where(took, booting, np.nan)


class Attempts(Table):
    """Ended attempts that held a slot."""

    builder = Column(coded, "builder")
    #: the row of its job among those that ended; -1: the job never ended
    row = Column(integers, "row")
    dispatched_at = Column(floats, "dispatched_at")
    ended_at = Column(floats, "ended_at")

    @classmethod
    def all(cls, jobs: Jobs, void: Attempts) -> Attempts:
        """Return every attempt: those of the jobs that ended, then the void ones."""
        dispatched = (jobs.builder.codes >= 0) & ~np.isnan(jobs.dispatched_at)
        over_at = _over_at(jobs, dispatched)
        some = which(~np.isnan(over_at))
        row = _with(np.arange(len(jobs), dtype=np.int32)[some], void.row)
        numbers = _with(jobs.builder.codes[some], void.builder.codes)
        began = _with(jobs.dispatched_at[some], void.dispatched_at)
        builder = Coded(numbers, jobs.builder.values)
        over_at = _with(over_at[some], void.ended_at)
        return cls(len(row), builder=builder, row=row, dispatched_at=began, ended_at=over_at)


S = TypeVar("S", bound=np.generic)


def _with(column: npt.NDArray[S], more: npt.NDArray[S]) -> npt.NDArray[S]:
    return np.concatenate((column, more)) if len(more) else column


def _over_at(jobs: Jobs, dispatched: Flags) -> Floats:
    """Return when each job's own execution ended; NaN if it had none.

    An execution outlives its leader while it serves others; it is recognised by its slot.
    """
    own = dispatched & ~jobs.shared
    if own.all():
        return jobs.finished_at
    over_at: Floats = np.where(own, jobs.finished_at, np.nan)
    served = np.flatnonzero(dispatched & jobs.shared)
    if not len(served):
        return over_at
    execution = list(zip(jobs.builder.codes, jobs.slot, jobs.dispatched_at, strict=True))
    last = {execution[row]: row for row in served.tolist()}
    for row in np.flatnonzero(own).tolist():
        if (follower := last.pop(execution[row], None)) is not None:
            over_at[row] = max(over_at[row], jobs.finished_at[follower])
    for row in last.values():
        over_at[row] = jobs.finished_at[row]
    return over_at


class BuilderLives:
    """Collects the lives of builders from what happens to them."""

    MADE_OF = get_args(LifeStep)

    def __init__(self) -> None:
        self.spans: list[BuilderSpan] = []
        self._living: dict[str, BuilderSpan] = {}

    def take(self, one: LifeStep, at: float) -> None:
        """Take in what happens at an instant."""
        match one:
            case RequestBuilder():
                self._begun(one.builder).requested_at = at
            case BuilderJoined(builder=builder):
                span = self._living.get(builder.id) or self._begun(builder)
                span.slots, span.speed = builder.slots, builder.speed
                if span.joined_at is None:
                    span.joined_at = at
            case BuilderRetired() | BuilderLost():
                if one.builder in self._living:
                    span = self._living.pop(one.builder)
                    span.gone_at = at
                    span.end = "retired" if isinstance(one, BuilderRetired) else "lost"

    def _begun(self, builder: Builder) -> BuilderSpan:
        span = BuilderSpan(builder.id, builder.pool, builder.slots, speed=builder.speed)
        self.spans.append(span)
        self._living[builder.id] = span
        return span
