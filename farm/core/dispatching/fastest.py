"""Fastest: a job goes to the builder that is expected to finish it first, free now or later.

For builders of different speeds (the thesis, 6.4.2: "if that machine is busy, a decision has to
be made about waiting for that machine or choosing another, slower machine"). The waiting jobs are
examined in order. Each is expected to end, on a free builder, after its estimated run time
there; on a busy one, that long after the builder's next slot is expected to be free. If waiting
finishes it sooner, the job waits and *reserves* that slot: the next job can have it only after it.
So a slow builder is used once queueing for a fast one would cost more than its speed gains.

No job waits forever. A job stops waiting when the time that it expected to save by waiting has
passed since it first waited; from then on it takes the first free builder, even if the fast ones
are late or hang. So no job is held back longer than its run on the slow builder would
have taken. At most ``LOOK_AHEAD`` jobs are held back at the same time.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import cast

import msgspec

from farm.core.alarms import Alarms
from farm.core.commands import Out
from farm.core.dispatching.balancers import Ranking
from farm.core.dispatching.dispatcher import Dispatcher, free_slot
from farm.core.dispatching.matching import BuilderGroup, Lane, Matching, by_rank
from farm.core.model import Builder
from farm.core.queues.plain import LookAheadQueue, PlainQueue
from farm.core.rules import Estimator, SchedulingRules
from farm.core.state.working_state import BuilderState, JobState, JobStatus, Slot

LOOK_AHEAD = 32
"""How many jobs may be held back at a time; those behind them take any free builder."""

End = tuple[float, int]
"""When a busy slot is expected to be free (farm time, s), and the number of its dispatch."""


class SpeedGroup(BuilderGroup):
    """Builders of one kind and one speed, and when their busy slots are expected to be free."""

    __slots__ = ("ends", "slots")

    def __init__(self, sample: Builder, ranking: Ranking) -> None:
        super().__init__(sample, ranking)
        self.ends: list[End] = []
        #: the slots occupied by these dispatches
        self.slots: dict[int, Slot] = {}


class _SpeedMatching(Matching):
    """Groups builders by speed as well as by kind."""

    __slots__ = ()

    def _new_group(self, sample: Builder) -> BuilderGroup:
        return SpeedGroup(sample, self._ranking)

    def _group_key(self, builder: Builder) -> tuple[object, ...]:
        return (builder.processors, builder.virtualized, builder.speed)


class Outlook:
    """When slots will be free, without those reserved by jobs further ahead."""

    def __init__(self, at: float) -> None:
        self.at = at
        self._groups: dict[SpeedGroup, tuple[Iterator[End], list[End]]] = {}

    def next_free(self, group: SpeedGroup) -> tuple[float, Builder] | None:
        """Return when the group's next unreserved slot is expected to be free, and its builder."""
        heap = self._heap(group)
        if not heap:
            return None
        free_at, number = heap[0]
        return max(free_at, self.at), group.slots[number].builder.builder

    def reserve(self, group: SpeedGroup, until: float) -> None:
        """Reserve that slot until the given instant."""
        rest, _ = self._groups[group]
        heap = self._heap(group)
        heapq.heapreplace(heap, (until, heap[0][1]))
        self._take_one(rest, heap, group)

    def _heap(self, group: SpeedGroup) -> list[End]:
        """Return the heap of slots examined so far; the first is the next to be free."""
        found = self._groups.get(group)
        if found is None:
            found = self._groups[group] = (iter(group.ends), [])
            self._take_one(*found, group)
        return found[1]

    @staticmethod
    def _take_one(rest: Iterator[End], heap: list[End], group: SpeedGroup) -> None:
        for end in rest:
            if group.slots[end[1]].builder.accepts:
                heapq.heappush(heap, end)
                return


