"""The metrics of a scheduler: fed by the driver, published by its thread, scraped by others.

Everything is written by the scheduler's thread. Now and then it publishes a frozen copy; a scrape
reads that copy, so however long it takes, and however many scrape, dispatch does not wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from farm.core.driver import Observer
from farm.core.pools.spec import PoolSpec
from farm.core.scheduler import Scheduler
from farm.metrics.farm_counts import FarmCounts
from farm.metrics.gauges import CloseLook, Gauges
from farm.metrics.series import Readings, Series, build_info
from farm.metrics.shares import Shares

NONE: Mapping[str, int] = MappingProxyType({})
#: real seconds between two publications, at least
INTERVAL = 0.5
#: real seconds between two looks at every waiting job, at least …
CLOSE_INTERVAL = 5.0
#: … and at least this many times what the last one took: it may cost the scheduler 2 %
CLOSE_RATIO = 50.0
#: with more waiting jobs than these a look would take so long that its answer is an old one
MAX_WAITING = 200_000


class FarmMetrics:
    """All metrics of one farm. Call it from the scheduler's thread; ``readings`` from any.

    Args:
        scheduler: whose farm it is.
        speed: farm seconds in a real second.
        desired: how many builders each fixed pool should have.
        pools: counters of these, and of what they build for, stand at 0 before anything happens,
            so that rates see the first burst.
        in_steps: ``step`` is called repeatedly, so long work need not be done at
            once.
        stays: of a long-running farm: how many jobs have ended is not known, nor shown, before
            ``adopt``.
        monotonic: real seconds.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        speed: float = 1.0,
        desired: Mapping[str, int] | None = None,
        pools: Iterable[PoolSpec] = (),
        in_steps: bool = False,
        stays: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler = scheduler
        self._monotonic = monotonic
        #: the live world writes its own durations there
        self.series = series = Series()
        path = scheduler.rules.path
        self._shares = None if path is None else Shares(series, path)
        self._tally = FarmCounts(series, self._shares, self._waits, self._jobs_on)
        #: handles one event and its commands
        self.observe: Observer = self._tally
        self._tally.desired |= {(pool,): count for pool, count in (desired or {}).items()}
        self._gauges = Gauges(series, scheduler)
        self._next_publication = 0.0
        self._in_steps = in_steps
        self._look: CloseLook | None = None
        self._look_took = 0.0
        self._next_close_look = 0.0
        series.set("farm_clock_speed_ratio", {(): speed})
        series.set("farm_build_info", build_info())
        series.set("farm_scheduler_leader", {(): 0.0})
        series.begin("farm_scheduler_cycle_seconds")
        series.begin("farm_scheduler_commit_seconds")
        series.begin("farm_scheduler_aside_seconds")
        series.begin("farm_server_losses_total")
        for pool in pools:
            self._tally.expect(pool)
        if not stays:
            self.adopt()
        self._readings: Readings = series.readings()

    def adopt(self, at: float = 0.0, ended: Mapping[str, int] = NONE) -> None:
        """Get to know the farm as it is, before its first event here.

        Args:
            at: when it was taken over, farm time: until then others counted its builder time.
            ended: how many jobs have ended before, by outcome.
        """
        self._tally.continue_from(ended)
        for state in self._scheduler.builders.values():
            self._tally.hours.adopt(state.builder, max(at, state.joined_at))

    def readings(self) -> Readings:
        """Return what was published last. Safe from any thread."""
        return self._readings

    def publish(
        self,
        at: float,
        *,
        hosts: int = 0,
        delay: float = 0.0,
        unplaced: Mapping[str, int] = NONE,
        is_logged: bool | None = None,
        at_once: bool = False,
    ) -> None:
        """Publish the farm as it stands, if it is time to.

        Args:
            at: farm time.
            hosts: how many play builders.
            delay: the largest of intake.
            unplaced: requested builders that no host has room for, by pool.
            is_logged: whether the event log can be written; None: none is kept.
            at_once: whether or not it is time to.
        """
        now = self._monotonic()
        if now < self._next_publication and not at_once:
            return
        self._next_publication = now + INTERVAL
        series, tally = self.series, self._tally
        self._gauges.look()
        if self._look is None and self._monotonic() >= self._next_close_look:
            self._begin_to_look(at)
        if self._shares is not None:
            slots = self._shares.slots(self._scheduler.builders.values())
            waiting = self._shares.waiting(self._scheduler.dispatcher.matching.lanes)
            unrunnable = self._shares.waiting(self._scheduler.unrunnable.lanes())
            none = dict.fromkeys(slots | waiting, 0)
            weights = self._scheduler.rules.choices.weights
            series.set("farm_share_slots", none | slots)
            series.set("farm_share_queue_depth", none | waiting)
            series.set("farm_share_jobs_unrunnable", none | unrunnable)
            series.set("farm_share_weight", {name: weights.get(name[0], 1.0) for name in none})
        series.set("farm_builder_seconds_total", tally.hours.seconds(at))
        series.set("farm_contention_slowdown_ratio", tally.slowdown())
        series.set("farm_contention_slowdown_by_jobs_ratio", tally.slowdown_by_jobs())
        series.set("farm_provisioner_desired_builders", tally.desired)
        series.set("farm_builder_hosts", {(): hosts})
        series.set("farm_builders_unplaced", {(pool,): n for pool, n in unplaced.items()})
        series.set("farm_scheduler_delay_seconds", {(): delay})
        if is_logged is not None:
            series.set("farm_event_log_ok", {(): is_logged})
        series.set("farm_clock_seconds", {(): at})
        self._readings = series.readings()

    def lead(self, *, in_charge: bool) -> None:
        """This scheduler is in charge of the farm, or not (yet, or any more)."""
        self.series.set("farm_scheduler_leader", {(): in_charge})
        self._readings = self.series.readings()

    def _waits(self, job: str) -> bool:
        state = self._scheduler.jobs.get(job)
        return state is not None and state.slot is None

    def _jobs_on(self, builder: str) -> int:
        state = self._scheduler.builders.get(builder)
        return 0 if state is None else sum(slot.running is not None for slot in state.slots)

    # --- looking at every waiting job -------------------------------------------------------

    def step(self) -> bool:
        """Look on at the waiting jobs for a millisecond or so; return whether there are more."""
        if self._look is None:
            return False
        began = self._monotonic()
        more = self._look.step()
        if not more:
            self._gauges.show(self._look)
            self._tally.new_job_estimates = self._look.new_jobs()
            self._look = None
        self._look_took += self._monotonic() - began
        if not more:
            pause = max(CLOSE_INTERVAL, CLOSE_RATIO * self._look_took)
            self._next_close_look = self._monotonic() + pause
        return more

    def _begin_to_look(self, at: float) -> None:
        waiting = self._scheduler.dispatcher.matching.waiting()
        if waiting > MAX_WAITING:
            self._gauges.show_nothing()
            self._tally.new_job_estimates = {}
            self._next_close_look = self._monotonic() + CLOSE_INTERVAL
            return
        began = self._monotonic()
        self._look = self._gauges.look_closely(at)
        self._look_took = self._monotonic() - began
        while not self._in_steps and self.step():
            pass
