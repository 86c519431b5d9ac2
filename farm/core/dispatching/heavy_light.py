"""Heavy-light: a builder near overload gets light jobs only, until it has room again.

The dynamic load index of the thesis (7.1): heavy and light jobs wait in separate lanes, and a
builder that is near overload serves the light ones only. Heavy jobs go to the builder with the
lowest load, light jobs to the one ranked first. The rules' ``measure`` measures the load.

Three rules keep heavy jobs from waiting forever: a builder that runs nothing always has room;
between two thresholds a builder keeps its state; and after ``hold_at_most`` without a
dispatch from a lane of heavy jobs, one of them competes for the next free slot anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

from farm.core.alarms import Alarms
from farm.core.commands import Out
from farm.core.contention.laws import ContentionLaw, Load, LoadLimits
from farm.core.dispatching.balancers import Ranking
from farm.core.dispatching.dispatcher import Dispatcher
from farm.core.dispatching.matching import BuilderGroup, Lane, Matching
from farm.core.model import Builder, Platform
from farm.core.queues.heap import UpdatableHeap
from farm.core.queues.plain import PlatformQueue
from farm.core.rules import HeavyLight, SchedulingRules
from farm.core.state.working_state import BuilderState, JobState, JobStatus, Slot


def heavy_share(builder: BuilderState) -> float:
    """Return heavy jobs ÷ slots."""
    return load_of(builder).heavy / len(builder.slots)


def slowdown_by(laws: Mapping[str, ContentionLaw]) -> Callable[[BuilderState], float]:
    """Return a measure of load: the contention factor under the law of the builder's pool."""

    def slowdown(builder: BuilderState) -> float:
        law = laws.get(builder.builder.pool)
        return 1.0 if law is None else law.slowdown(load_of(builder, law))

    return slowdown


def load_of(builder: BuilderState, law: ContentionLaw | None = None) -> Load:
    """Count what runs on a builder: O(slots)."""
    jobs = [slot.running.job for slot in builder.slots if slot.running is not None]
    return Load(
        len(jobs),
        sum(job.heavy for job in jobs),
        sum(job.memory_heavy for job in jobs),
        0 if law is None else sum(law.threads_of(j.threads, heavy=j.heavy) for j in jobs),
    )


def _is_on_its_way(slot: Slot) -> bool:
    """Return whether a heavy job was sent to the slot and is not confirmed yet."""
    state = slot.running
    return state is not None and state.job.heavy and state.status is JobStatus.DISPATCHED


class HeavyLane(Lane):
    """The heavy jobs of one platform."""

    __slots__ = ("name",)

    def __init__(self, platform: Platform, queue: PlatformQueue) -> None:
        super().__init__(platform, queue)
        self.heavy = True
        self.name = str(platform)

    def best_builder(self) -> BuilderState | None:
        """Return the builder with the lowest load that has room for a heavy job."""
        heaps = [group.calm for group in self.groups if isinstance(group, WeighedGroup)]
        found = [(heap.key(best), best) for heap in heaps if (best := heap.first()) is not None]
        return min(found, key=lambda pair: pair[0])[1] if found else None

    def free_builders(self, count: int) -> list[BuilderState]:
        """Return builders that have room for a heavy job, the best ``count`` of each group."""
        heaps = [group.calm for group in self.groups if isinstance(group, WeighedGroup)]
        return [builder for heap in heaps for builder in heap.ordered()[:count]]


class WeighedGroup(BuilderGroup):
    """Builders of one kind, and which of them may take a heavy job now."""

    __slots__ = ("calm", "light_lanes")

    def __init__(self, sample: Builder, ranking: Ranking) -> None:
        super().__init__(sample, ranking)
        self.light_lanes: list[Lane] = []
        #: builders with a free slot that are not overloaded, by load, rank and index
        self.calm: UpdatableHeap[BuilderState] = UpdatableHeap()

    @property
    def heavy_lanes(self) -> list[HeavyLane]:
        """The heavy jobs' lanes that these builders serve."""
        return [lane for lane in self.lanes if isinstance(lane, HeavyLane)]


class _WeighedMatching(Matching):
    """Keeps two lanes for each platform."""

    __slots__ = ()

    def __init__(self, ranking: Ranking, make_queue: Callable[[], PlatformQueue]) -> None:
        super().__init__(ranking, make_queue)
        self.by_weight = ({}, {})

    def _new_lane(self, platform: Platform, *, heavy: bool) -> Lane:
        return (HeavyLane if heavy else Lane)(platform, self._make_queue())

    def _new_group(self, sample: Builder) -> BuilderGroup:
        return WeighedGroup(sample, self._ranking)

    def _connect(self, lane: Lane, group: BuilderGroup) -> None:
        super()._connect(lane, group)
        if isinstance(group, WeighedGroup) and not lane.heavy and group in lane.groups:
            group.light_lanes.append(lane)


