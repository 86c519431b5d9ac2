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
from collections.abc import Collection, Iterator

from farm.core.alarms import Alarms
from farm.core.dispatching.holding import HoldRule, Start
from farm.core.dispatching.matching import BuilderGroup, Lane, Matching, by_rank, free_slot
from farm.core.model import Builder
from farm.core.queues.plain import LookAheadQueue, PlainQueue
from farm.core.rules import Estimator, SchedulingRules
from farm.core.state.working_state import BuilderState, JobState, Slot

LOOK_AHEAD = 32
"""How many jobs may be held back at a time; those behind them take any free builder."""

End = tuple[float, int]
"""When a busy slot is expected to be free (farm time, s), and the number of its dispatch."""


class Outlook:
    """When slots will be free, without those reserved by jobs further ahead."""

    def __init__(self, at: float) -> None:
        self.at = at
        self._groups: dict[BuilderGroup, tuple[Iterator[End], list[End]]] = {}

    def next_free(self, group: BuilderGroup) -> tuple[float, Builder] | None:
        """Return when the group's next unreserved slot is expected to be free, and its builder."""
        heap = self._heap(group)
        if not heap:
            return None
        free_at, number = heap[0]
        return max(free_at, self.at), group.slots[number].builder.builder

    def reserve(self, group: BuilderGroup, until: float) -> None:
        """Reserve that slot until the given instant."""
        rest, _ = self._groups[group]
        heap = self._heap(group)
        heapq.heapreplace(heap, (until, heap[0][1]))
        self._take_one(rest, heap, group)

    def _heap(self, group: BuilderGroup) -> list[End]:
        """Return the heap of slots examined so far; the first is the next to be free."""
        found = self._groups.get(group)
        if found is None:
            found = self._groups[group] = (iter(group.ends), [])
            self._take_one(*found, group)
        return found[1]

    @staticmethod
    def _take_one(rest: Iterator[End], heap: list[End], group: BuilderGroup) -> None:
        for end in rest:
            if group.slots[end[1]].builder.accepts:
                heapq.heappush(heap, end)
                return


class FastestRule(HoldRule):
    """Finds, for each waiting job in order, the builder that will finish it first."""

    looks_behind = True

    def __init__(self, rules: SchedulingRules, estimator: Estimator, alarms: Alarms) -> None:
        plain = rules.make_queue is PlainQueue
        make_queue = LookAheadQueue if plain else rules.make_queue
        super().__init__(Matching(rules.ranking, make_queue, by_speed=True), alarms)
        self._estimate = estimator.estimate
        self._ends: dict[Slot, End] = {}
        self._dispatches = 0

    # --- when running jobs are expected to end ----------------------------------------------

    def taken(self, state: JobState, slot: Slot, at: float) -> None:
        """Expect the end of a job that was dispatched."""
        self.held.pop(state.job.id, None)
        self._expect(state, slot, at)

    def _expect(self, state: JobState, slot: Slot, at: float) -> None:
        builder = slot.builder
        self._dispatches += 1
        expected = at + self._estimate(state.job, builder.builder)
        self._ends[slot] = end = (expected, self._dispatches)
        builder.group.slots[self._dispatches] = slot
        insort(builder.group.ends, end)

    def _forget(self, slot: Slot) -> None:
        end = self._ends.pop(slot, None)
        if end is not None:
            group = slot.builder.group
            del group.ends[bisect_left(group.ends, end)]
            del group.slots[end[1]]

    def leaves(self, state: JobState) -> None:
        """Forget that the job was held back."""
        self.held.pop(state.job.id, None)

    def freed(self, slot: Slot, at: float) -> None:
        """Release a busy slot; while it is cleaned it counts as about to be free."""
        if not slot.cleaning:
            self._forget(slot)

    def closed(self, builder: BuilderState, *, gone: bool) -> None:
        """Hold no job back any more for a builder that is gone."""
        if gone:
            for slot in builder.slots:
                self._forget(slot)

    def restored(self, builder: BuilderState) -> None:
        """Expect the ends of the jobs that a builder runs."""
        for slot in builder.slots:
            if (state := slot.running) is not None:
                self._expect(state, slot, state.dispatched_at or 0.0)

    # --- deciding ---------------------------------------------------------------------------

    def rang(self, at: float) -> Iterator[list[Lane]]:
        """Decide again: a job may have been held back for as long as it may be."""
        yield self.matching.lanes
        later = [until for until in self.held.values() if until > at]
        if later:
            self._alarms.ask(min(later))

    def starts(self, lanes: Collection[Lane], at: float) -> Iterator[Start]:
        """Go through the waiting jobs of all lanes that share builders with these, in order."""
        near = {id(other): other for lane in lanes for g in lane.groups for other in g.lanes}
        count = 1
        while True:
            live = [lane for lane in near.values() if lane.waiting]
            open_lanes = [lane for lane in live if lane.best_builder() is not None]
            if not open_lanes:
                return
            states = self._first(live if count <= LOOK_AHEAD else open_lanes, count)
            yield from self._starts_of(states, at)
            if len(states) < count:
                return
            count = LOOK_AHEAD + 1 if count == 1 else 4 * LOOK_AHEAD

    def _first(self, lanes: list[Lane], count: int) -> list[JobState]:
        """Return the first jobs of these lanes together, in dispatch order."""
        heads = [lane.queue.first(count) for lane in lanes]
        if len(heads) == 1:
            return heads[0]
        found: list[JobState] = []
        while len(found) < count:
            best: list[JobState] | None = None
            for states in heads:
                if states and (best is None or self.matching.before(states[0], best[0])):
                    best = states
            if best is None:
                break
            found.append(best.pop(0))
        return found

    def _starts_of(self, states: list[JobState], at: float) -> Iterator[Start]:
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
                yield state, free_slot(best[1]), lane
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
        full: list[BuilderGroup],
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


_Sides = tuple[list[BuilderState], list[BuilderGroup]]


def _sides(lane: Lane) -> _Sides:
    """Return the best free builder of each group of a lane, and the groups without one."""
    free: list[BuilderState] = []
    full: list[BuilderGroup] = []
    for group in lane.groups:
        if (builder := group.free.best()) is not None:
            free.append(builder)
        else:
            full.append(group)
    return free, full
