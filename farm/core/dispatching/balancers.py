"""Balancers: which free builder gets the job.

A balancer ranks a builder that has a free slot; the smallest rank wins, and the lowest builder
index on a tie. A rank depends on the builder alone, so the free builders of a kind are kept in one
heap, and the best is found in O(log n).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from farm.core.state.working_state import BuilderState

Ranking = Callable[[BuilderState], float]


def jenkins(state: BuilderState) -> float:
    """Rank as Jenkins does: total slots ÷ (0.5 + busy slots), highest first (the thesis, p. 16)."""
    return -(len(state.slots) / (0.5 + state.busy))


def longest_idle(state: BuilderState) -> float:
    """Rank as Taskcluster does: the builder whose last activity was longest ago goes first."""
    return state.active_at


RANKINGS: dict[str, Ranking] = {"jenkins": jenkins, "longest-idle": longest_idle}


class FreeBuilders:
    """The builders of one kind that have a free slot, best first.

    A heap of ranks, and for each rank a heap of builder indexes (plain numbers compare quickly, and
    most builders share a few ranks). Deletion is lazy: an entry counts only while its rank is the
    builder's current one (``BuilderState.rank``, None for a builder that takes nothing now).
    """

    __slots__ = ("_buckets", "_entries", "_members", "_ranking", "_ranks")

    def __init__(self, ranking: Ranking) -> None:
        self._ranking = ranking
        self._ranks: list[float] = []
        self._buckets: dict[float, list[int]] = {}
        #: entries added since the last clean-up; void ones are dropped when there are too many
        self._entries = 0
        self._members: dict[int, BuilderState] = {}

    def register(self, state: BuilderState) -> None:
        """Add a builder; it is not free until it is offered."""
        self._members[state.builder.index] = state

    def offer(self, state: BuilderState) -> None:
        """Rank a builder that has a free slot again."""
        rank = self._ranking(state)
        if rank == state.rank:
            return  # it is listed with this rank already
        state.rank = rank
        bucket = self._buckets.get(rank)
        if bucket is None:
            self._put(rank, state.builder.index)
        else:
            heapq.heappush(bucket, state.builder.index)
        self._entries += 1
        if self._entries > 1024 + 8 * len(self._members):
            self._clean_up()

    def _put(self, rank: float, index: int) -> None:
        bucket = self._buckets.get(rank)
        if bucket is None:
            self._buckets[rank] = [index]
            heapq.heappush(self._ranks, rank)
        else:
            heapq.heappush(bucket, index)

    def withdraw(self, state: BuilderState, *, gone: bool = False) -> None:
        """Remove a builder that is full or draining; ``gone``: for good."""
        state.rank = None
        if gone:
            self._members.pop(state.builder.index, None)

    def best(self) -> BuilderState | None:
        """Return the best free builder, or None."""
        ranks, members = self._ranks, self._members
        while ranks:
            rank = ranks[0]
            bucket = self._buckets[rank]
            while bucket:
                state = members.get(bucket[0])
                if state is not None and state.rank == rank:
                    return state
                heapq.heappop(bucket)
            del self._buckets[heapq.heappop(ranks)]
        return None

    def _clean_up(self) -> None:
        self._ranks, self._buckets, self._entries = [], {}, 0
        for state in self.all():
            if state.rank is not None:
                self._put(state.rank, state.builder.index)

    def members(self) -> list[BuilderState]:
        """Return every builder of the kind, free or not, in order of joining."""
        return list(self._members.values())

    def all(self) -> list[BuilderState]:
        """Return every free builder, in order of joining."""
        return [state for state in self._members.values() if state.rank is not None]

    def first(self, count: int) -> list[BuilderState]:
        """Return the best ``count`` free builders, best first: O(n), for explanations."""
        return heapq.nsmallest(count, self.all(), key=lambda b: (b.rank, b.builder.index))
