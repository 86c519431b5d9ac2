"""The costs of builders and the jobs they served: in total, by pool, platform and invocation.

A builder is billed from its request until it has left, boot included, in whole billing units of its
pool. A pool's costs are shared among its jobs in proportion to the slot time that they held: one
that used half of it pays half of the costs, idle time included.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import get_args

import msgspec
import numpy as np

from farm.columns import Floats, Numbers, Rows, in_order_of_appearance, numbered, which
from farm.core.fields import json_name
from farm.core.model import Outcome, Platform
from farm.results.descriptive_statistics import Spread
from farm.results.summary.builder_time import present
from farm.results.summary.run_phase import Window
from farm.results.table.job_columns import Jobs
from farm.results.table.runs import Runs

MOST_PARTS = 200
"""How many invocations are listed: those with the most jobs; the others share one line."""
OTHERS = "…"
#: a life is the difference of two instants: one of an hour may come out longer than an hour
ROUNDING = 1e-9


class Bill(msgspec.Struct, frozen=True):
    """A pool's tariff: the price of a builder-hour, and the billing unit in seconds."""

    price: float = 1.0
    unit_time: float = 0.0

    def paid_time(self, used: Floats) -> Floats:
        """Return the seconds that are billed for this many: whole units, at least one."""
        if not self.unit_time:
            return used
        units = np.ceil(used / self.unit_time - ROUNDING)
        return np.maximum(1.0, units) * self.unit_time


class JobCounts(msgspec.Struct, frozen=True):
    """Jobs that arrived in the window, by how they ended; ``lost`` ones never did."""

    submitted: int
    succeeded: int
    failed: int
    cancelled: int
    lost: int


class CostPart(JobCounts, frozen=True, kw_only=True, rename=json_name):
    """A part of a run: the jobs of a pool, a platform or an invocation."""

    waiting_time: Spread
    response_time: Spread
    cost: float
    #: idle share of the billed slot time; None: nothing was billed
    idle_share: float | None
    #: jobs served ÷ the length of the window
    throughput_per_s: float | None
    #: for a pool: the sum of the time that builders were present
    builder_time: float | None = None


class Paid(msgspec.Struct):
    """The billed time of a pool, and how much of it its jobs used; seconds."""

    cost: float = 0.0
    builder_time: float = 0.0
    slot_time: float = 0.0
    busy_time: float = 0.0


NONE_ENDED = dict.fromkeys(get_args(Outcome), 0)
Place = tuple[str, Platform, str]
"""Pool (empty: none), platform, invocation."""


