"""Heavy-light: a builder near overload gets light jobs only, until it has room again.

The dynamic load index of the thesis (7.1): heavy and light jobs wait in separate lanes, and a
builder that is near overload serves the light ones only. Heavy jobs go to the builder with the
lowest load, light jobs to the one ranked first. The rules' ``measure`` measures the load.

Three rules keep heavy jobs from waiting forever: a builder that runs nothing always has room;
between two thresholds a builder keeps its state; and after ``hold_at_most`` without a
dispatch from a lane of heavy jobs, one of them competes for the next free slot anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from farm.core.alarms import Alarms
from farm.core.contention.laws import ContentionLaw
from farm.core.dispatching.holding import HoldRule
from farm.core.dispatching.matching import Lane, Matching
from farm.core.model import Job
from farm.core.rules import HeavyLightOptions, SchedulingRules
from farm.core.state.working_state import BuilderState, JobState, JobStatus, Slot


def heavy_share(builder: BuilderState) -> float:
    """Return heavy jobs ÷ slots."""
    return sum(job.heavy for job in _running_on(builder)) / len(builder.slots)


def slowdown_by(laws: Mapping[str, ContentionLaw]) -> Callable[[BuilderState], float]:
    """Return a measure of load: the contention factor under the law of the builder's pool."""
    return partial(slowdown, laws)


def slowdown(laws: Mapping[str, ContentionLaw], builder: BuilderState) -> float:
    """Return the contention factor under the law of the builder's pool; 1 without one."""
    law = laws.get(builder.builder.pool)
    return 1.0 if law is None else law.slowdown(law.load_of(_running_on(builder)))


def is_measured(options: HeavyLightOptions) -> bool:
    """Return whether the load is one of the measures of this module."""
    measure = options.measure
    return measure is heavy_share or (isinstance(measure, partial) and measure.func is slowdown)


def _running_on(builder: BuilderState) -> list[Job]:
    return [slot.running.job for slot in builder.slots if slot.running is not None]


def _is_on_its_way(slot: Slot) -> bool:
    """Return whether a heavy job was sent to the slot and is not confirmed yet."""
    state = slot.running
    return state is not None and state.job.heavy and state.status is JobStatus.DISPATCHED


class HeavyLightRule(HoldRule):
    """Measures a builder's load whenever it changes, and chooses its lanes accordingly.

    Heavy jobs are held back since one of their platform was last dispatched, or the first arrived.
    """

    def __init__(self, rules: SchedulingRules, rule: HeavyLightOptions, alarms: Alarms) -> None:
        matching = Matching(
            rules.ranking, rules.make_queue, by_weight=True, heavy_first=rule.heavy_first
        )
        super().__init__(matching, alarms)
        self._watched = rules.path is not None
        self._limits = rule.limits
        #: None: builders report their load
        self._measure = rule.measure
        self._hold_at_most = rule.hold_at_most

    # --- load -------------------------------------------------------------------------------

    def _weigh(self, builder: BuilderState, at: float) -> None:
        """Measure a builder's load again, and admit or refuse heavy jobs."""
        self._switch(builder, self._is_overloaded(builder), at)
        self._place(builder)

    def _is_overloaded(self, builder: BuilderState) -> bool:
        if all(slot.running is None for slot in builder.slots):
            return False
        if self._measure is None:
            return builder.overloaded
        return self._limits.overloaded(self._measure(builder), was=builder.overloaded)

    def _switch(self, builder: BuilderState, overloaded: bool, at: float) -> None:
        """Let the builder serve light lanes only, or all; notify trees of its free slots."""
        if overloaded == builder.overloaded:
            return
        builder.overloaded = overloaded
        group = builder.group
        builder.lanes = group.light_lanes if overloaded else group.lanes
        if not self._watched or not builder.accepts:
            return
        heavy = [lane for lane in group.lanes if lane.heavy]
        for slot in builder.slots:
            if slot.running is None and not slot.cleaning:
                for lane in heavy:
                    if overloaded:
                        lane.queue.slot_unavailable(slot, at, gone=False)
                    else:
                        lane.queue.slot_free(slot, at)

    def _place(self, builder: BuilderState) -> None:
        calm = builder.group.calm
        if builder.rank is None or builder.overloaded:
            calm.discard(builder)
        else:
            load = heavy_share(builder) if self._measure is None else self._measure(builder)
            calm.put(builder, (load, builder.rank, builder.builder.index))

    def waits(self, lane: Lane, at: float) -> None:
        """Begin to count the time of a lane in which no job waited."""
        if lane.heavy and not lane.waiting:
            self.held[lane.name] = at

    def taken(self, state: JobState, slot: Slot, at: float) -> None:
        """Measure the load with the job."""
        builder = slot.builder
        if state.lane.heavy:
            self.held[state.lane.name] = at
            if self._measure is None:
                # until the builder reports its load with this job
                self._switch(builder, True, at)
        self._weigh(builder, at)

    def freed(self, slot: Slot, at: float) -> None:
        """Measure the load without the job that ended."""
        self._weigh(slot.builder, at)

    def closed(self, builder: BuilderState, *, gone: bool) -> None:
        """Send a builder no more heavy jobs."""
        builder.group.calm.discard(builder)

    def restored(self, builder: BuilderState) -> None:
        """Let a builder serve the lanes that it served."""
        if builder.overloaded:
            builder.lanes = builder.group.light_lanes
        self._place(builder)

    def load_reported(self, builder: BuilderState, overloaded: bool, at: float) -> list[Lane]:
        """Handle a builder's report on its load; ignored unless reports are the measure."""
        if self._measure is not None or overloaded == builder.overloaded:
            return []
        if not overloaded and any(_is_on_its_way(slot) for slot in builder.slots):
            return []  # it did not know yet of the job on its way to it
        self._switch(builder, overloaded, at)
        self._weigh(builder, at)
        return self.admitted(builder)

    # --- admitting heavy jobs that have been held back long enough ---------------------------

    def admitted(self, builder: BuilderState) -> list[Lane]:
        """Return the heavy jobs' lanes."""
        return [lane for lane in builder.group.lanes if lane.heavy and lane.waiting]

    def opens(self, builder: BuilderState, at: float) -> None:
        """Let overdue heavy jobs compete for the slot."""
        if builder.overloaded and any(
            at >= self._held_until(lane, at) for lane in self.admitted(builder)
        ):
            self._relent(builder, at)

    def rang(self, at: float) -> Iterator[list[Lane]]:
        """Admit one job of each overdue lane to an overloaded builder that has a free slot."""
        for lane in self.matching.with_jobs():
            if lane.heavy and at >= self._held_until(lane, at):
                builder = Lane.best_builder(lane)
                if builder is not None and lane.best_builder() is None:
                    self._relent(builder, at)
                    yield [lane]
                    self._weigh(builder, at)
            self.ask([lane], at)

    def _relent(self, builder: BuilderState, at: float) -> None:
        """Treat an overloaded builder as if it had room, until its load is measured again."""
        self._switch(builder, False, at)
        self._place(builder)

    def ask(self, lanes: Iterable[Lane], at: float) -> None:
        """Set an alarm for when heavy jobs have been held back long enough."""
        for lane in lanes:
            if lane.heavy and lane.waiting:
                rings_at = self._held_until(lane, at)
                if at < rings_at < float("inf"):
                    self._alarms.ask(rings_at)

    def _held_until(self, lane: Lane, at: float) -> float:
        return self.held.setdefault(lane.name, at) + self._hold_at_most
