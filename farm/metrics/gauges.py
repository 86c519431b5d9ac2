"""What a farm looks like right now, counted from the scheduler's own numbers.

The scheduler's thread calls this a few times per second and publishes the result; a scrape only
reads what was published. Queues cost O(platforms), builders O(builders and slots); the estimates,
which look at every waiting job, are made less often, and in steps.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import islice

from farm.core.dispatching.matching import BuilderGroup, Lane
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import condition_of
from farm.core.state.working_state import BuilderState, JobState
from farm.forecasts.dispatch.in_steps import QueueSweep
from farm.metrics.catalogue import NAMES
from farm.metrics.series import Bounded, Labels, Series

BUILDER_STATES = (
    "booting",
    "idle",
    "building",
    "cleaning",
    "draining",
    "failed",
    "stopping",
)
SLOT_STATES = ("busy", "idle", "cleaning", "unavailable")


class Gauges:
    """Writes the gauges of one farm. A pool or platform, once seen, stays (at zero)."""

    def __init__(self, series: Series, scheduler: Scheduler) -> None:
        self._series = series
        self._scheduler = scheduler
        self._pool = Bounded(NAMES)
        self._platform = Bounded(NAMES)
        specs = scheduler.keeper.specs.items()
        self._samples = [(name, spec.builder(1, 1)) for name, spec in specs]
        #: (pool, platform) -> 1, and how many platforms were compared with the pools
        self._serves: dict[Labels, float] = {}
        self._compared = 0
        self._builders: Counter[Labels] = Counter()
        self._slots: Counter[Labels] = Counter()
        self._running: Counter[Labels] = Counter()

    def look(self) -> None:
        """Count queues, builders and slots."""
        platforms = self._scheduler.dispatcher.matching.depths()
        depths: Counter[Labels] = Counter()
        for platform, waiting in platforms.items():
            depths[(self._platform(str(platform)),)] += waiting
        unrunnable = Counter(dict.fromkeys(depths, 0))
        for lane in self._scheduler.unrunnable.lanes():
            unrunnable[(self._label(lane),)] += lane.waiting
        self._series.set("farm_queue_depth", depths)
        self._series.set("farm_jobs_blocked", {(): float(len(self._scheduler.blocked.states))})
        self._series.set("farm_jobs_unrunnable", unrunnable)
        for platform in islice(platforms, self._compared, None):
            able = (name for name, builder in self._samples if builder.can_run(platform))
            label = self._platform(str(platform))
            self._serves.update({(self._pool(name), label): 1.0 for name in able})
        self._compared = len(platforms)
        self._count_builders()
        self._series.set("farm_pool_platform_info", self._serves)
        self._series.set("farm_builders", self._builders)
        self._series.set("farm_slots", self._slots)
        self._series.set("farm_jobs_running", self._running)

    def look_closely(self, at: float) -> CloseLook:
        """Begin to look at every waiting job; see ``show``."""
        return CloseLook(self._scheduler, self._platform, at)

    def show(self, look: CloseLook) -> None:
        """Write what a look that is over has found."""
        oldest: dict[Labels, float] = {(name,): wait for name, wait in look.oldest.items()}
        self._series.set("farm_queue_oldest_wait_seconds", oldest)
        estimates: dict[Labels, float] = {}
        for position, found in (("head", look.heads()), ("new", look.new_jobs())):
            estimates.update(((name, position), value) for name, value in found.items())
        self._series.set("farm_dispatch_estimate_seconds", estimates)

    def show_nothing(self) -> None:
        """Show no old values: there was no new look."""
        self._series.set("farm_queue_oldest_wait_seconds", {})
        self._series.set("farm_dispatch_estimate_seconds", {})

    def _count_builders(self) -> None:
        for counts in (self._builders, self._slots, self._running):
            for key in counts:
                counts[key] = 0
        for pool in self._scheduler.pools.values():
            name = self._pool(pool.name)
            for state in BUILDER_STATES:
                self._builders[name, state] += 0
            for state in SLOT_STATES:
                self._slots[name, state] += 0
            self._running[name,] += 0
            self._builders[name, "booting"] += len(pool.requested)
        # many builders, but few that are not in the same state as another one
        alike = Counter(map(_state_of, self._scheduler.builders.values()))
        for (pool_name, group, condition, busy, cleaning, free, accepts), count in alike.items():
            name = self._pool(pool_name)
            for lane in group.lanes:  # of a pool without a specification, too
                self._serves[name, self._label(lane)] = 1.0
            self._builders[name, condition] += count
            self._running[name,] += count * busy
            self._slots[name, "busy"] += count * busy
            self._slots[name, "cleaning"] += count * cleaning
            self._slots[name, "idle" if accepts else "unavailable"] += count * free

    def _label(self, lane: Lane) -> str:
        return self._platform(str(lane.platform))


class CloseLook:
    """Examines the jobs waiting at its creation, in small steps between which the farm continues.

    ``label`` returns the label that stands for a platform's name.
    """

    def __init__(self, scheduler: Scheduler, label: Callable[[str], str], at: float) -> None:
        matching = scheduler.dispatcher.matching
        depths = matching.depths()
        self._labels = {platform: label(str(platform)) for platform in depths}
        self._waiting = [platform for platform, waiting in depths.items() if waiting]
        self._at = at
        #: how long the oldest waiting job of each platform has waited, seconds
        self.oldest = dict.fromkeys(self._labels.values(), 0.0)
        builders = scheduler.builders.values()
        lanes = matching.with_jobs()
        self._sweep = QueueSweep(lanes, builders, at, look=self._look, since=math.inf)

    def step(self) -> bool:
        """Look on a little; return whether there is more to look at."""
        return self._sweep.step()

    def _look(self, state: JobState) -> None:
        label, wait = self._labels[state.lane.platform], self._at - state.queued_at
        if wait > self.oldest[label]:
            self.oldest[label] = wait

    def heads(self) -> dict[str, float]:
        """Return the seconds until the head of each platform's queue is dispatched, if ever."""
        of = self._sweep.estimates.head_of_queue
        found = {self._labels[platform]: of(platform) for platform in self._waiting}
        return {label: value for label, value in found.items() if value is not None}

    def new_jobs(self) -> dict[str, float]:
        """Return the seconds until a job submitted now is dispatched, if ever, by platform."""
        of = self._sweep.estimates.new_job
        found = {label: of(platform) for platform, label in self._labels.items()}
        return {label: value for label, value in found.items() if value is not None}


def _state_of(builder: BuilderState) -> tuple[str, BuilderGroup, str, int, int, int, bool]:
    """Return pool, group, condition, busy, cleaned and free slots, and whether it takes jobs."""
    slots, taken = builder.slots, builder.busy
    busy = 0
    if taken:
        for slot in slots:
            busy += slot.running is not None
    pool, free = builder.builder.pool, len(slots) - taken
    return pool, builder.group, condition_of(builder), busy, taken - busy, free, builder.accepts
