"""Dispatching: giving waiting jobs to free slots.

Two situations, each O(log n) in the waiting jobs and in the builders:

* jobs arrived: the best waiting job that has a free builder goes to the builder that the
  balancer ranks first, until no job or no free slot is left;
* a slot became free: it gets the best job of the lanes that its builder serves.

Between two events no job waits while a builder that may run it is free, unless a *hold rule* holds
it back for a better one: ``heavy_light.py`` and ``fastest.py``, by the interface of ``holding.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from farm.core.alarms import Alarms
from farm.core.commands import Out, RetireBuilder, StartJob
from farm.core.dispatching.decisions import Decision
from farm.core.dispatching.holding import HoldRule
from farm.core.dispatching.matching import Lane, free_slot
from farm.core.model import Builder, Job
from farm.core.rules import SchedulingRules
from farm.core.state.working_state import BuilderState, JobState, JobStatus, Slot

_WAITING, _DISPATCHED = JobStatus.WAITING, JobStatus.DISPATCHED


class Dispatcher:
    """Assigns waiting jobs to free slots and counts the busy ones."""

    #: called with an idle builder that has no timer (given by the scheduler)
    on_idle: Callable[[BuilderState], None]
    #: returns the size to send to a builder with labels (likewise); None: none is sent to any
    size_sent: Callable[[Job, Builder], float | None] | None = None

    def __init__(self, rules: SchedulingRules, hold: HoldRule, alarms: Alarms, out: Out) -> None:
        self.rules = rules
        self._hold = hold
        self._alarms = alarms
        self._out = out
        self.matching = hold.matching
        #: the latest decisions, by job: at most as many as are to be explained
        self.decisions: dict[str, Decision] = {}
        #: instants since or until which jobs are held back, by job or platform: in snapshots
        self.held = hold.held
        #: fair-share queues are notified of slots; plain ones are not
        self.watched = rules.path is not None

    def lane(self, job: Job, at: float) -> Lane:
        """Return the lane of a job; a new lane is given the free slots."""
        before = len(self.matching.lanes)
        lane = self.matching.lane(job.platform, heavy=job.heavy)
        if self.watched and len(self.matching.lanes) > before:
            for slot in lane.open_slots():
                if lane in slot.builder.lanes:
                    lane.queue.slot_free(slot, at)
        return lane

    def arrive(self, state: JobState, at: float) -> None:
        """Dispatch an arriving job if a builder is free and no job is ahead; else queue it."""
        lane = state.lane
        if self._hold.looks_behind:
            self.wait(state, lane, at)
            self.fill_lanes([lane], at)
        elif not lane.waiting and (builder := lane.best_builder()) is not None:
            slot = lane.queue.place(state, at) if self.watched else None
            self._dispatch(state, slot or free_slot(builder), lane, at)
        else:
            self.wait(state, lane, at)
            self._hold.ask([lane], at)

    def wait(self, state: JobState, lane: Lane, at: float) -> None:
        """Queue a job in its lane (a requeued one at its old place)."""
        state.status = _WAITING
        state.slot = None
        self._hold.waits(lane, at)
        lane.queue.add(state, at)
        lane.waiting += 1

    def unwait(self, state: JobState, lane: Lane, at: float) -> None:
        """Take a waiting job out of its lane."""
        self._hold.leaves(state)
        lane.queue.remove(state, at)
        lane.waiting -= 1

    def fill_lanes(self, lanes: Collection[Lane], at: float) -> None:
        """Dispatch, best job first, until these lanes are empty or their builders full."""
        for state, slot, lane in self._hold.starts(lanes, at):
            self._dispatch(state, slot, lane, at)
        self._hold.ask(lanes, at)

    def _fill_slot(self, slot: Slot, at: float) -> bool:
        """Give a free slot the best job that its builder may run; return whether there was one."""
        best: JobState | None = None
        best_lane: Lane | None = None
        for lane in slot.builder.lanes:
            if lane.waiting:
                state = lane.queue.choose(slot, at)
                if state is not None and (best is None or self.matching.before(state, best)):
                    best, best_lane = state, lane
        if best is None or best_lane is None:
            return False
        self._dispatch(best, slot, best_lane, at)
        return True

    def _dispatch(self, state: JobState, slot: Slot, lane: Lane, at: float) -> None:
        """Assign the job to the slot: a new attempt begins."""
        if most := self.rules.explain_last:
            self.decisions[state.job.id] = Decision.of(state, slot, lane, at)
            if len(self.decisions) > most:
                del self.decisions[next(iter(self.decisions))]
        if state.status is _WAITING:
            lane.waiting -= 1
            lane.queue.dispatched(state, slot, at)
        elif self.watched:
            lane.queue.dispatched(state, slot, at)
        builder = slot.builder
        if self.watched:
            for other in builder.group.lanes:
                if other is not lane:
                    other.queue.slot_unavailable(slot, at, gone=False)
        state.status = _DISPATCHED
        state.slot = slot
        state.dispatched_at = at
        state.attempts = attempts = state.attempts + 1
        if attempts > 1:
            state.started_at = None
        slot.running = state
        pool = builder.pool
        if builder.busy == 0:
            pool.idle_builders -= 1
        pool.busy_slots += 1
        builder.busy = busy = builder.busy + 1
        builder.active_at = at
        builder.used += 1
        if builder.used_up:
            self.drain(builder, at)
        elif busy < len(builder.slots):
            builder.group.free.offer(builder)
        else:
            builder.rank = None
        size = None
        if self.size_sent is not None and builder.builder.labels:
            size = self.size_sent(state.job, builder.builder)
        state.sent_size = size
        self._out.append(StartJob(state.job, attempts, builder.builder.id, slot.number, size))
        self._hold.taken(state, slot, at)

    def attempt_over(self, slot: Slot, at: float) -> None:
        """Reuse the slot of an ended attempt, cleaned first if its builder cleans."""
        slot.running = None
        builder = slot.builder
        if builder.builder.cleans:
            slot.cleaning = True
            builder.pool.cleaning_slots += 1
            self._hold.freed(slot, at)
            self.retire_if_empty(builder)
        else:
            self._slot_ready(slot, builder, at)
        if held := self._hold.admitted(builder):
            self.fill_lanes(held, at)

    def slot_cleaned(self, slot: Slot, at: float) -> None:
        """Offer a slot that has been cleaned."""
        slot.cleaning = False
        slot.builder.pool.cleaning_slots -= 1
        self._slot_ready(slot, slot.builder, at)

    def _slot_ready(self, slot: Slot, builder: BuilderState, at: float) -> None:
        """Mark a busy slot as free and offer it."""
        self._hold.freed(slot, at)
        builder.busy = busy = builder.busy - 1
        builder.active_at = at
        builder.pool.busy_slots -= 1
        if builder.accepts:
            if not busy:
                builder.pool.idle_builders += 1
            self._open([slot], builder, at)
            if not (builder.timed or builder.busy):
                self.on_idle(builder)
        else:
            self.retire_if_empty(builder)

    def _open(self, slots: list[Slot], builder: BuilderState, at: float) -> None:
        """Offer free slots (one, unless the hold rule can use them together).

        Each takes a waiting job now, or is kept for the next arrival.
        """
        self._hold.opens(builder, at)
        lanes, looks_behind = builder.lanes, self._hold.looks_behind
        if self.watched:
            for lane in lanes:
                for slot in slots:
                    lane.queue.slot_free(slot, at)
        for lane in () if looks_behind else lanes:
            if lane.waiting:
                if self.rules.ends_together:
                    self._alarms.ask(at)  # once all slots of this instant are free
                elif self._fill_slot(slots[0], at):
                    return
                break
        builder.group.free.offer(builder)
        self._hold.freed(slots[0], at)
        if looks_behind:
            self.fill_lanes(lanes, at)

    def open_builder(self, builder: BuilderState, at: float) -> None:
        """Offer the free slots of a builder that now takes jobs."""
        free = [slot for slot in builder.slots if slot.running is None and not slot.cleaning]
        for slots in [free] if free and self._hold.looks_behind else [[slot] for slot in free]:
            if builder.accepts:
                self._open(slots, builder, at)

    def reoffer(self, builder: BuilderState) -> None:
        """Offer a builder whose state was restored; a fair-share queue knows its slots already."""
        if builder.accepts:
            builder.pool.opens(builder)
            if builder.busy < len(builder.slots):
                builder.group.free.offer(builder)
        self._hold.restored(builder)

    def resume(self, at: float) -> None:
        """Continue after a restart: other rules may allow more, and earlier alarms are lost."""
        if not self.rules.ends_together:
            self.fill_lanes(self.matching.with_jobs(), at)
            self.alarm_rang(at)
        elif self.matching.waiting():
            self._alarms.ask(at)  # once all slots of this instant are free

    def take_no_more(self, builder: BuilderState, at: float) -> None:
        """Stop offering the slots of a builder; its running jobs continue."""
        if builder.accepts:
            self.close(builder, at)
            builder.pool.closes(builder)
        builder.accepts = False

    def drain(self, builder: BuilderState, at: float, *, retire: bool = True) -> None:
        """Let a builder finish its running jobs and take no more."""
        self.take_no_more(builder, at)
        builder.draining = True
        builder.retiring = builder.retiring or retire
        self.retire_if_empty(builder)

    def close(self, builder: BuilderState, at: float, *, gone: bool = False) -> None:
        """Withdraw a builder's slots from the queues (``gone``: for good)."""
        builder.group.free.withdraw(builder, gone=gone)
        if self.watched:
            for lane in builder.group.lanes:
                for slot in builder.slots:
                    if gone or (slot.running is None and not slot.cleaning):
                        lane.queue.slot_unavailable(slot, at, gone=gone)
        self._hold.closed(builder, gone=gone)

    def look_again(self, at: float) -> None:
        """Dispatch jobs that were held back, if a change now allows it."""
        if self._hold.looks_behind:
            self.fill_lanes(self.matching.lanes, at)

    def load_reported(self, builder: BuilderState, overloaded: bool, at: float) -> None:
        """Handle a builder's report on whether it has room for heavy jobs."""
        self.fill_lanes(self._hold.load_reported(builder, overloaded, at), at)

    def alarm_rang(self, at: float) -> None:
        """Act on an alarm, which this dispatcher or its hold rule may have set."""
        if self.rules.ends_together:
            self.fill_lanes(self.matching.with_jobs(), at)
        else:
            for lanes in self._hold.rang(at):
                self.fill_lanes(lanes, at)

    def retire_if_empty(self, builder: BuilderState) -> None:
        """Retire a builder that is being retired and runs nothing any more."""
        if builder.retiring and not builder.retired and builder.may_retire:
            builder.retired = True
            builder.accepts = False
            builder.pool.stopping += 1
            self._out.append(RetireBuilder(builder.builder.id))
