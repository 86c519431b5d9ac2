"""A plain queue whose first jobs can be read repeatedly and removed out of order."""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterable
from itertools import chain

from farm.core.queues.plain import Entry, PlainQueue
from farm.core.state.working_state import JobState, Slot


class LookAheadQueue(PlainQueue):
    """A heap with a short sorted front: reading ``k`` jobs costs O(k), not O(k log n).

    Jobs that are held back stay in the front; one that leaves from the middle of it is dropped at
    the next reading, so that void entries do not accumulate.
    """

    __slots__ = ("_front",)

    def __init__(self) -> None:
        super().__init__()
        #: the first entries in order; after ``first``, none in the heap is smaller
        self._front: list[Entry] = []

    def first(self, count: int) -> list[JobState]:
        """Return the first ``count`` waiting jobs."""
        heap = self._heap
        front = self._front = [entry for entry in self._front if self._counts(entry)]
        while heap and (len(front) < count or heap[0][0] < front[-1][0]):
            entry = heapq.heappop(heap)
            if self._counts(entry):
                insort(front, entry)
        return [state for _, _, state in front[:count]]

    def choose(self, slot: Slot, at: float) -> JobState | None:
        """Return the first waiting job, for any slot."""
        found = self.first(1)
        return found[0] if found else None

    def dispatched(self, state: JobState, slot: Slot, at: float) -> None:
        """Remove the job if it waits here, at whatever place."""
        if state.entry:
            self._waiting -= 1
            self._void(state)

    def _entries(self) -> Iterable[Entry]:
        """Return all entries, void ones too, in no particular order."""
        return chain(self._front, self._heap)