class Costs:
    """The costs of runs within a window; of one run also by place."""

    def __init__(self, runs: Runs, window: Window, bills: Mapping[str, Bill]) -> None:
        self._records = records = runs.records
        #: by run and pool
        self._paid = [{name: Paid() for name in bills} for _ in runs.seeds]
        self._pay(runs, window, bills)
        held = records.attempts
        self._times = window.overlap(held.dispatched_at, held.ended_at)
        self._pool = records.pool_of[held.builder.codes]
        some = which((self._times > 0) & (self._pool >= 0))
        pools, times = records.builders.pool.values, self._times[some]
        of = runs.of_builder[held.builder.codes[some]] * len(pools) + self._pool[some]
        for number, busy in enumerate(_sums(of, times)):
            self._paid[number // len(pools)][pools[number % len(pools)]].busy_time += busy

    def held(self, by_pool: Mapping[str, float], by_place: dict[Place, float]) -> None:
        """Take in the slot time of jobs that are in no table; seconds."""
        for name, busy in by_pool.items():
            self.pools[name].busy_time += busy
        self.busy = by_place

    @property
    def pools(self) -> dict[str, Paid]:
        """What the first run paid, by pool."""
        return self._paid[0]

    @cached_property
    def busy(self) -> dict[Place, float]:
        """The slot time that jobs held, by place; seconds."""
        held, times, pool = self._records.attempts, self._times, self._pool
        some = which((times > 0) & (pool >= 0) & (held.row >= 0))
        of, places = self.places(self._records.jobs, held.row[some], pool[some])
        return dict(zip(places, _sums(of, times[some]), strict=True))

    def places(
        self, jobs: Jobs, rows: Rows, pool: Numbers | None = None
    ) -> tuple[Numbers, list[Place]]:
        """Return the place of each row, numbered in order of appearance.

        ``pool``: the pool of each row; None: the pool where it ended.
        """
        if pool is None:
            pool = self._records.pool_of[jobs.builder.codes[rows]]
        return places_of(jobs, rows, pool, self._records.builders.pool.values)

    def _pay(self, runs: Runs, window: Window, bills: Mapping[str, Bill]) -> None:
        builders = runs.records.builders
        run = runs.of_builder[builders.builder.codes]
        there = present(builders, window, runs.last_at[run])
        start = np.where(np.isnan(builders.requested_at), builders.joined_at, builders.requested_at)
        gone_at = np.where(np.isnan(builders.gone_at), runs.last_at[run], builders.gone_at)
        for number, name in enumerate(builders.pool.values):
            bill = bills.get(name, Bill())
            some = (builders.pool.codes == number) & ~np.isnan(start)
            of, begin = run[some], start[some]
            used = np.maximum(0.0, gone_at[some] - begin)
            times = window.overlap(begin, begin + bill.paid_time(used))
            spent = times / 3600 * bill.price, there[some], times * builders.slots[some]
            sums = [runs.total(of, values).tolist() for values in spent]
            for pools, *row in zip(self._paid, *sums, strict=True):
                pools[name] = Paid(*row)

    def total(self, run: int = 0) -> float:
        """Return the total cost of all builders of a run."""
        return math.fsum(paid.cost for paid in self._paid[run].values())

    def idle_share(self, run: int = 0) -> float | None:
        """Return the idle share of the billed slot time of a run."""
        paid = self._paid[run].values()
        slot_time = sum(one.slot_time for one in paid)
        return _idle_share(sum(one.busy_time for one in paid), slot_time)

    def used(self, places: Iterable[Place]) -> tuple[float, float | None]:
        """Return the cost of the jobs at these places, and the share of it that is idle time."""
        cost = busy = slot_time = 0.0
        for place in places:
            held, paid = self.busy.get(place, 0.0), self.pools.get(place[0])
            if held and paid is not None:
                share = held / paid.busy_time
                busy += held
                cost += share * paid.cost
                slot_time += share * paid.slot_time
        return cost, _idle_share(busy, slot_time)


def places_of(
    jobs: Jobs, rows: Rows, pool: Numbers, pools: Sequence[str]
) -> tuple[Numbers, list[Place]]:
    """Return the place of each row, numbered in order of appearance; ``pool``: that of each row."""
    # of jobs without attributes it is the last
    invocation_of, names = numbered([*jobs.invocation.values, ""])
    invocation = invocation_of[jobs.attributes.codes[rows]]
    platforms, invocations = len(jobs.platform.values), len(names)
    code = ((pool + 1) * platforms + jobs.platform.codes[rows]) * invocations + invocation
    number, found = in_order_of_appearance(code)
    parts = (
        (*divmod(rest, platforms), name)
        for rest, name in (divmod(one, invocations) for one in found.tolist())
    )
    found_pools = ["", *pools]
    return number, [(found_pools[p], jobs.platform.values[q], names[n]) for p, q, n in parts]


def _idle_share(busy: float, slot_time: float) -> float | None:
    return max(0.0, 1 - busy / slot_time) if slot_time > 0 else None


class CostParts:
    """Builds the parts of a summary from the jobs that count, by their places.

    Args:
        costs: of the builders.
        length: of the window, seconds.
        ended: how many jobs ended at each place, by outcome.
        lost: how many never ended.
        spreads_of: the spreads of waiting and response times of the jobs of some places.
        whole: those of all jobs, where their spreads are known.
    """

    def __init__(
        self,
        costs: Costs,
        length: float | None,
        ended: Mapping[Place, Mapping[str, int]],
        lost: Counter[Place],
        spreads_of: Callable[[Sequence[Place]], tuple[Spread, Spread]],
        whole: tuple[Spread, Spread] | None = None,
    ) -> None:
        self._costs = costs
        self._length = length
        self._ended = {**dict.fromkeys(costs.busy, NONE_ENDED), **ended}
        self._lost = lost
        self._spreads_of = spreads_of
        self._known: dict[tuple[Place, ...], tuple[Spread, Spread]] = {}
        if whole is not None and len(ended) == 1:
            self._known[tuple(ended)] = whole

    def by_pool(self) -> dict[str, CostPart]:
        """Return each pool's part, including pools without jobs."""
        found = self._by(lambda place: place[0])
        parts = {}
        for name, paid in self._costs.pools.items():
            part = self._part(found.get(name, []))
            idle = _idle_share(paid.busy_time, paid.slot_time)
            parts[name] = msgspec.structs.replace(
                part, cost=paid.cost, idle_share=idle, builder_time=paid.builder_time
            )
        return parts

    def by_platform(self) -> dict[str, CostPart]:
        """Return each platform's part."""
        found = self._by(lambda place: str(place[1]))
        return {name: self._part(found[name]) for name in sorted(found)}

    def by_invocation(self) -> dict[str, CostPart]:
        """Return each invocation's part; empty if no job is charged to any."""
        found = self._by(lambda place: place[2])
        if set(found) <= {""}:
            return {}
        jobs = {name: self._count(places) for name, places in found.items()}
        most = sorted(found, key=lambda name: (-jobs[name], name))
        listed = {name: found[name] for name in sorted(most[:MOST_PARTS])}
        if rest := [place for name in most[MOST_PARTS:] for place in found[name]]:
            listed[OTHERS] = rest
        return {name: self._part(places) for name, places in listed.items()}

    def _by(self, name_of: Callable[[Place], str]) -> dict[str, list[Place]]:
        found: dict[str, list[Place]] = {}
        for place in self._ended | self._lost:
            found.setdefault(name_of(place), []).append(place)
        return found

    def _count(self, places: Iterable[Place]) -> int:
        ended = sum(sum(self._ended.get(place, NONE_ENDED).values()) for place in places)
        return ended + self._never(places)

    def _never(self, places: Iterable[Place]) -> int:
        return sum(self._lost.get(place, 0) for place in places)

    def _part(self, places: Sequence[Place]) -> CostPart:
        key = tuple(places)  # a pool and a platform may have the same jobs
        if key not in self._known:
            self._known[key] = self._spreads_of(places)
        waits, responses = self._known[key]
        cost, idle_share = self._costs.used(places)
        ended = Counter(NONE_ENDED)
        for place in places:
            ended.update(self._ended.get(place, NONE_ENDED))
        return CostPart(
            submitted=self._count(places),
            lost=self._never(places),
            waiting_time=waits,
            response_time=responses,
            cost=cost,
            idle_share=idle_share,
            throughput_per_s=responses.count / self._length if self._length else None,
            **ended,
        )


def _sums(numbers: Numbers, times: Floats) -> list[float]:
    """Return the sum of the times for each number."""
    sums: list[float] = np.bincount(numbers, times).tolist()
    return sums
