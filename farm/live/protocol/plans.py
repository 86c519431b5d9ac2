"""Provisioners' plans become events."""

from __future__ import annotations

import math

from farm.core.events import PoolPlanned
from farm.core.pools.algorithm import next_multiple
from farm.live.protocol.hosts import Hosts
from farm.live.protocol.out import Out
from farm.live.protocol.roster import BuilderRequests
from farm.live.wire.messages import GiveUpBuilder, Plan, PlannerReport, Watch


class Plans:
    """Turns plans into events; those of a provisioner whose pool another watches count no more."""

    def __init__(self, builders: BuilderRequests, hosts: Hosts, out: Out) -> None:
        self._builders, self._hosts, self._out = builders, hosts, out
        self._watches: dict[str, Watch] = {}
        self._plans: dict[str, Plan] = {}
        #: counts watches and plans
        self.changes = 0

    def take(self, report: PlannerReport, at: float) -> None:
        """Carry out what a provisioner says."""
        if isinstance(report, GiveUpBuilder):
            self._hosts.give_up(report.builder, at, report.reason, excused=report.excused)
            return
        if report.pool not in self._builders.pools:
            self._out.refuse("out-of-bounds", f"there is no pool {report.pool!r:.100}", report)
            return
        watch = self._watches.get(report.pool)
        if isinstance(report, Watch):
            self._watches[report.pool] = report
            self._plans.pop(report.pool, None)
            self._builders.come_outside(report.pool, outside=report.outside)
        elif watch is None or watch.token != report.token:
            return
        else:
            self._plans[report.pool] = report
            self._out.add(_planned(report, at, outside=watch.outside))
        self.changes += 1

    def of(self, pool: str) -> tuple[Watch | None, Plan | None]:
        """Return who watches a pool, and the last plan for it."""
        return self._watches.get(pool), self._plans.get(pool)

    def next_at(self, after: float) -> float:
        """Return the farm time of the next plan of any pool; infinity if none is planned."""
        intervals = (watch.interval for watch in self._watches.values() if watch.interval)
        return min((next_multiple(interval, after) for interval in intervals), default=math.inf)


def _planned(plan: Plan, at: float, *, outside: bool) -> PoolPlanned:
    counts = plan.booting + plan.start, plan.joined, plan.waiting
    return PoolPlanned(at, plan.pool, plan.desired, *counts, plan.start, plan.stop, outside=outside)
