"""The present builders: they join, are drained, and retire or are lost."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from farm.core import events
from farm.core.commands import DrainBuilder, LoseBuilder, Out, StaleEventError
from farm.core.dispatching.matching import Lane
from farm.core.jobs.requeueing import Requeuer
from farm.core.model import Builder
from farm.core.pools.idleness import IdleTimers
from farm.core.pools.keeper import PoolKeeper
from farm.core.state.working_state import BuilderState


class BuilderBook:
    """Handles what happens to the builders that have joined and not left."""

    def __init__(
        self,
        builders: dict[str, BuilderState],
        keeper: PoolKeeper,
        requeuer: Requeuer,
        idle: IdleTimers,
        out: Out,
    ) -> None:
        self._builders = builders
        self._keeper = keeper
        self._dispatcher = requeuer.dispatcher
        self._requeuer = requeuer
        self._canceller = requeuer.canceller
        self._idle = idle
        self._out = out

    def joined(self, event: events.BuilderJoined) -> None:
        """Add a builder that offers its slots."""
        builder, at = event.builder, event.at
        if builder.id in self._builders:
            raise StaleEventError
        self._keeper.counts(builder.pool).requested.pop(builder.id, None)
        state = self.add(builder, at)
        if builder.claims:
            state.clean(range(len(state.slots)))
        if builder.takes_jobs:
            state.pool.opens(state)
        if builder.id in self._keeper.taken_back:
            self._keeper.taken_back.remove(builder.id)
            self._dispatcher.drain(state, at)
        elif builder.takes_jobs:
            self._dispatcher.open_builder(state, at)
        self.watch_idleness(state)

    def add(self, builder: Builder, at: float) -> BuilderState:
        """Add a builder, without offering its slots yet."""
        pool = self._keeper.counts(builder.pool)
        pool.builders += 1
        pool.slots += builder.slots
        builder = self._keeper.numbered(builder)
        group = self._dispatcher.matching.group(builder)
        state = self._builders[builder.id] = BuilderState(
            builder, at, at, group=group, pool=pool, lanes=group.lanes
        )
        self._idle.joined(state)
        group.free.register(state)
        return state

    def slot_cleaned(self, event: events.SlotCleaned) -> None:
        """Use a slot again that is clean, or that its builder claims work for."""
        state = self._builders.get(event.builder)
        if state is None or not 0 <= event.slot < len(state.slots):
            raise StaleEventError
        slot = state.slots[event.slot]
        if not slot.cleaning:
            raise StaleEventError
        self._dispatcher.slot_cleaned(slot, event.at)

    def watch_idleness(self, state: BuilderState) -> None:
        """Set a timer for an idle builder that needs one."""
        if not (state.timed or state.busy or state.draining):
            self._idle.watch(state)

    def drain(self, event: events.DrainRequested) -> None:
        """Drain the builders that match."""
        found = self._named(event.pattern)
        if not found:
            raise StaleEventError
        for state in found:
            self._dispatcher.drain(state, event.at, retire=event.retire)
        self._dispatcher.look_again(event.at)

    def undrain(self, event: events.UndrainRequested) -> None:
        """Let drained or failed builders take jobs again."""
        named = self._named(event.pattern)
        found = [s for s in named if (s.draining or s.failed) and not s.retiring]
        if not found:
            raise StaleEventError
        for state in found:
            state.draining = state.failed = False
            state.failures = 0
            state.accepts = state.builder.takes_jobs
            if not state.accepts:
                continue
            state.pool.opens(state)
            state.active_at = event.at  # free again from now on
            self._dispatcher.open_builder(state, event.at)
            self.watch_idleness(state)

    def gone(self, event: events.BuilderRetired | events.BuilderLost) -> None:
        """Remove a builder; its jobs return to their places in the queue, or fail for good."""
        at = event.at
        state = self._builders.pop(event.builder, None)
        reason = "its builder retired"
        excused = suspects_jobs = False
        if isinstance(event, events.BuilderLost):
            reason = event.reason or "its builder was lost"
            excused = event.excused
            suspects_jobs = not excused
        if state is None:
            self._never_came(event.builder, at)
            return
        pool = state.pool
        pool.builders -= 1
        pool.slots -= len(state.slots)
        pool.busy_slots -= state.busy
        pool.cleaning_slots -= sum(slot.cleaning for slot in state.slots)
        pool.stopping -= state.retired
        if state.accepts:
            pool.closes(state)
        self._dispatcher.close(state, at, gone=True)
        state.retired = True
        lanes: dict[int, Lane] = {}
        for slot in state.slots:
            if suspects_jobs and slot.running is not None:
                slot.running.builders_lost += (event.builder,)
            lane = self._requeuer.give_back(slot, at, reason, excused=excused)
            slot.running = None
            if lane is not None:
                lanes[id(lane)] = lane
        # what needed those jobs follows when the event is over (``Scheduler._follow``): a builder
        # that is gone offers no slot for which it would have to be released before
        self._canceller.fail_fast(at)
        self._dispatcher.fill_lanes(lanes.values(), at)
        self._dispatcher.look_again(at)
        returning = None
        if isinstance(event, events.BuilderLost) and event.returns:
            returning = state.builder
        self._keeper.replace(pool, at, returning)

    def _never_came(self, name: str, at: float) -> None:
        """Remove a requested builder that did not boot."""
        self._keeper.taken_back.discard(name)
        for pool in self._keeper.pools.values():
            if pool.requested.pop(name, None) is not None:
                self._keeper.replace(pool, at)
                return
        raise StaleEventError

    def load_reported(self, event: events.LoadReported) -> None:
        """Note whether a builder has room for heavy jobs."""
        state = self._builders.get(event.builder)
        if state is None:
            raise StaleEventError
        self._dispatcher.load_reported(state, event.overloaded, event.at)

    def stop(self, pool: str, count: int, at: float) -> None:
        """Stop builders of a pool that take jobs: idle ones first.

        Busy ones are drained, or killed with their jobs where the scenario says so of the pool
        (``signals.kills``). How many, and whether busy ones may be among them, was decided before:
        by the pool's algorithm (``Sizing.towards``), or by an operator who resizes a fixed pool.
        """
        if not count:
            return
        kills_busy = self._keeper.kills_busy(pool)
        for state in builders_to_stop(self._builders.values(), pool, count):
            if state.busy and kills_busy:
                self._out.append(LoseBuilder(state.builder.id))
                continue
            if state.busy:
                self._out.append(DrainBuilder(state.builder.id))
            self._dispatcher.drain(state, at)
        self._dispatcher.look_again(at)

    def _named(self, pattern: str) -> list[BuilderState]:
        return [s for name, s in self._builders.items() if fnmatchcase(name, pattern)]


def builders_to_stop(builders: Iterable[BuilderState], pool: str, count: int) -> list[BuilderState]:
    """Return ``count`` builders of the pool that take jobs, in the order to stop them.

    Fewest busy slots first; then the one active longest ago; then the youngest.
    """
    candidates = [b for b in builders if b.builder.pool == pool and b.accepts]
    candidates.sort(key=lambda b: (b.busy, b.active_at, -b.builder.index))
    return candidates[:count]
