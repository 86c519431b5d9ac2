"""The data behind a run's figures: its jobs over time, its builders and plans."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from farm.columns import Flags, Floats, time_within
from farm.core.events import PoolPlanned
from farm.results.log.reader import select
from farm.results.table.builder_columns import BuilderLives, Builders
from farm.results.table.job_table import JobTable

BINS = 400
"""The maximum number of points of a line over time: the highest value of each interval."""


class JobsOverTime:
    """The jobs of a run over time; instants that were never reached are NaN."""

    def __init__(self, table: JobTable) -> None:
        self.table = table
        self.arrived, self.started = table.arrived_at, table["started_at_s"]
        self.finished = table["finished_at_s"]
        self.released = table.waits_since
        times = np.concatenate([self.arrived, self.finished, [0.0]])
        self.end = float(np.nanmax(times))
        self.begin = min(0.0, float(np.nanmin(times)))

    @property
    def grid(self) -> Floats:
        """The ends of the intervals of time."""
        return np.linspace(self.begin, max(self.end, self.begin + 1.0), BINS + 1)

    @property
    def stopped(self) -> Floats:
        """When each job ended, or the run did."""
        return np.where(np.isnan(self.finished), self.end, self.finished)

    def waiting_at(self, chosen: Flags) -> Floats:
        """Return how many of the chosen jobs were waiting, the maximum of each interval."""
        ends = np.where(np.isnan(self.started), self.finished, self.started)
        waited = chosen & ~np.isnan(self.released)
        return highest(self.released[waited], ends[waited], self.grid)

    def running_at(self, chosen: Flags) -> Floats:
        """Return how many of the chosen jobs were running, the maximum of each interval."""
        ran = chosen & ~np.isnan(self.started)
        return highest(self.started[ran], self.finished[ran], self.grid)


def highest(starts: Floats, ends: Floats, grid: Floats) -> Floats:
    """Return the maximum number of concurrent spans in each interval; an end of NaN is never."""
    over = ends[~np.isnan(ends)]
    times = np.concatenate([starts, over])
    changes = np.concatenate([np.ones(len(starts)), -np.ones(len(over))])
    order = np.lexsort((changes, times))
    times, level = times[order], np.concatenate([[0.0], np.cumsum(changes[order])])
    edges = np.searchsorted(times, grid, side="right")
    tops = [level[first : last + 1].max() for first, last in itertools.pairwise(edges)]
    return np.array(tops, dtype=np.float64)


class PoolsOverTime:
    """The builders' lives and the pools' plans, from an event log."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        lives = BuilderLives()
        self._plans: dict[str, list[tuple[float, int]]] = {}
        for at, one in select(lines, (*BuilderLives.MADE_OF, PoolPlanned)):
            if isinstance(one, PoolPlanned):
                self._plans.setdefault(one.pool, []).append((at, one.desired))
            else:
                lives.take(one, at)
        self._builders = Builders.of(lives.spans)

    @property
    def names(self) -> list[str]:
        """The names of the pools, in order of their first builder or plan."""
        return list(dict.fromkeys([*self._builders.pool.values, *self._plans]))

    def _of(self, pool: str) -> Builders:
        lives = self._builders
        known = pool in lives.pool.values
        return lives.taken(lives.pool.where(pool) if known else slice(0))

    def there(self, pool: str, grid: Floats) -> Floats:
        """Return how many builders of a pool were present."""
        lives = self._of(pool)
        joined = ~np.isnan(lives.joined_at)
        return highest(lives.joined_at[joined], lives.gone_at[joined], grid)

    def busy(self, pool: str, jobs: JobsOverTime, grid: Floats) -> Floats:
        """Return the share of a pool's slots that held a job in each interval; NaN: it had none."""
        lives = self._of(pool)
        lives = lives.taken(~np.isnan(lives.joined_at))
        ends = np.where(np.isnan(lives.gone_at), jobs.end, lives.gone_at)
        there = sum(
            slots * time_within(lives.joined_at[one], ends[one], grid)
            for slots in np.unique(lives.slots)
            for one in [lives.slots == slots]
        )
        ran = np.isin(jobs.table["builder"], lives.builder.texts()) & ~np.isnan(jobs.started)
        held = time_within(jobs.started[ran], jobs.stopped[ran], grid)
        return np.where(there > 0, held / np.maximum(there, 1e-9), np.nan)

    def booting(self, pool: str, grid: Floats) -> Floats:
        """Return how many builders of a pool were requested but had not joined."""
        lives = self._of(pool)
        ended_at = np.where(np.isnan(lives.joined_at), lives.gone_at, lives.joined_at)
        late = ~np.isnan(lives.requested_at) & ~(ended_at <= lives.requested_at)
        return highest(lives.requested_at[late], ended_at[late], grid)

    def desired(self, pool: str, grid: Floats) -> Floats:
        """Return the algorithm's last plan in each interval; NaN before its first."""
        at, desired = np.array([*self._plans.get(pool, []), (math.inf, math.nan)]).T
        places = np.searchsorted(at, grid[1:], side="right") - 1
        return np.where(places < 0, np.nan, desired[places])


