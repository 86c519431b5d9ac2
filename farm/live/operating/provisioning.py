"""The interface to provisioners: their plans become events, and they are told how pools stand."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

from farm.core import events
from farm.core.events import Event, PoolSize
from farm.core.pools.algorithm import next_multiple
from farm.core.pools.observer import PoolObserver
from farm.core.pools.spec import PoolSpec
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import count_builders
from farm.live.wire import messages as wire
from farm.live.wire.pool_report import PoolReport
from farm.live.wire.report_checks import readable
from farm.live.world import LiveWorld


class Provisioning:
    """Knows which provisioner watches each pool, and its last plan."""

    def __init__(self, scheduler: Scheduler, pools: Sequence[PoolSpec]) -> None:
        self._scheduler = scheduler
        self._specs = {pool.name: pool for pool in pools}
        self._observers = {pool.name: PoolObserver(scheduler, pool) for pool in pools}
        self._watches: dict[str, wire.Watch] = {}
        self._plans: dict[str, wire.Plan] = {}

    def take(self, report: wire.Report, world: LiveWorld) -> None:
        """Carry out what a provisioner sent; what is not a provisioner's is ignored."""
        if isinstance(report, wire.Watch) and report.pool in self._specs:
            pool, closely = report.pool, report.closely
            self._watches[pool] = report
            self._plans.pop(pool, None)
            self._observers[pool] = PoolObserver(
                self._scheduler, self._specs[pool], closely=closely
            )
            world.requests.come_outside(report.pool, outside=report.outside)
        elif isinstance(report, wire.Plan) and self._is_current(report):
            self._plans[report.pool] = report
            world.add_event(partial(self._planned, report))
        elif isinstance(report, wire.GiveUpBuilder):
            at, builder, reason = world.clock.now(), report.builder, report.reason
            world.intake.give_up(builder, at, reason, excused=report.left)

    def next_plan_at(self, after: float) -> float:
        """Return the farm time of the next plan of any pool; infinity if none is planned."""
        intervals = (watch.interval for watch in self._watches.values() if watch.interval)
        return min((next_multiple(interval, after) for interval in intervals), default=math.inf)

    def reports(self, world: LiveWorld, pools: Iterable[str]) -> dict[str, PoolReport]:
        """Return how these pools stand now, by name."""
        joined = defaultdict[str, list[str]](list)
        for name, state in self._scheduler.builders.items():
            joined[state.builder.pool].append(name)
        states = count_builders(self._scheduler)
        return {
            name: self._report(name, world, states.get(name, {"booting": 0}), joined[name])
            for name in pools
        }

    def _is_current(self, plan: wire.Plan) -> bool:
        """Return whether no other provisioner has taken over the pool since the plan was made."""
        watch = self._watches.get(plan.pool)
        return watch is not None and watch.token == plan.token

    def _planned(self, plan: wire.Plan, at: float) -> Event:
        watch = self._watches.get(plan.pool)
        return events.PoolPlanned(
            at,
            plan.pool,
            plan.desired,
            plan.booting + plan.start,
            plan.joined,
            plan.waiting,
            plan.start,
            plan.stop,
            outside=watch is not None and watch.outside,
        )

    def _report(
        self, name: str, world: LiveWorld, states: dict[str, int], joined: Sequence[str]
    ) -> PoolReport:
        spec = self._scheduler.keeper.specs[name]
        watch, plan = self._watches.get(name), self._plans.get(name)
        requested = {n: r.at for n, r in self._scheduler.pool(name).requested.items()}
        return PoolReport(
            snapshot=self._observers[name].look(world.clock.now()),
            watcher=watch.token if watch else "",
            heard=plan.serial if plan else 0,
            requested=requested,
            joined=tuple(joined),
            elsewhere=world.roster.elsewhere(name) + world.requests.outside_of(name),
            states=states,
            closely=watch is not None and watch.closely,
            outside=watch is not None and watch.outside,
            provisioned=spec.provisioned,
            processors=spec.processors,
            virtualized=spec.virtualized,
            boot_time=spec.boot_time,
            speed=world.clock.speed,
            least=spec.builders,
            most=spec.max,
            chosen=self._scheduler.rules.choices.pools.get(name, PoolSize()),
            unplaced=sum(play.builder.pool == name for play in world.requests.wanted),
            desired=plan.desired if plan else (None if spec.provisioned else spec.builders),
            why=readable(plan.why) if plan else "",
        )
