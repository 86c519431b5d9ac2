"""Reports on pools, by which provisioners plan and operators see how they stand; and when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from farm.core.events import PoolSize
from farm.core.pools.observer import PoolObserver
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import count_builders
from farm.live.clock import FarmClock
from farm.live.protocol.protocol import Protocol
from farm.live.regular_work import WakeupForecast
from farm.live.wire.pool_report import PoolReport
from farm.live.wire.report_checks import readable

#: real seconds between reports; more if they are costly
REPORT_INTERVAL = 0.2
#: … but no more than leaves the farm's status fresh (client.FRESH)
MAX_REPORT_INTERVAL = 5.0
#: after a report there is none for this many times the processor's time that it took
MIN_REST = 20
#: real seconds between reports where nothing has happened: only farm time has changed. Somewhat
#: more than two heartbeats, as for looks (``regular_work.LOOK_INTERVAL``)
REST_INTERVAL = 2.2


class PoolReporter:
    """Reports what the scheduler has in its pools, and what hosts and plans make of that."""

    def __init__(self, scheduler: Scheduler, protocol: Protocol, clock: FarmClock) -> None:
        self._scheduler = scheduler
        self._protocol = protocol
        self._clock = clock

    def reports(self, pools: Iterable[str]) -> dict[str, PoolReport]:
        """Return how these pools stand now, by name."""
        joined = defaultdict[str, list[str]](list)
        for name, state in self._scheduler.builders.items():
            joined[state.builder.pool].append(name)
        counts = count_builders(self._scheduler)
        states = {name: counts.get(name, {"booting": 0}) for name in pools}
        return {name: self._report_on(name, states[name], joined[name]) for name in states}

    def _report_on(self, name: str, states: dict[str, int], joined: Sequence[str]) -> PoolReport:
        scheduler, spec = self._scheduler, self._scheduler.keeper.specs[name]
        watch, plan, unplaced, elsewhere = self._protocol.standing(name)
        closely = watch is not None and watch.closely
        return PoolReport(
            snapshot=PoolObserver(scheduler, spec, closely=closely).look(self._clock.now()),
            watcher=watch.token if watch else "",
            heard=plan.serial if plan else 0,
            requested={n: r.at for n, r in scheduler.pool(name).requested.items()},
            joined=tuple(joined),
            elsewhere=elsewhere,
            states=states,
            closely=closely,
            outside=watch is not None and watch.outside,
            provisioned=spec.provisioned,
            processors=spec.processors,
            virtualized=spec.virtualized,
            boot_time=spec.boot_time,
            speed=self._clock.speed,
            least=spec.builders,
            most=spec.max,
            chosen=scheduler.rules.choices.pools.get(name, PoolSize()),
            unplaced=unplaced,
            desired=plan.desired if plan else (None if spec.provisioned else spec.builders),
            why=readable(plan.why) if plan else "",
            plan_least=plan.least if plan else 0,
            plan_most=plan.most if plan else None,
            period=readable(plan.period) if plan else "",
        )


class ReportSchedule:
    """When the farm's state is reported: soon after something happened, at rest now and then.

    All instants are real, but for those of plans.
    """

    def __init__(self, protocol: Protocol, clock: FarmClock) -> None:
        self._protocol = protocol
        self._clock = clock
        self._wakeups = WakeupForecast()
        #: whether anything has happened since the last report
        self.is_news = True
        self._next_report = 0.0
        #: before this no report is made, as one costs much
        self._not_before = 0.0
        #: when the last report was made, and what the farm time was
        self._reported_at = 0.0
        self._reported_farm_at = 0.0
        #: changes of hosts and plans that are in the last report
        self._changes = (0, 0)
        #: changes of plans for which a report was made due
        self._plans = 0

    def is_time(self, now: float) -> bool:
        """Return whether a report is to be made; called at each turn."""
        self._wakeups.come(now)
        _, plans = self._protocol.changes
        if plans != self._plans:
            # their events have been handled: an earlier report would have a provisioner plan twice
            self._plans = plans
            self._next_report = 0.0
        return now >= self.due(now) or self._may_be_early(now)

    def due(self, now: float) -> float:
        """Return when the next report is to be made."""
        due = self._reported_at + REST_INTERVAL
        if self.is_news or self._protocol.changes != self._changes:
            due = self._next_report
        plans_at = self._protocol.next_plan_at(self._reported_farm_at)
        needed_at = now + self._clock.real_until(plans_at)
        return min(due, max(needed_at, self._not_before))

    def _may_be_early(self, now: float) -> bool:
        """Return whether a report of a farm at rest is made now, before it is due."""
        due = self._reported_at + REST_INTERVAL
        return now >= self._not_before and self._wakeups.is_time_for(due)

    def begin(self, now: float) -> bool:
        """Note that a report is being made; return whether anything has happened before."""
        was_news = self.is_news
        self.is_news = False
        self._reported_at = now
        self._reported_farm_at = self._clock.now()
        self._changes = self._protocol.changes
        return was_news

    def reported(self, began: float, cost: float) -> None:
        """Note what a report has cost, in seconds of the processor: it is not made too often."""
        rest = min(MIN_REST * cost, MAX_REPORT_INTERVAL)
        self._not_before = began + rest
        self._next_report = began + max(REPORT_INTERVAL, rest)
