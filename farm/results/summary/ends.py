"""How jobs ended, in columns: what a summary is made of, a million jobs in a second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from farm.core.commands import EndJob
from farm.core.model import Outcome
from farm.results.summary.percentiles import Floats

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


class Ends(msgspec.Struct, frozen=True):
    """Some jobs, in the order of ending; an instant that never came is NaN."""

    ends: Sequence[EndJob]
    arrived_at: Floats
    started_at: Floats
    finished_at: Floats
    service_time: Floats
    outcomes: Sequence[Outcome]
    #: whether it succeeded or failed: a cancelled job was not served
    served: Flags

    @classmethod
    def of(cls, ends: Sequence[EndJob]) -> Ends:
        """Return the columns of these jobs."""
        jobs = [end.job for end in ends]
        arrived_at = _floats([job.arrived_at for job in jobs])
        submitted_at = _floats([end.submitted_at for end in ends])
        outcomes = [end.outcome for end in ends]
        return cls(
            ends,
            np.where(np.isnan(arrived_at), submitted_at, arrived_at),
            _floats([end.started_at for end in ends]),
            _floats([end.finished_at for end in ends]),
            _floats([job.service_time for job in jobs]),
            outcomes,
            np.array([outcome != "cancelled" for outcome in outcomes], np.bool_),
        )

    def within(self, start: float, end: float) -> Ends:
        """Return those that arrived in this time."""
        kept = (start <= self.arrived_at) & (self.arrived_at < end)
        if kept.all():
            return self
        return Ends.of([one for one, keep in zip(self.ends, kept.tolist(), strict=True) if keep])

    def counts(self) -> Counter[Outcome]:
        """Count them by outcome."""
        return Counter(self.outcomes)

    def makespan(self) -> float | None:
        """Return last finish - first arrival, seconds; None: there are none."""
        if not self.ends:
            return None
        return float(self.finished_at.max() - self.arrived_at.min())

    def waits(self, by: float = np.inf) -> Floats:
        """Return how long those waited that started, and were over by an instant."""
        started = ~np.isnan(self.started_at) & (self.finished_at <= by)
        return (self.started_at - self.arrived_at)[started]

    def responses(self) -> Floats:
        """Return the response times of the served ones."""
        return (self.finished_at - self.arrived_at)[self.served]

    def has_stretch(self) -> Flags:
        """Return which have one: those that were served, and took time."""
        return self.served & (self.service_time > 0)

    def stretches(self) -> Floats:
        """Return response time ÷ service time alone, where there is one."""
        some = self.has_stretch()
        stretches: Floats = (self.finished_at - self.arrived_at)[some] / self.service_time[some]
        return stretches

    def matrix_response_times(self, unfinished: Collection[str | None] = ()) -> Floats:
        """Return last end - first arrival of each matrix, by first end; not of unfinished ones."""
        names, matrix, some = self._matrices()
        released, finished = np.full(len(names), np.inf), np.full(len(names), -np.inf)
        np.minimum.at(released, matrix, self.arrived_at[some])
        np.maximum.at(finished, matrix, self.finished_at[some])
        whole = np.array([name not in unfinished for name in names], np.bool_)
        times: Floats = (finished - released)[whole]
        return times

    def times_to_first_failure(self) -> Floats:
        """Return first failure - first arrival of each matrix that had a failure; seconds."""
        names, matrix, some = self._matrices()
        released, failed = np.full(len(names), np.inf), np.full(len(names), np.inf)
        np.minimum.at(released, matrix, self.arrived_at[some])
        fails = np.array([outcome == "failed" for outcome in self.outcomes], np.bool_)[some]
        np.minimum.at(failed, matrix[fails], self.finished_at[some][fails])
        there = failed < np.inf
        times: Floats = (failed - released)[there]
        return times

    def _matrices(self) -> tuple[list[str], Numbers, Flags]:
        """Return the matrices by first end, and the matrix's number of each job that has one."""
        names = [end.job.matrix for end in self.ends]
        known = dict.fromkeys(name for name in names if name is not None)
        numbers = {name: number for number, name in enumerate(known)}
        found = np.array([-1 if name is None else numbers[name] for name in names], np.int64)
        some = found >= 0
        return list(known), found[some], some


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array(values, np.float64)  # None becomes NaN
