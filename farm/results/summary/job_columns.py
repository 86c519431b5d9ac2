"""The ends of jobs in columns, so that a million are summarised in half a second."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, get_args

import msgspec
import numpy as np
import numpy.typing as npt

from farm.core.commands import EndJob
from farm.core.model import Cause, Job, Outcome, Platform
from farm.results.summary.descriptive_statistics import Floats

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
SUCCEEDED, FAILED, CANCELLED = range(3)
CAUSES = {cause: number for number, cause in enumerate(Cause)}


class Ends(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs in order of ending; an instant that was never reached is NaN.

    Values that repeat are numbered; -1: none.
    """

    arrived_at: Floats
    dispatched_at: Floats
    started_at: Floats
    finished_at: Floats
    service_time: Floats
    attempts: Numbers
    #: indexes in ``OUTCOMES`` and ``CAUSES``
    outcome: Numbers
    cause: Numbers
    slot: Numbers
    #: served by another job's execution
    shared: Flags
    builder: Numbers
    platform: Numbers
    attribution: Numbers
    matrix: Numbers
    platforms: Sequence[Platform]
    #: the jobs' attributes
    attributions: Sequence[Mapping[str, str]]
    matrices: Sequence[str]

    @classmethod
    def of(cls, ends: Sequence[EndJob], builders: dict[str, int]) -> Ends:
        """Return the columns of these jobs; unknown builders are numbered last."""
        jobs = [end.job for end in ends]
        arrived_at = floats([job.arrived_at for job in jobs])
        submitted_at = floats([end.submitted_at for end in ends])
        platform, platforms = numbered([job.platform for job in jobs])
        matrix, matrices = numbered([job.matrix for job in jobs])
        attribution, attributions = attributed(jobs)
        outcomes = {outcome: number for number, outcome in enumerate(OUTCOMES)}
        return cls(
            arrived_at=np.where(np.isnan(arrived_at), submitted_at, arrived_at),
            dispatched_at=floats([end.dispatched_at for end in ends]),
            started_at=floats([end.started_at for end in ends]),
            finished_at=floats([end.finished_at for end in ends]),
            service_time=floats([job.service_time for job in jobs]),
            attempts=np.array([end.attempts for end in ends], np.int64),
            outcome=np.array([outcomes[end.outcome] for end in ends], np.int64),
            cause=np.array([CAUSES[end.cause] for end in ends], np.int64),
            slot=np.array([-1 if end.slot is None else end.slot for end in ends], np.int64),
            shared=np.array([end.served_by is not None for end in ends], np.bool_),
            builder=numbered([end.builder for end in ends], builders)[0],
            platform=platform,
            attribution=attribution,
            matrix=matrix,
            platforms=platforms,
            attributions=attributions,
            matrices=matrices,
        )

    def __len__(self) -> int:
        return len(self.finished_at)

    def taken(self, some: Flags | Numbers) -> Ends:
        """Return a selection, by flags or by rows."""
        if some.dtype == np.bool_ and some.all():
            return self
        changed: dict[str, Any] = {}
        for name in self.__struct_fields__:
            column = getattr(self, name)
            if isinstance(column, np.ndarray):
                changed[name] = column[some]
        return msgspec.structs.replace(self, **changed)

    def within(self, start: float, end: float) -> Ends:
        """Return the jobs that arrived in this window."""
        return self.taken((start <= self.arrived_at) & (self.arrived_at < end))

    @property
    def served(self) -> Flags:
        """Which jobs succeeded or failed: a cancelled job was not served."""
        served: Flags = self.outcome != CANCELLED
        return served

    def counts(self) -> dict[Outcome, int]:
        """Count the jobs by outcome."""
        counted = np.bincount(self.outcome, minlength=len(OUTCOMES)).tolist()
        return dict(zip(OUTCOMES, counted, strict=True))

    def makespan(self) -> float | None:
        """Return last finish - first arrival, seconds; None without jobs."""
        if not len(self):
            return None
        return float(self.finished_at.max() - self.arrived_at.min())

    @property
    def waiting_time(self) -> Floats:
        """Start - arrival, NaN for jobs that never started; a job may join a running execution."""
        waits: Floats = self.started_at - self.arrived_at
        return np.maximum(0.0, waits)

    def waits(self, by: float = np.inf) -> Floats:
        """Return the waiting times of the jobs that started, and ended by an instant."""
        started = ~np.isnan(self.started_at) & (self.finished_at <= by)
        return self.waiting_time[started]

    def responses(self) -> Floats:
        """Return the response times of the jobs that were served."""
        return (self.finished_at - self.arrived_at)[self.served]

    def has_stretch(self) -> Flags:
        """Return which jobs have a stretch: those that were served and took time."""
        return self.served & (self.service_time > 0)

    def stretches(self) -> Floats:
        """Return response time ÷ service time alone, for jobs that have a stretch."""
        some = self.has_stretch()
        stretches: Floats = (self.finished_at - self.arrived_at)[some] / self.service_time[some]
        return stretches

    def matrix_response_times(self, unfinished: Collection[str | None] = ()) -> Floats:
        """Return last end - first arrival of each finished matrix, in order of first end."""
        some, matrix, names = self._matrices()
        released, finished = np.full(len(names), np.inf), np.full(len(names), -np.inf)
        np.minimum.at(released, matrix, self.arrived_at[some])
        np.maximum.at(finished, matrix, self.finished_at[some])
        whole = np.array([name not in unfinished for name in names], np.bool_)
        times: Floats = (finished - released)[whole]
        return times

    def matrices_of(self, some: Flags) -> set[str]:
        """Return the names of the matrices that these jobs belong to."""
        return {self.matrices[place] for place in set(self.matrix[some].tolist()) if place >= 0}

    def times_to_first_failure(self) -> Floats:
        """Return first failure - first arrival of each matrix that had a failure; seconds."""
        some, matrix, names = self._matrices()
        released, failed = np.full(len(names), np.inf), np.full(len(names), np.inf)
        np.minimum.at(released, matrix, self.arrived_at[some])
        fails = self.outcome[some] == FAILED
        np.minimum.at(failed, matrix[fails], self.finished_at[some][fails])
        there = failed < np.inf
        times: Floats = (failed - released)[there]
        return times

    def _matrices(self) -> tuple[Flags, Numbers, list[str]]:
        """Return which jobs have a matrix, its number in order of first end, and the names."""
        some = self.matrix >= 0
        number, order = in_order_of_appearance(self.matrix[some])
        return some, number, [self.matrices[place] for place in order.tolist()]


