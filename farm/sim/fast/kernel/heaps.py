"""Heaps over plain arrays, compiled: numbered entries with keys, and bare numbers."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

Array = Any
"""A NumPy array; what the object takes is annotated with type and, if several, dimensions."""

HEAP = np.dtype([("begin", np.int64), ("count", np.int64)])
ENTRY = np.dtype([("first", np.float64), ("second", np.int64), ("thing", np.int64)], align=True)


class Keyed(NamedTuple):
    """Several heaps of numbered entries; an entry is in at most one heap, at a known place.

    It is ordered by ``(first, second)``, smallest on top, and can be moved or removed.
    """

    #: the entries of each heap, heap after heap
    entries: Annotated[Array, ENTRY]
    #: by heap: the index of its first entry, and the number of entries
    heaps: Annotated[Array, HEAP]
    #: by thing: its place in its heap (-1: it is in none)
    places: Annotated[Array, np.int64]


def keyed(things: int, heaps: int) -> Keyed:
    """Return empty heaps, each with room for all entries."""
    places = np.full(things, -1)
    made = Keyed(np.empty(things * heaps, ENTRY), np.zeros(heaps, HEAP), places)
    made.heaps["begin"] = np.arange(heaps) * things
    return made


def before(first, second, other):
    """Return whether a key precedes an entry."""
    return first < other.first or (first == other.first and second < other.second)


def set_down(heap, begin, place, first, second, thing):
    """Write an entry at a place."""
    entry = heap.entries[begin + place]
    entry.first = first
    entry.second = second
    entry.thing = thing
    heap.places[thing] = place


def up(heap, begin, place, first, second, thing):
    """Move an entry up from a free place to its own."""
    while place > 0:
        parent = (place - 1) >> 1
        above = heap.entries[begin + parent]
        if not before(first, second, above):
            break
        set_down(heap, begin, place, above.first, above.second, above.thing)
        place = parent
    set_down(heap, begin, place, first, second, thing)


def close(heap, begin, size, place):
    """Fill a free place from below; return which place becomes free."""
    while True:
        child = 2 * place + 1
        if child >= size:
            return place
        below = heap.entries[begin + child]
        if child + 1 < size:
            other = heap.entries[begin + child + 1]
            if before(other.first, other.second, below):
                child += 1
                below = other
        set_down(heap, begin, place, below.first, below.second, below.thing)
        place = child


def put(heap, which, thing, first, second):
    """Put an entry into a heap with this key, or move it there."""
    take_out(heap, which, thing)
    place = heap.heaps[which].count
    heap.heaps[which].count = place + 1
    up(heap, heap.heaps[which].begin, place, first, second, thing)


def take_out(heap, which, thing):
    """Remove an entry from a heap, if it is there."""
    place = heap.places[thing]
    if place < 0:
        return
    begin = heap.heaps[which].begin
    size = heap.heaps[which].count - 1
    heap.heaps[which].count = size
    heap.places[thing] = -1
    if place == size:
        return
    last = heap.entries[begin + size]
    # most of those that come last belong far down
    place = close(heap, begin, size, place)
    up(heap, begin, place, last.first, last.second, last.thing)


def gather(heap, at, latest, below):
    """Move the entries of the first heap from after ``at`` up to ``latest`` to ``at``.

    Only those with a second key smaller than ``below``. Returns whether any was moved.
    """
    size, place, moved = heap.heaps[0].count, 0, False
    # each place before those below it, as far as its entry is not later
    while True:
        if place < size and heap.entries[place].first <= latest:
            entry = heap.entries[place]
            if entry.first > at and entry.second < below:
                moved = True
                # what comes down instead has been looked at
                up(heap, 0, place, at, entry.second, entry.thing)
            place = 2 * place + 1
            continue
        while place and not place & 1:
            place = (place - 1) >> 1
        if not place:
            return moved
        place += 1


def push(numbers, begin, size, number):
    """Add a number to the heap of ``size`` numbers from ``begin`` on."""
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        above = numbers[begin + parent]
        if above <= number:
            break
        numbers[begin + place] = above
        place = parent
    numbers[begin + place] = number


def pop(numbers, begin, size):
    """Remove the smallest number of the heap of ``size`` numbers from ``begin`` on."""
    last = numbers[begin + size - 1]
    size -= 1
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and numbers[begin + child + 1] < numbers[begin + child]:
            child += 1
        if numbers[begin + child] >= last:
            break
        numbers[begin + place] = numbers[begin + child]
        place = child
    if size:
        numbers[begin + place] = last