class HeavyLightDispatcher(Dispatcher):
    """Measures a builder's load whenever it changes, and chooses its lanes accordingly.

    Heavy jobs are held back since one of their platform was last dispatched, or the first arrived.
    """

    matching_type = _WeighedMatching

    def __init__(self, rules: SchedulingRules, rule: HeavyLight, alarms: Alarms, out: Out) -> None:
        super().__init__(rules, alarms, out)
        self._limits: LoadLimits = rule.limits
        #: None: builders report their load
        self._measure = rule.measure
        self._hold_at_most = rule.hold_at_most
        self._heavy_first = rule.heavy_first

    # --- load -------------------------------------------------------------------------------

    def _weigh(self, builder: BuilderState, at: float) -> None:
        """Measure a builder's load again, and admit or refuse heavy jobs."""
        was = builder.overloaded
        builder.overloaded = self._is_overloaded(builder)
        if builder.overloaded != was:
            self._switch(builder, at)
        self._place(builder)

    def _is_overloaded(self, builder: BuilderState) -> bool:
        if all(slot.running is None for slot in builder.slots):
            return False
        if self._measure is None:
            return builder.overloaded
        return self._limits.overloaded(self._measure(builder), was=builder.overloaded)

    def _switch(self, builder: BuilderState, at: float) -> None:
        """Let the builder serve light lanes only, or all; notify trees of its free slots."""
        group = _group(builder)
        builder.lanes = group.light_lanes if builder.overloaded else group.lanes
        if not self.watched or not builder.accepts:
            return
        for slot in builder.slots:
            if slot.running is None and not slot.cleaning:
                for lane in group.heavy_lanes:
                    if builder.overloaded:
                        lane.queue.slot_unavailable(slot, at, gone=False)
                    else:
                        lane.queue.slot_free(slot, at)

    def _place(self, builder: BuilderState) -> None:
        group = _group(builder)
        if builder.rank is None or builder.overloaded:
            group.calm.discard(builder)
        else:
            load = heavy_share(builder) if self._measure is None else self._measure(builder)
            group.calm.put(builder, (load, builder.rank, builder.builder.index))

    def _before(self, state: JobState, other: JobState) -> bool:
        ours, theirs = state.job, other.job
        if self._heavy_first and ours.heavy != theirs.heavy and ours.level == theirs.level:
            return ours.heavy
        return super()._before(state, other)

    # --- as the plain dispatcher, then measuring the load again -----------------------------

    def wait(self, state: JobState, lane: Lane, at: float) -> None:
        """Queue a job in its lane."""
        if isinstance(lane, HeavyLane) and not lane.waiting:
            self.held[lane.name] = at
        super().wait(state, lane, at)

    def _dispatch(self, state: JobState, slot: Slot, lane: Lane, at: float) -> None:
        super()._dispatch(state, slot, lane, at)
        builder = slot.builder
        if isinstance(lane, HeavyLane):
            self.held[lane.name] = at
            if self._measure is None and not builder.overloaded:
                builder.overloaded = True  # until the builder reports its load with this job
                self._switch(builder, at)
        self._weigh(builder, at)

    def attempt_over(self, slot: Slot, at: float) -> None:
        """Reuse the slot of an ended attempt; its builder may have room for heavy jobs again."""
        builder = slot.builder
        slot.running = None
        slot.cleaning = builder.builder.cleans
        self._weigh(builder, at)
        super().attempt_over(slot, at)
        self._fill_heavy(_group(builder), at)

    def open_slot(self, slot: Slot, builder: BuilderState, at: float) -> None:
        """Offer a free slot."""
        heavy = _group(builder).heavy_lanes
        if builder.overloaded and any(self._overdue(lane, at) for lane in heavy):
            self._relent(builder, at)
        super().open_slot(slot, builder, at)
        self._weigh(builder, at)

    def close(self, builder: BuilderState, at: float, *, gone: bool = False) -> None:
        """Withdraw a builder's slots."""
        super().close(builder, at, gone=gone)
        _group(builder).calm.discard(builder)

    def reoffer(self, builder: BuilderState, at: float) -> None:
        """Offer a builder whose state was restored."""
        super().reoffer(builder, at)
        if builder.overloaded:
            builder.lanes = _group(builder).light_lanes
        self._place(builder)

    # --- admitting heavy jobs ---------------------------------------------------------------

    def load_reported(self, builder: BuilderState, overloaded: bool, at: float) -> None:
        """Handle a builder's report on its load; ignored unless reports are the measure."""
        if self._measure is not None or overloaded == builder.overloaded:
            return
        if not overloaded and any(_is_on_its_way(slot) for slot in builder.slots):
            return  # it did not know yet of the job on its way to it
        builder.overloaded = overloaded
        self._switch(builder, at)
        self._weigh(builder, at)
        self._fill_heavy(_group(builder), at)

    def alarm_rang(self, at: float) -> None:
        """Admit heavy jobs that have been held back long enough."""
        for lane in self.matching.with_jobs():
            if isinstance(lane, HeavyLane) and self._overdue(lane, at):
                self._let_in(lane, at)
            self._held_back([lane], at)

    def _let_in(self, lane: HeavyLane, at: float) -> None:
        """Send one heavy job to an overloaded builder, if one has a free slot."""
        builder = Lane.best_builder(lane)
        if builder is not None and lane.best_builder() is None:
            self._relent(builder, at)
            self.fill_lanes([lane], at)
            self._weigh(builder, at)

    def _fill_heavy(self, group: WeighedGroup, at: float) -> None:
        lanes = [lane for lane in group.heavy_lanes if lane.waiting]
        if lanes:
            self.fill_lanes(lanes, at)

    def _relent(self, builder: BuilderState, at: float) -> None:
        """Treat an overloaded builder as if it had room, until its load is measured again."""
        builder.overloaded = False
        self._switch(builder, at)
        self._place(builder)

    def _overdue(self, lane: HeavyLane, at: float) -> bool:
        return lane.waiting > 0 and at >= self._held_until(lane, at)

    def _held_back(self, lanes: Iterable[Lane], at: float) -> None:
        for lane in lanes:
            if isinstance(lane, HeavyLane) and lane.waiting:
                rings_at = self._held_until(lane, at)
                if at < rings_at < float("inf"):
                    self._alarms.ask(rings_at)

    def _held_until(self, lane: HeavyLane, at: float) -> float:
        return self.held.setdefault(lane.name, at) + self._hold_at_most


def _group(builder: BuilderState) -> WeighedGroup:
    """Return a builder's group, as this balancer's matching makes them."""
    return cast("WeighedGroup", builder.group)
