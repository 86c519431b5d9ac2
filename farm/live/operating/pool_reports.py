"""How pools stand, as provisioners are told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from farm.core.events import PoolSize
from farm.core.pools.observer import PoolObserver
from farm.core.pools.spec import PoolSpec
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import count_builders
from farm.live.clock import FarmClock
from farm.live.protocol.protocol import Protocol
from farm.live.wire.messages import Watch
from farm.live.wire.pool_report import PoolReport
from farm.live.wire.report_checks import readable


class PoolReports:
    """Observes the pools."""

    def __init__(self, scheduler: Scheduler, pools: Sequence[PoolSpec]) -> None:
        self._scheduler = scheduler
        self._observers = {pool.name: PoolObserver(scheduler, pool) for pool in pools}
        #: for whom each pool is observed
        self._watches: dict[str, Watch] = {}

    def of(
        self, protocol: Protocol, clock: FarmClock, pools: Iterable[str]
    ) -> dict[str, PoolReport]:
        """Return how these pools stand now, by name."""
        joined = defaultdict[str, list[str]](list)
        for name, state in self._scheduler.builders.items():
            joined[state.builder.pool].append(name)
        states = count_builders(self._scheduler)
        none = {"booting": 0}
        return {
            name: self._report(name, protocol, clock, states.get(name, none), joined[name])
            for name in pools
        }

    def _report(
        self,
        name: str,
        protocol: Protocol,
        clock: FarmClock,
        states: dict[str, int],
        joined: Sequence[str],
    ) -> PoolReport:
        spec = self._scheduler.keeper.specs[name]
        watch, plan = protocol.plans.watches.get(name), protocol.plans.plans.get(name)
        if watch is not None and watch is not self._watches.get(name):
            self._watches[name] = watch
            self._observers[name] = PoolObserver(self._scheduler, spec, closely=watch.closely)
        requested = {n: r.at for n, r in self._scheduler.pool(name).requested.items()}
        return PoolReport(
            snapshot=self._observers[name].look(clock.now()),
            watcher=watch.token if watch else "",
            heard=plan.serial if plan else 0,
            requested=requested,
            joined=tuple(joined),
            elsewhere=protocol.roster.elsewhere(name) + protocol.builders.outside_of(name),
            states=states,
            closely=watch is not None and watch.closely,
            outside=watch is not None and watch.outside,
            provisioned=spec.provisioned,
            processors=spec.processors,
            virtualized=spec.virtualized,
            boot_time=spec.boot_time,
            speed=clock.speed,
            least=spec.builders,
            most=spec.max,
            chosen=self._scheduler.rules.choices.pools.get(name, PoolSize()),
            unplaced=sum(play.builder.pool == name for play in protocol.builders.wanted),
            desired=plan.desired if plan else (None if spec.provisioned else spec.builders),
            why=readable(plan.why) if plan else "",
        )