def floats(values: Sequence[float | None]) -> Floats:
    """Return a column; None becomes NaN."""
    return np.array(values, np.float64)


def known(values: Floats) -> Floats:
    """Return the values that are not NaN."""
    there: Floats = values[~np.isnan(values)]
    return there


def total(values: Floats) -> float:
    """Return the sum, added up from first to last."""
    return float(np.cumsum(values)[-1]) if len(values) else 0.0


def which(some: Flags) -> Flags | slice:
    """Return what takes these of a column: all of them without a copy."""
    return slice(None) if some.all() else some


def numbered(
    values: Iterable[Hashable], known: dict[Any, Any] | None = None
) -> tuple[Numbers, list[Any]]:
    """Number the values, None as -1; unknown ones get the next numbers as they appear."""
    known = {} if known is None else known
    for number, value in enumerate(known):
        known[value] = number
    numbers = [-1 if v is None else known.setdefault(v, len(known)) for v in values]
    return np.array(numbers, np.int64), list(known)


def attributed(jobs: Iterable[Job]) -> tuple[Numbers, list[dict[str, str]]]:
    """Number the attributes that jobs have, as ``numbered`` does; -1: it has none."""
    numbers, found = numbered([tuple(job.attributes.items()) or None for job in jobs])
    return numbers, list(map(dict, found))


def in_order_of_appearance(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Number the values from 0, in order of first appearance; return also the distinct values."""
    if len(numbers) and (numbers == numbers[0]).all():
        return np.zeros(len(numbers), np.int64), numbers[:1]
    found, first, places = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)
    new = np.empty(len(order), np.int64)
    new[order] = np.arange(len(order))
    return new[places], found[order]
