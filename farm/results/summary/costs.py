"""The costs of builders and the jobs they served: in total, by pool, platform and invocation.

A builder is billed from its request until it has left, boot included, in whole billing units of its
pool. A pool's costs are shared among its jobs in proportion to the slot time that they held: one
that used half of it pays half of the costs, idle time included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from farm.core.fields import json_name
from farm.core.model import Job, Platform
from farm.results.summary.builder_time import Window, present
from farm.results.summary.columns import Columns
from farm.results.summary.descriptive_statistics import Floats, Spread, spread_of
from farm.results.summary.job_columns import (
    Ends,
    Numbers,
    in_order_of_appearance,
    numbered,
    total,
    which,
)

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


class Part(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """A part of a run: the jobs of a pool, a platform or an invocation."""

    submitted: int
    succeeded: int
    failed: int
    cancelled: int
    lost: int
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


Place = tuple[str, Platform, str]
"""Pool (empty: none), platform, invocation."""


Invocations = Callable[[Mapping[str, str]], str]
"""Returns the invocation to which jobs with these attributes are charged."""


class Costs:
    """The costs of a run within a window, by place."""

    def __init__(
        self, columns: Columns, window: Window, bills: Mapping[str, Bill], invocation: Invocations
    ) -> None:
        self.pools: dict[str, Paid] = {name: Paid() for name in bills}
        self._columns = columns
        self._pools = ["", *columns.spans.pools]
        # the last entry is for jobs without attributes
        charged_to = [*map(invocation, columns.ends.attributions), ""]
        self._invocation_of, self._invocations = numbered(charged_to)
        self._pay(window, bills)
        held = columns.attempts
        times = window.overlap(held.dispatched_at, held.ended_at)
        pool = columns.pool_of[held.builder]
        some = which((times > 0) & (pool >= 0))
        for number, busy in enumerate(_sums(pool[some], times[some])):
            self.pools[columns.spans.pools[number]].busy_time += busy
        some = which((times > 0) & (pool >= 0) & (held.row >= 0))
        of, places = self.places(columns.ends, held.row[some], pool[some])
        self.busy: dict[Place, float] = dict(zip(places, _sums(of, times[some]), strict=True))

    def places(
        self, ends: Ends, rows: Numbers, pool: Numbers | None = None
    ) -> tuple[Numbers, list[Place]]:
        """Return the place of each row, numbered in order of appearance.

        ``pool``: the pool of each row; None: the pool where it ended.
        """
        if pool is None:
            pool = self._columns.pool_of[ends.builder[rows]]
        invocation = self._invocation_of[ends.attribution[rows]]
        platforms, invocations = len(ends.platforms), len(self._invocations)
        code = ((pool + 1) * platforms + ends.platform[rows]) * invocations + invocation
        number, found = in_order_of_appearance(code)
        return number, [
            (
                self._pools[one // (platforms * invocations)],
                ends.platforms[one // invocations % platforms],
                self._invocations[one % invocations],
            )
            for one in found.tolist()
        ]

    def _pay(self, window: Window, bills: Mapping[str, Bill]) -> None:
        spans, last_at = self._columns.spans, self._columns.last_at
        there = present(spans, window, last_at)
        start = np.where(np.isnan(spans.requested_at), spans.joined_at, spans.requested_at)
        gone_at = np.where(np.isnan(spans.gone_at), last_at, spans.gone_at)
        for number, name in enumerate(spans.pools):
            bill, paid = bills.get(name, Bill()), self.pools.setdefault(name, Paid())
            some = (spans.pool == number) & ~np.isnan(start)
            used = np.maximum(0.0, gone_at[some] - start[some])
            times = window.overlap(start[some], start[some] + bill.paid_time(used))
            paid.cost = total(times / 3600 * bill.price)
            paid.slot_time = total(times * spans.slots[some])
            paid.builder_time = total(there[some])

    @property
    def total(self) -> float:
        """The total cost of all builders."""
        return math.fsum(paid.cost for paid in self.pools.values())

    @property
    def idle_share(self) -> float | None:
        """The idle share of the billed slot time."""
        slot_time = sum(paid.slot_time for paid in self.pools.values())
        return _idle_share(sum(paid.busy_time for paid in self.pools.values()), slot_time)

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


def _idle_share(busy: float, slot_time: float) -> float | None:
    return max(0.0, 1 - busy / slot_time) if slot_time > 0 else None


class Parts:
    """Builds the parts of a summary from the jobs that count."""

    def __init__(
        self,
        ends: Ends,
        lost: Sequence[Job],
        costs: Costs,
        invocation: Invocations,
        length: float | None,
    ) -> None:
        self._costs = costs
        self._length = length
        self._ends = ends
        of, places = costs.places(ends, np.arange(len(ends)))
        by_place = np.split(np.argsort(of, kind="stable"), np.cumsum(np.bincount(of))[:-1])
        none = np.zeros(0, np.int64)
        self._rows: dict[Place, Numbers] = {
            **dict.fromkeys(costs.busy, none),
            **dict(zip(places, by_place, strict=False)),
        }
        self._lost: dict[Place, int] = {}
        for job in lost:
            place = ("", job.platform, invocation(job.attributes))
            self._lost[place] = self._lost.get(place, 0) + 1

    def by_pool(self) -> dict[str, Part]:
        """Return each pool's part, including pools without jobs."""
        found = self._by(lambda place: place[0])
        parts = {}
        for name, paid in self._costs.pools.items():
            part = self._part(found.get(name, []))
            parts[name] = msgspec.structs.replace(
                part,
                cost=paid.cost,
                idle_share=_idle_share(paid.busy_time, paid.slot_time),
                builder_time=paid.builder_time,
            )
        return parts

    def by_platform(self) -> dict[str, Part]:
        """Return each platform's part."""
        found = self._by(lambda place: str(place[1]))
        return {name: self._part(found[name]) for name in sorted(found)}

    def by_invocation(self) -> dict[str, Part]:
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
        for place in self._rows | self._lost:
            found.setdefault(name_of(place), []).append(place)
        return found

    def _count(self, places: Iterable[Place]) -> int:
        return sum(len(self._rows.get(p, ())) + self._lost.get(p, 0) for p in places)

    def _part(self, places: Sequence[Place]) -> Part:
        rows = [found for place in places if (found := self._rows.get(place)) is not None]
        ends = self._ends
        if [len(some) for some in rows] != [len(ends)]:
            ends = ends.taken(np.concatenate([np.arange(0), *rows]))
        responses = ends.responses()
        cost, idle_share = self._costs.used(places)
        return Part(
            submitted=self._count(places),
            lost=sum(self._lost.get(place, 0) for place in places),
            waiting_time=spread_of(ends.waits()),
            response_time=spread_of(responses),
            cost=cost,
            idle_share=idle_share,
            throughput_per_s=len(responses) / self._length if self._length else None,
            **ends.counts(),
        )


def _sums(numbers: Numbers, times: Floats) -> list[float]:
    """Return the sum of the times for each number."""
    sums: list[float] = np.bincount(numbers, times).tolist()
    return sums
