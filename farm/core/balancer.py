"""Balancers: which free builder takes the job.

A balancer ranks a builder that has a free slot; the smallest rank wins, and the lowest builder
index on a tie. A rank depends on the builder alone, so the free builders of a kind stand in one
heap and the best is found in O(log n).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from farm.core.state import BuilderState

Ranking = Callable[[BuilderState], float]


def jenkins(state: BuilderState) -> float:
    """Jenkins: total slots ÷ (0.5 + busy slots), the highest wins (the thesis, p. 16)."""
    return -(len(state.slots) / (0.5 + state.busy))


def longest_idle(state: BuilderState) -> float:
    """The builder that took or finished a job (or joined) longest ago wins, as in Taskcluster."""
    return state.active_at


RANKINGS: dict[str, Ranking] = {"jenkins": jenkins, "longest-idle": longest_idle}


class FreeBuilders:
    """The builders of one kind that have a free slot, best first.

    A heap with lazy deletion: an entry counts only while its rank is the builder's present one
    (``BuilderState.rank``, None for a builder that takes nothing now).
    """

    __slots__ = ("_heap", "_members", "_ranking")

    def __init__(self, ranking: Ranking) -> None:
        self._ranking = ranking
        self._heap: list[tuple[float, int]] = []  # (rank, builder index)
        self._members: dict[int, BuilderState] = {}

    def offer(self, state: BuilderState) -> None:
        """The builder has room: rank it anew."""
        rank = self._ranking(state)
        if rank == state.rank:
            return  # it stands in the heap with this rank already
        state.rank = rank
        index = state.builder.index
        heap = self._heap
        heapq.heappush(heap, (rank, index))
        self._members[index] = state
        if len(heap) > 64 and len(heap) > 4 * len(self._members):
            self._heap = sorted({entry for entry in heap if self._counts(entry)})

    def withdraw(self, state: BuilderState, *, gone: bool = False) -> None:
        """The builder is full or drains; ``gone``: for good."""
        state.rank = None
        if gone:
            self._members.pop(state.builder.index, None)

    def _counts(self, entry: tuple[float, int]) -> bool:
        state = self._members.get(entry[1])
        return state is not None and state.rank == entry[0]

    def best(self) -> BuilderState | None:
        """Return the best builder with room, or None."""
        heap, members = self._heap, self._members
        while heap:
            rank, index = heap[0]
            state = members.get(index)
            if state is not None and state.rank == rank:
                return state
            heapq.heappop(heap)
        return None

    def first(self, count: int) -> list[BuilderState]:
        """Return the best ``count`` builders with room, best first: for explanations."""
        entries = heapq.nsmallest(count, set(filter(self._counts, self._heap)))
        return [self._members[index] for _, index in entries]

    def all(self) -> list[BuilderState]:
        """Return every builder with room, in no particular order."""
        return [state for state in self._members.values() if state.rank is not None]
