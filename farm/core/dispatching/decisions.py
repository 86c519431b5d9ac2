"""Why a job went where it went: what competed, on which key, and which builders had room."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Any

import msgspec

from farm.core.dispatching.matching import Lane, by_rank
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.queues.fair_share.turns import Turn
from farm.core.queues.plain import PlainQueue
from farm.core.state import JobState, JobStatus, Slot

_SHOWN = 6


class Competitor(msgspec.Struct, frozen=True):
    """A waiting job that could have gone instead, with the key that it was ordered by."""

    job: str
    key: tuple[Any, ...]
    #: the fair-share path that it is charged to
    path: tuple[str, ...] = ()


class Decision(msgspec.Struct, frozen=True):
    """One dispatch, explained."""

    at: float
    job: str
    builder: str
    slot: int
    platform: str
    key: tuple[Any, ...]
    #: jobs of the same lane that waited at that instant, this one not counted
    waiting: int
    #: the first of them, in dispatch order
    next: tuple[Competitor, ...]
    #: free builders that could have run it, the balancer's best first (at most six), with ranks
    free_builders: tuple[tuple[str, float], ...]
    #: the fair-share path that the job is charged to
    path: tuple[str, ...] = ()
    #: why it was that invocation's turn, level by level; none for a job that had no rival
    turns: tuple[Turn, ...] = ()

    @classmethod
    def of(cls, state: JobState, slot: Slot, lane: Lane, at: float) -> Decision:
        """Describe the choice that is about to be carried out; O(k log n), k = 6."""
        queue = lane.queue
        if isinstance(queue, PlainQueue):
            competing = queue.first(_SHOWN + 1)
        else:
            competing = list(islice(queue.in_order(), _SHOWN + 1))
        others = [other for other in competing if other is not state][:_SHOWN]
        waited = state.status is JobStatus.WAITING
        turns = queue.turns(state, taken=True) if isinstance(queue, FairShareQueue) else ()
        free = sorted((*by_rank(b), b.builder.id) for b in lane.free_builders(_SHOWN))
        return cls(
            at=at,
            job=state.job.id,
            builder=slot.builder.builder.id,
            slot=slot.number,
            platform=str(lane.platform),
            key=state.key,
            waiting=len(queue) - waited,
            next=tuple(Competitor(other.job.id, other.key, other.path) for other in others),
            free_builders=tuple((name, rank) for rank, _, name in free[:_SHOWN]),
            path=state.path,
            turns=turns if waited else (),
        )


class DecisionLog:
    """The last decisions, by job; holds at most ``size`` of them."""

    __slots__ = ("_by_job", "_order", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._order: deque[str] = deque()
        self._by_job: dict[str, Decision] = {}

    def add(self, decision: Decision) -> None:
        """Keep a decision, forgetting the oldest if need be."""
        if decision.job not in self._by_job:
            self._order.append(decision.job)
        self._by_job[decision.job] = decision
        if len(self._order) > self.size:
            del self._by_job[self._order.popleft()]

    def get(self, job: str) -> Decision | None:
        """Return why this job was dispatched last, if it is remembered."""
        return self._by_job.get(job)
