"""A heap whose items may change their keys or be removed at any time."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)
Entry = TypeVar("Entry", bound=tuple[object, ...])

#: a heap is rebuilt when more than half of it, and more than this many entries, are void
_TOLERATED = 32


def walk(heap: list[Entry]) -> Iterator[Entry]:
    """Yield a heap's entries in order, the first k in O(k log k); it must not change."""
    frontier = [(heap[0], 0)] if heap else []
    while frontier:
        entry, position = heapq.heappop(frontier)
        yield entry
        for child in (2 * position + 1, 2 * position + 2):
            if child < len(heap):
                heapq.heappush(frontier, (heap[child], child))


class UpdatableHeap(Generic[Item]):
    """Items in order of their keys, smallest first; putting an item again moves it.

    A move leaves a void entry behind that is dropped when it surfaces. The void entries never
    outnumber the live ones by more than a constant, so ``put`` and ``discard`` cost O(log n)
    amortised and ``first`` O(1) amortised. Items are distinguished by identity or hash, never
    compared; equal keys keep the order in which they were put.
    """

    __slots__ = ("_entries", "_live", "_puts")

    def __init__(self) -> None:
        self._entries: list[tuple[object, int, Item]] = []
        self._live: dict[Item, tuple[object, int, Item]] = {}
        self._puts = 0

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Item]:
        """Yield the items in no particular (yet always the same) order."""
        return iter(self._live)

    def key(self, item: Item) -> Any:
        """Return the key under which the item was put; raises KeyError if it is not here."""
        return self._live[item][0]

    def put(self, item: Item, key: object) -> None:
        """Add the item, or move it to its new key."""
        old = self._live.get(item)
        if old is not None and old[0] == key:
            return
        self._puts += 1
        entry = (key, self._puts, item)
        self._live[item] = entry
        heapq.heappush(self._entries, entry)
        if old is not None:
            self._limit_void_entries()

    def discard(self, item: Item) -> None:
        """Remove the item if it is present."""
        if self._live.pop(item, None) is not None:
            if not self._live:
                self._entries.clear()
            elif self._entries[0][2] is item:
                heapq.heappop(self._entries)
            else:
                self._limit_void_entries()

    def first(self) -> Item | None:
        """Return the item with the smallest key, None if there is none."""
        entries, live = self._entries, self._live
        while entries:
            entry = entries[0]
            if live.get(entry[2]) is entry:
                return entry[2]
            heapq.heappop(entries)
        return None

    def ordered(self) -> list[Item]:
        """Return all items in order; the heap itself is not touched."""
        return [entry[2] for entry in sorted(self._live.values())]

    def copy(self) -> UpdatableHeap[Item]:
        """Return another heap with the same items under the same keys."""
        copy: UpdatableHeap[Item] = UpdatableHeap()
        copy._entries, copy._live = self._entries.copy(), self._live.copy()
        copy._puts = self._puts
        return copy

    def walk(self) -> Iterator[tuple[object, Item]]:
        """Yield (key, item) in order, the first k in O(k log k), void entries aside.

        The heap must not change until the end.
        """
        for entry in walk(self._entries):
            if self._live.get(entry[2]) is entry:
                yield entry[0], entry[2]

    def _limit_void_entries(self) -> None:
        if len(self._entries) > 2 * len(self._live) + _TOLERATED:
            self._entries = list(self._live.values())
            heapq.heapify(self._entries)


class HeapPreview(Generic[Item]):
    """A heap as it would be after some moves, none of which is made."""

    __slots__ = ("_moved", "_next", "_rest", "_settled")

    def __init__(self, heap: UpdatableHeap[Item]) -> None:
        #: the untouched entries; the first of them has been read
        self._rest = heap.walk()
        self._next = next(self._rest, None)
        #: items that moved or left, and those of them that are still here
        self._settled: set[Item] = set()
        self._moved: UpdatableHeap[Item] = UpdatableHeap()

    def put(self, item: Item, key: object) -> None:
        """Add the item, or move it to its new key."""
        self._settled.add(item)
        self._moved.put(item, key)

    def discard(self, item: Item) -> None:
        """Remove the item if it is present."""
        self._settled.add(item)
        self._moved.discard(item)

    def first(self) -> Item | None:
        """Return the item with the smallest key, None if there is none."""
        while self._next is not None and self._next[1] in self._settled:
            self._next = next(self._rest, None)
        moved = self._moved.first()
        if self._next is None:
            return moved
        if moved is not None and self._moved.key(moved) < self._next[0]:
            return moved
        return self._next[1]
