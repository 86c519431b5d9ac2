"""The data behind a run's figures: its jobs over time, its builders and plans."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from farm.results.jobs_table import JobTable
from farm.results.summary.descriptive_statistics import Floats
from farm.results.summary.job_columns import Flags, floats

BINS = 400
"""The maximum number of points of a line over time: the highest value of each interval."""


class Jobs:
    """The jobs of a run over time; instants that were never reached are NaN."""

    def __init__(self, table: JobTable) -> None:
        self.table = table
        self.arrived, self.started = table.arrived_at, table["started_at_s"]
        self.finished = table["finished_at_s"]
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
        return highest(self.arrived[chosen], ends[chosen], self.grid)

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


class PlannedSize(NamedTuple):
    """What an algorithm decided for a pool at an instant."""

    at: float
    desired: int


class Builders:
    """The builders' lives and the pools' plans, from an event log."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self.requested: dict[str, float] = {}
        self.joined: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        self.pool_of: dict[str, str] = {}
        self.plans: dict[str, list[PlannedSize]] = {}
        for line in lines:
            if b'"builder-' in line or b'"pool-planned"' in line:
                self._take(msgspec.json.decode(line))

    def _take(self, line: dict[str, Any]) -> None:
        kind, at, name = line["event"], line["at_s"], line.get("builder", "")
        if kind == "pool-planned":
            self.plans.setdefault(line["pool"], []).append(PlannedSize(at, line.get("desired", 0)))
        elif kind == "builder-requested":
            self.pool_of.setdefault(name, line["pool"])
            self.requested.setdefault(name, at)
        elif kind == "builder-joined":
            self.pool_of.setdefault(name, line["pool"])
            self.joined.setdefault(name, at)
        elif kind in ("builder-retired", "builder-lost") and not line.get("ignored"):
            self.gone[name] = at

    @property
    def pools(self) -> list[str]:
        """The names of the pools, in order of their first builder or plan."""
        return list(dict.fromkeys([*self.pool_of.values(), *self.plans]))

    def there(self, pool: str, grid: Floats) -> Floats:
        """Return how many builders of a pool were present."""
        names = [name for name in self.joined if self.pool_of[name] == pool]
        return self._spans(names, self.joined, self.gone, grid)

    def booting(self, pool: str, grid: Floats) -> Floats:
        """Return how many builders of a pool were requested but had not joined."""
        names = [name for name in self.requested if self.pool_of[name] == pool]
        ended = {**self.gone, **self.joined}
        late = [name for name in names if ended.get(name, np.inf) > self.requested[name]]
        return self._spans(late, self.requested, ended, grid)

    def _spans(
        self, names: Sequence[str], starts: dict[str, float], ends: dict[str, float], grid: Floats
    ) -> Floats:
        first = np.array([starts[name] for name in names], dtype=np.float64)
        return highest(first, floats([ends.get(name) for name in names]), grid)

    def desired(self, pool: str, grid: Floats) -> Floats:
        """Return the algorithm's last plan in each interval; NaN before its first."""
        plans = self.plans.get(pool, [])
        times = np.array([plan.at for plan in plans])
        places = np.searchsorted(times, grid[1:], side="right") - 1
        return np.array([plans[p].desired if p >= 0 else np.nan for p in places], dtype=np.float64)


class Lane(NamedTuple):
    """One slot of a builder, and the rows of the jobs that it ran."""

    name: str
    jobs: list[int]


def lanes(jobs: Jobs) -> list[Lane]:
    """Return the slots in which the jobs ran: as many per builder as it ran jobs concurrently."""
    found: dict[str, list[Lane]] = {}
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
            slots.append(Lane(builder if not slots else f"{builder} {slot + 1}", []))
        slots[slot].jobs.append(place)
        heapq.heappush(heap, (end, slot))
    return [lane for builder in found for lane in found[builder]]


def busy_shares(jobs: Jobs, chosen: Sequence[Lane], grid: Floats) -> Floats:
    """Return the share of each interval in which these slots held a job."""
    places = [place for lane in chosen for place in lane.jobs]
    starts, ends = np.sort(jobs.started[places]), np.sort(jobs.stopped[places])
    integral = _ramp(starts, grid) - _ramp(ends, grid)
    return np.asarray(np.diff(integral) / (np.diff(grid) * max(1, len(chosen))), dtype=np.float64)


def _ramp(starts: Floats, grid: Floats) -> Floats:
    """Return the sum over starts of max(0, t - start) at each t of the grid."""
    before = np.searchsorted(starts, grid, side="right")
    sums = np.concatenate([[0.0], np.cumsum(starts)])
    return np.asarray(before * grid - sums[before], dtype=np.float64)