class ChartLane(NamedTuple):
    """One slot of a builder, and the rows of the jobs that it ran."""

    name: str
    jobs: list[int]


def lanes(jobs: JobsOverTime) -> list[ChartLane]:
    """Return the slots in which the jobs ran: as many per builder as it ran jobs concurrently."""
    found: dict[str, list[ChartLane]] = {}
    free: dict[str, list[tuple[float, int]]] = {}
    builders, ends = jobs.table["builder"], np.where(np.isnan(jobs.finished), np.inf, jobs.finished)
    ran = np.flatnonzero((builders != "") & ~np.isnan(jobs.started))
    order = ran[np.argsort(jobs.started[ran], kind="stable")]
    columns = (order, jobs.started[order], ends[order], builders[order])
    for place, start, end, builder in zip(*(column.tolist() for column in columns), strict=True):
        heap, slots = free.setdefault(builder, []), found.setdefault(builder, [])
        if heap and heap[0][0] <= start:
            _, slot = heapq.heappop(heap)
        else:
            slot = len(slots)
            slots.append(ChartLane(builder if not slots else f"{builder} {slot + 1}", []))
        slots[slot].jobs.append(place)
        heapq.heappush(heap, (end, slot))
    return [lane for builder in found for lane in found[builder]]


def reusing(jobs: JobsOverTime, found: Sequence[ChartLane]) -> list[ChartLane]:
    """Return fewer rows: that of a slot is used again for others after its last job.

    Builders of one job each would else be a row each, which together show a diagonal. Rows are of
    one platform, that of a slot's first job, and have the name of their first slot.
    """
    platforms, ends = jobs.table["platform"], jobs.stopped
    rows: dict[str, list[ChartLane]] = {}
    free: dict[str, list[tuple[float, int]]] = {}
    for lane in sorted(found, key=lambda lane: float(jobs.started[lane.jobs[0]])):
        platform = str(platforms[lane.jobs[0]])
        heap, taken = free.setdefault(platform, []), rows.setdefault(platform, [])
        if heap and heap[0][0] <= jobs.started[lane.jobs[0]]:
            _, number = heapq.heappop(heap)
            taken[number].jobs.extend(lane.jobs)
        else:
            number = len(taken)
            taken.append(ChartLane(lane.name, [*lane.jobs]))
        heapq.heappush(heap, (float(ends[lane.jobs[-1]]), number))
    return [row for rows_of_platform in rows.values() for row in rows_of_platform]


def busy_shares(jobs: JobsOverTime, chosen: Sequence[ChartLane], grid: Floats) -> Floats:
    """Return the share of each interval in which these slots held a job."""
    places = [place for lane in chosen for place in lane.jobs]
    held = time_within(jobs.started[places], jobs.stopped[places], grid)
    return np.asarray(held / (np.diff(grid) * max(1, len(chosen))), dtype=np.float64)