class FastestDispatcher(Dispatcher):
    """Assigns each waiting job, in order, to the builder that will finish it first."""

    matching_type = _SpeedMatching
    looks_behind = True

    def __init__(
        self, rules: SchedulingRules, estimator: Estimator, alarms: Alarms, out: Out
    ) -> None:
        if rules.make_queue is PlainQueue:
            rules = msgspec.structs.replace(rules, make_queue=LookAheadQueue)
        super().__init__(rules, alarms, out)
        self._estimate = estimator.estimate
        self._ends: dict[Slot, End] = {}
        self._dispatches = 0

    # --- when running jobs are expected to end ----------------------------------------------

    def _dispatch(self, state: JobState, slot: Slot, lane: Lane, at: float) -> None:
        super()._dispatch(state, slot, lane, at)
        self.held.pop(state.job.id, None)
        self._expect(slot, at)

    def _expect(self, slot: Slot, at: float) -> None:
        if slot.running is None:
            return
        builder = slot.builder
        group = cast("SpeedGroup", builder.group)
        self._dispatches += 1
        expected = at + self._estimate(slot.running.job, builder.builder)
        self._ends[slot] = end = (expected, self._dispatches)
        group.slots[self._dispatches] = slot
        insort(group.ends, end)

    def _forget(self, slot: Slot) -> None:
        end = self._ends.pop(slot, None)
        if end is not None:
            group = cast("SpeedGroup", slot.builder.group)
            del group.ends[bisect_left(group.ends, end)]
            del group.slots[end[1]]

    def slot_ready(self, slot: Slot, builder: BuilderState, at: float) -> None:
        """Release a busy slot (until now it counted as about to be free)."""
        self._forget(slot)
        super().slot_ready(slot, builder, at)

    def close(self, builder: BuilderState, at: float, *, gone: bool = False) -> None:
        """Withdraw a builder's slots; no job is held back for them any more."""
        super().close(builder, at, gone=gone)
        if gone:
            for slot in builder.slots:
                self._forget(slot)

    def reoffer(self, builder: BuilderState, at: float) -> None:
        """Offer a builder whose state was restored."""
        super().reoffer(builder, at)
        for slot in builder.slots:
            if slot.running is not None:
                dispatched_at = slot.running.dispatched_at
                self._expect(slot, at if dispatched_at is None else dispatched_at)

    # --- where the plain dispatcher decides -------------------------------------------------

    def unwait(self, state: JobState, lane: Lane, at: float) -> None:
        """Take a waiting job out of its lane."""
        self.held.pop(state.job.id, None)
        super().unwait(state, lane, at)

    def open_slot(self, slot: Slot, builder: BuilderState, at: float) -> None:
        """Offer a free slot."""
        self._open([slot], builder, at)

    def open_builder(self, builder: BuilderState, at: float) -> None:
        """Offer all free slots of a builder together, so that a decision can use any of them."""
        free = [slot for slot in builder.slots if slot.running is None and not slot.cleaning]
        if free:
            self._open(free, builder, at)

    def _open(self, slots: list[Slot], builder: BuilderState, at: float) -> None:
        if self.watched:
            for lane in builder.lanes:
                for slot in slots:
                    lane.queue.slot_free(slot, at)
        builder.group.free.offer(builder)
        self.fill_lanes(builder.lanes, at)

    def alarm_rang(self, at: float) -> None:
        """Decide again: a job may have been held back for as long as it may be."""
        self.look_again(at)
        later = [until for until in self.held.values() if until > at]
        if later:
            self._alarms.ask(min(later))

    # --- deciding ---------------------------------------------------------------------------

    def fill_lanes(self, lanes: Iterable[Lane], at: float) -> None:
        """Go through the waiting jobs of all lanes that share builders with these, in order."""
        near = {id(other): other for lane in lanes for g in lane.groups for other in g.lanes}
        count = 1
        while True:
            live = [lane for lane in near.values() if lane.waiting]
            open_lanes = [lane for lane in live if lane.best_builder() is not None]
            if not open_lanes:
                return
            states = self._first(live if count <= LOOK_AHEAD else open_lanes, count)
            self._look_at(states, at)
            if len(states) < count:
                return
            count = LOOK_AHEAD + 1 if count == 1 else 4 * LOOK_AHEAD

    def _first(self, lanes: list[Lane], count: int) -> list[JobState]:
        """Return the first jobs of these lanes together, in dispatch order."""
        heads = [_first_of(lane, count) for lane in lanes]
        if len(heads) == 1:
            return heads[0]
        found: list[JobState] = []
        while len(found) < count:
            best: list[JobState] | None = None
            for states in heads:
                if states and (best is None or self._before(states[0], best[0])):
                    best = states
            if best is None:
                break
            found.append(best.pop(0))
        return found

    def _look_at(self, states: list[JobState], at: float) -> None:
        outlook = Outlook(at)
        sides: dict[int, _Sides] = {}
        waiting = 0
        for state in states:
            lane = state.lane
            free, full = sides.get(id(lane)) or sides.setdefault(id(lane), _sides(lane))
            best = self._first_to_end(state, free)
            if waiting < LOOK_AHEAD and self._waits(state, best, full, outlook):
                waiting += 1
            elif best is not None:
                self._dispatch(state, free_slot(best[1]), lane, at)
                sides.clear()

    def _first_to_end(
        self, state: JobState, free: list[BuilderState]
    ) -> tuple[float, BuilderState] | None:
        """Return how long the job takes on the best free builder, and which one that is."""
        best: tuple[float, BuilderState] | None = None
        for builder in free:
            run_time = self._estimate(state.job, builder.builder)
            if (
                best is None
                or run_time < best[0]
                or (run_time == best[0] and by_rank(builder) < by_rank(best[1]))
            ):
                best = (run_time, builder)
        return best

    def _waits(
        self,
        state: JobState,
        now: tuple[float, BuilderState] | None,
        full: list[SpeedGroup],
        outlook: Outlook,
    ) -> bool:
        """Return whether the job waits, held back or for lack of a slot; it then reserves one."""
        at = outlook.at
        ends_at = at + now[0] if now is not None else float("inf")
        run_time, chosen = 0.0, None
        for group in full:
            if (free := outlook.next_free(group)) is not None:
                takes = self._estimate(state.job, free[1])
                if free[0] + takes < ends_at:
                    ends_at, run_time, chosen = free[0] + takes, takes, group
        if now is not None:
            if chosen is None:
                return False
            until = self.held.setdefault(state.job.id, at + now[0] - run_time)
            if at >= until:
                return False
            self._alarms.ask(until)
        if chosen is not None:
            outlook.reserve(chosen, ends_at)
        return True


_Sides = tuple[list[BuilderState], list[SpeedGroup]]


def _sides(lane: Lane) -> _Sides:
    """Return the best free builder of each group of a lane, and the groups without one."""
    free: list[BuilderState] = []
    full: list[SpeedGroup] = []
    for group in lane.groups:
        if (builder := group.free.best()) is not None:
            free.append(builder)
        elif isinstance(group, SpeedGroup):
            full.append(group)
    return free, full


def _first_of(lane: Lane, count: int) -> list[JobState]:
    """Return the first waiting jobs of a lane, in dispatch order."""
    queue = lane.queue
    if isinstance(queue, PlainQueue):
        return queue.first(count)
    states = islice(queue.in_order(), count)
    return [state for state in states if state.status is JobStatus.WAITING]
