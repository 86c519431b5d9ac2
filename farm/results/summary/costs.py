"""What builders cost, and whom they served: in all, by pool, by platform, by invocation.

A builder is paid from its request until it is gone, so its boot is billed, in whole billing units
of its pool. What a pool costs is shared among its jobs by the slot time that they held: who used
half of it pays half of what it cost, idle time included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from farm.core.commands import EndJob
from farm.core.model import Job, Platform
from farm.results.json_names import door_name
from farm.results.summary.builder_time import Window, attempts
from farm.results.summary.percentiles import Spread, spread_of
from farm.results.summary.records import BuilderSpan, RunRecords

MOST_PARTS = 200
"""So many invocations are listed, those with the most jobs; the others are one."""
OTHERS = "…"


class Bill(msgspec.Struct, frozen=True):
    """What a pool's builders cost: price of a builder-hour; seconds that are billed as one."""

    price: float = 1.0
    unit_time: float = 0.0

    def paid_time(self, used: float) -> float:
        """Return the seconds that are paid for this many."""
        return math.ceil(used / self.unit_time) * self.unit_time if self.unit_time else used


class Part(msgspec.Struct, frozen=True, kw_only=True, rename=door_name):
    """A part of a run: the jobs of a pool, a platform or an invocation."""

    submitted: int
    succeeded: int
    failed: int
    cancelled: int
    lost: int
    waiting_time: Spread
    response_time: Spread
    cost: float
    #: share of the slot time paid in which no job was there; None: nothing was paid
    idle_share: float | None
    #: jobs served ÷ the time that counts
    throughput_per_s: float | None
    #: of a pool: builders there, added up over time
    builder_time: float | None = None


class Paid(msgspec.Struct):
    """What was paid for a pool, and what its jobs used of it; seconds."""

    cost: float = 0.0
    builder_time: float = 0.0
    slot_time: float = 0.0
    busy_time: float = 0.0


Place = tuple[str, Platform, str]
"""Pool (empty: none), platform, invocation."""


class Costs:
    """The costs of a run within a window, by place."""

    def __init__(
        self,
        records: RunRecords,
        window: Window,
        bills: Mapping[str, Bill],
        invocation: Callable[[Job], str],
    ) -> None:
        self.pools: dict[str, Paid] = {name: Paid() for name in bills}
        self.pool_of = {span.builder: span.pool for span in records.builders}
        self.busy: dict[Place, float] = {}
        self._window = window
        for span in records.builders:
            self._pay(span, bills.get(span.pool, Bill()), records.last_at)
        for builder, job, start, end in attempts(records):
            held = window.overlap(start, end)
            pool = self.pool_of.get(builder, "")
            if held > 0 and pool:
                self.pools[pool].busy_time += held
                if job is not None:
                    place = (pool, job.platform, invocation(job))
                    self.busy[place] = self.busy.get(place, 0.0) + held

    def _pay(self, span: BuilderSpan, bill: Bill, last_at: float) -> None:
        start = span.joined_at if span.requested_at is None else span.requested_at
        paid = self.pools.setdefault(span.pool, Paid())
        if start is None:
            return
        gone_at = last_at if span.gone_at is None else span.gone_at
        until = start + bill.paid_time(max(0.0, gone_at - start))
        time = self._window.overlap(start, until)
        paid.cost += time / 3600 * bill.price
        paid.slot_time += time * span.slots
        if span.joined_at is not None:
            paid.builder_time += self._window.overlap(span.joined_at, gone_at)

    @property
    def total(self) -> float:
        """What all builders cost."""
        return math.fsum(paid.cost for paid in self.pools.values())

    @property
    def idle_share(self) -> float | None:
        """The share of the slot time paid in which no job was there."""
        slot_time = sum(paid.slot_time for paid in self.pools.values())
        return _idle_share(sum(paid.busy_time for paid in self.pools.values()), slot_time)

    def used(self, places: Iterable[Place]) -> tuple[float, float | None]:
        """Return the cost of the jobs at these places, and the idle share that they pay for."""
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
    """The jobs that count, by place, and what becomes of them in tables."""

    def __init__(
        self,
        ends: Sequence[EndJob],
        lost: Sequence[Job],
        costs: Costs,
        invocation: Callable[[Job], str],
        length: float | None,
    ) -> None:
        self._costs = costs
        self._length = length
        self._ends: dict[Place, list[EndJob]] = {place: [] for place in costs.busy}
        self._lost: dict[Place, int] = {}
        for end in ends:
            pool = costs.pool_of.get(end.builder or "", "")
            place = (pool, end.job.platform, invocation(end.job))
            self._ends.setdefault(place, []).append(end)
        for job in lost:
            place = ("", job.platform, invocation(job))
            self._lost[place] = self._lost.get(place, 0) + 1

    def by_pool(self) -> dict[str, Part]:
        """Return each pool's part, those without jobs too."""
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
        """Return each invocation's part; nothing if no job is charged to any."""
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
        for place in self._ends | self._lost:
            found.setdefault(name_of(place), []).append(place)
        return found

    def _count(self, places: Iterable[Place]) -> int:
        return sum(len(self._ends.get(p, ())) + self._lost.get(p, 0) for p in places)

    def _part(self, places: Sequence[Place]) -> Part:
        ends = [end for place in places for end in self._ends.get(place, ())]
        served = [end for end in ends if end.outcome != "cancelled"]
        outcomes = {"succeeded": 0, "failed": 0, "cancelled": 0}
        for end in ends:
            outcomes[end.outcome] += 1
        cost, idle_share = self._costs.used(places)
        return Part(
            submitted=self._count(places),
            lost=sum(self._lost.get(place, 0) for place in places),
            waiting_time=spread_of(
                [
                    e.started_at - e.job.arrival(e.submitted_at)
                    for e in ends
                    if e.started_at is not None
                ]
            ),
            response_time=spread_of(
                [e.finished_at - e.job.arrival(e.submitted_at) for e in served]
            ),
            cost=cost,
            idle_share=idle_share,
            throughput_per_s=len(served) / self._length if self._length else None,
            **outcomes,
        )
