"""The hold rule of a balancer: may a waiting job start now, and where; else when."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from farm.core.alarms import Alarms
from farm.core.dispatching.matching import Lane, Matching, free_slot
from farm.core.state.working_state import BuilderState, JobState, Slot

Start = tuple[JobState, Slot, Lane]


class HoldRule:
    """What a balancer decides that holds jobs back, though a builder is free that may run them.

    The dispatcher reports to it what happens to jobs and slots, and asks it; it assigns nothing
    itself. By default no job is held back.
    """

    #: ``starts`` may pass over the first jobs of a lane; else their best builders take them
    looks_behind = False

    def __init__(self, matching: Matching, alarms: Alarms) -> None:
        self.matching = matching
        self._alarms = alarms
        #: instants since or until which jobs are held back, by job or platform: in snapshots
        self.held: dict[str, float] = {}

    # --- what it is asked -------------------------------------------------------------------

    def starts(self, lanes: Collection[Lane], at: float) -> Iterator[Start]:
        """Yield the jobs that may start now, best first; each is dispatched before the next."""
        while True:
            chosen: Start | None = None
            for lane in lanes:
                if not lane.waiting or (builder := lane.best_builder()) is None:
                    continue
                slot = free_slot(builder)
                state = lane.queue.choose(slot, at)
                if state is not None and (chosen is None or self.matching.before(state, chosen[0])):
                    chosen = (state, slot, lane)
            if chosen is None:
                return
            state, slot, lane = chosen
            yield state, lane.queue.place(state, at) or slot, lane

    def admitted(self, builder: BuilderState) -> Collection[Lane]:
        """Return the lanes whose jobs any slot of a builder may take that has less to do now."""
        return ()

    def ask(self, lanes: Iterable[Lane], at: float) -> None:
        """Set an alarm for when jobs of these lanes may start that may not start now."""

    def rang(self, at: float) -> Iterable[list[Lane]]:
        """Yield the lanes in which jobs may start now that time has passed; ask for the others."""
        return ()

    # --- what happens -----------------------------------------------------------------------

    def waits(self, lane: Lane, at: float) -> None:
        """Note that a job is about to wait in a lane."""

    def leaves(self, state: JobState) -> None:
        """Note that a waiting job leaves without being dispatched."""

    def taken(self, state: JobState, slot: Slot, at: float) -> None:
        """Note that a job was dispatched to a slot."""

    def freed(self, slot: Slot, at: float) -> None:
        """Note that a slot runs nothing any more (it may have to be cleaned), or is offered."""

    def opens(self, builder: BuilderState, at: float) -> None:
        """Note that a free slot of a builder is about to be offered."""

    def closed(self, builder: BuilderState, *, gone: bool) -> None:
        """Note that a builder's slots were withdrawn (``gone``: for good)."""

    def restored(self, builder: BuilderState) -> None:
        """Note a builder whose state was restored."""

    def load_reported(self, builder: BuilderState, overloaded: bool, at: float) -> Collection[Lane]:
        """Note a builder's report on its load; return the lanes whose jobs may start now."""
        builder.overloaded = overloaded
        return ()
