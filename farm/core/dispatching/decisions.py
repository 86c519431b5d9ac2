"""Why a job was dispatched to its slot: its competitors, their keys, and the free builders."""

from __future__ import annotations

import msgspec

from farm.core.dispatching.matching import Lane, by_rank
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.queues.fair_share.turn_explanation import Turn
from farm.core.state.working_state import JobState, JobStatus, Slot

_SHOWN = 6


class Competitor(msgspec.Struct, frozen=True):
    """A waiting job that could have been dispatched instead, with its sort key."""

    job: str
    key: tuple[int | float, ...]
    #: the fair-share path that it is charged to
    path: tuple[str, ...] = ()


class Decision(msgspec.Struct, frozen=True):
    """One dispatch, explained."""

    at: float
    job: str
    builder: str
    slot: int
    platform: str
    key: tuple[int | float, ...]
    #: other jobs of the same lane that were waiting at that instant
    waiting: int
    #: the first of them, in dispatch order
    next: tuple[Competitor, ...]
    #: free builders that could have run it, best first (at most six), with their ranks
    free_builders: tuple[tuple[str, float], ...]
    #: the fair-share path that the job is charged to
    path: tuple[str, ...] = ()
    #: why it was that invocation's turn, level by level; empty for a job without rivals
    turns: tuple[Turn, ...] = ()

    @classmethod
    def of(cls, state: JobState, slot: Slot, lane: Lane, at: float) -> Decision:
        """Describe the dispatch that is about to be made; O(k log n), k = 6."""
        queue = lane.queue
        others = [other for other in queue.first(_SHOWN + 1) if other is not state][:_SHOWN]
        waited = state.status is JobStatus.WAITING
        turns = queue.turns(state, taken=True) if isinstance(queue, FairShareQueue) else ()
        free = sorted((*by_rank(b), b.builder.id) for b in lane.free_builders(_SHOWN))
        return cls(
            at=at,
            job=state.job.id,
            builder=slot.builder.builder.id,
            slot=slot.number,
            platform=lane.name,
            key=state.key,
            waiting=len(queue) - waited,
            next=tuple(Competitor(other.job.id, other.key, other.path) for other in others),
            free_builders=tuple((name, rank) for rank, _, name in free[:_SHOWN]),
            path=state.path,
            turns=turns if waited else (),
        )
