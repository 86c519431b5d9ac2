"""The runners that a farm's records show: who ran jobs, from when to when, how many at once.

A roster read once is no evidence (registrations come and go by the day): a runner was there from
its first start to its last end, and has as many slots as it ran jobs at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from farm.columns import Floats, Rows
from farm.core.fields import json_name
from farm.records.attempt_columns import AttemptColumns

ROUNDING = 1e-6
"""Seconds by which an end that is a sum of rounded numbers is off, beside its resolution."""


class Runner(msgspec.Struct, frozen=True, gc=False, rename=json_name):
    """A runner; instants are seconds since 1970."""

    runner: str
    #: of its first job
    platform: str
    joined_at: float
    gone_at: float
    slots: int
    #: attempts that it ran
    jobs: int


class RunnerRows(NamedTuple):
    """Which attempts started on each runner that has a name."""

    #: of the runners, in order
    names: list[str]
    #: the rows of the first runner, as recorded, then those of the second, …
    rows: NDArray[np.int64]
    #: where each runner's rows begin among them, and where the last one's end
    edges: NDArray[np.int64]

    @classmethod
    def of(cls, attempts: AttemptColumns) -> RunnerRows:
        """Return which of these attempts started on which runner."""
        codes = attempts.runner.codes
        names = attempts.runner.values
        has_name = np.array([name != "" for name in names], np.bool_)
        started = np.flatnonzero(has_name[codes] & ~np.isnan(attempts.started_at))
        jobs = np.bincount(codes[started], minlength=len(names))

        by_name = sorted(np.flatnonzero(jobs).tolist(), key=names.__getitem__)
        places = np.empty(len(names), np.int64)
        places[by_name] = np.arange(len(by_name))
        return cls(
            names=[names[code] for code in by_name],
            rows=started[np.argsort(places[codes[started]], kind="stable")],
            edges=np.append(0, np.cumsum(jobs[by_name])),
        )

    @property
    def owners(self) -> NDArray[np.int64]:
        """The place of the runner to which each of ``rows`` belongs."""
        return np.repeat(np.arange(len(self.names)), np.diff(self.edges))

    def taken(self, places: Sequence[int]) -> RunnerRows:
        """Return those of the runners at these places."""
        jobs = np.diff(self.edges)[places]
        edges = np.append(0, np.cumsum(jobs))
        moved_by = np.repeat(self.edges[places] - edges[:-1], jobs)
        return RunnerRows(
            names=[self.names[place] for place in places],
            rows=self.rows[np.arange(len(moved_by)) + moved_by],
            edges=edges,
        )

    def runners(self, attempts: AttemptColumns, resolution: float) -> list[Runner]:
        """Return the runners, in order of their names.

        ``resolution`` of the instants, seconds: jobs that overlap by less did not run at once.
        """
        if not self.names:
            return []
        firsts = self.edges[:-1]
        owners = self.owners
        started = attempts.started_at[self.rows]
        ended = attempts.finished_at[self.rows]
        joined_at = np.minimum.reduceat(started, firsts)
        last_end = np.fmax.reduceat(ended, firsts)
        gone_at = np.where(np.isnan(last_end), joined_at, last_end)

        by_start = np.lexsort((started, owners))
        platforms = attempts.platform[self.rows[by_start[firsts]]].tolist()

        has_ended = ~np.isnan(ended)
        slots = _most_at_once_by_owner(
            started[has_ended],
            ended[has_ended],
            owners[has_ended],
            len(self.names),
            resolution + ROUNDING,
        )
        columns = (joined_at, gone_at, slots, np.diff(self.edges))
        return list(map(Runner, self.names, platforms, *(column.tolist() for column in columns)))


def runners_of(attempts: AttemptColumns, resolution: float) -> list[Runner]:
    """Return the runners by the instant of their first start (ties: by name)."""
    runners = RunnerRows.of(attempts).runners(attempts, resolution)
    return sorted(runners, key=lambda runner: runner.joined_at)


def _most_at_once_by_owner(
    begins: Floats, ends: Floats, owners: NDArray[np.int64], count: int, resolution: float
) -> NDArray[np.int64]:
    """Return how many of each owner's spans overlapped at most; see ``most_at_once``.

    All changes are added up in one row, owner after owner. Every span that begins ends too, so the
    sum is 0 again where the next owner's changes begin.
    """
    # ends come first, and with equal instants they stay there
    at = np.concatenate([np.maximum(begins, ends - resolution), begins])
    change = np.repeat([-1, 1], len(begins))
    owner = np.tile(owners, 2)
    order = np.lexsort((at, owner))
    running = np.cumsum(change[order])
    most = np.ones(count, np.int64)
    np.maximum.at(most, owner[order], running)
    return most


def most_at_once(begins: Floats, ends: Floats, resolution: float = 0.0) -> int:
    """Return how many spans overlapped at most, by more than the resolution; at least 1."""
    ended_by = np.sort(np.maximum(begins, ends - resolution))
    begun = np.sort(begins)
    running = np.arange(1, len(begun) + 1) - np.searchsorted(ended_by, begun, side="right")
    return int(running.max(initial=1))


class JobSpans(NamedTuple):
    """When jobs that ran could start, did, and ended; seconds."""

    eligible_at: Floats
    started_at: Floats
    ended_at: Floats

    def taken(self, rows: Rows) -> JobSpans:
        """Return those of some rows."""
        return JobSpans(*(column[rows] for column in self))


def times_between(jobs: JobSpans, slots: int, resolution: float = 0.0) -> list[float]:
    """Return a runner's times between two jobs on a slot, where the second one waited already.

    Jobs that start by less than the resolution before the end that made room start then.
    """
    ends: list[float] = []
    times = []
    by_start = jobs.taken(np.argsort(jobs.started_at, kind="stable"))
    for eligible_at, started_at, ended_at in zip(
        *(column.tolist() for column in by_start), strict=True
    ):
        if len(ends) < slots or ends[0] > started_at + resolution:
            heapq.heappush(ends, ended_at)
            continue
        empty_at = heapq.heapreplace(ends, ended_at)
        if eligible_at < empty_at:
            times.append(max(0.0, started_at - empty_at))
    return times


def successions(jobs: JobSpans, slots: int, resolution: float = 0.0) -> list[float]:
    """Return the times from the k-th end to the start that it made room for.

    With n slots that is the (k + n)-th; only of jobs that waited already.
    """
    # ties: the one that could start first
    by_start = np.lexsort((jobs.eligible_at, jobs.started_at))[slots:]
    started_at = jobs.started_at[by_start]
    ended_at = np.sort(jobs.ended_at)[: len(by_start)]
    waited = (jobs.eligible_at[by_start] < ended_at) & (ended_at <= started_at + resolution)
    times: list[float] = np.maximum(0.0, started_at - ended_at)[waited].tolist()
    return times
