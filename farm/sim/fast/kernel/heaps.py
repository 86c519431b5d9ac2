"""Heaps over plain arrays, compiled: numbered entries with keys, and bare numbers."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from farm.core.compiled import compiled

Array = Any
"""A NumPy array; what the object takes is annotated with type and, if several, dimensions."""

HEAP = np.dtype([("begin", np.int64), ("count", np.int64)])
KEY = np.dtype([("first", np.float64), ("second", np.int64), ("place", np.int64)])


class Keyed(NamedTuple):
    """Several heaps of numbered entries; an entry is in at most one heap, at a known place.

    It is ordered by ``(first, second)``, smallest on top, and can be moved or removed.
    """

    #: the entries of each heap, heap after heap
    things: Annotated[Array, np.int64]
    #: by heap: the index of its first entry, and the number of entries
    heaps: Annotated[Array, HEAP]
    #: by entry: its key, and its place in its heap (-1: it is in none)
    keys: Annotated[Array, KEY]


def keyed(things: int, heaps: int) -> Keyed:
    """Return empty heaps, each with room for all entries."""
    made = Keyed(np.empty(things * heaps, np.int64), np.zeros(heaps, HEAP), np.zeros(things, KEY))
    made.heaps["begin"] = np.arange(heaps) * things
    made.keys["place"] = -1
    return made


@compiled
def before(heap, one, other):
    """Return whether an entry precedes another one."""
    mine, its = heap.keys[one], heap.keys[other]
    if mine.first != its.first:
        return mine.first < its.first
    return mine.second < its.second


@compiled
def up(heap, begin, place):
    """Move an entry up to its place."""
    thing = heap.things[begin + place]
    while place > 0:
        parent = (place - 1) >> 1
        above = heap.things[begin + parent]
        if not before(heap, thing, above):
            break
        heap.things[begin + place] = above
        heap.keys[above].place = place
        place = parent
    heap.things[begin + place] = thing
    heap.keys[thing].place = place


@compiled
def down(heap, begin, size, place):
    """Move an entry down to its place."""
    thing = heap.things[begin + place]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and before(
            heap, heap.things[begin + child + 1], heap.things[begin + child]
        ):
            child += 1
        below = heap.things[begin + child]
        if not before(heap, below, thing):
            break
        heap.things[begin + place] = below
        heap.keys[below].place = place
        place = child
    heap.things[begin + place] = thing
    heap.keys[thing].place = place


@compiled
def put(heap, which, thing, first, second):
    """Put an entry into a heap with this key, or move it there."""
    begin = heap.heaps[which].begin
    heap.keys[thing].first = first
    heap.keys[thing].second = second
    place = heap.keys[thing].place
    if place < 0:
        place = heap.heaps[which].count
        heap.heaps[which].count = place + 1
        heap.things[begin + place] = thing
        heap.keys[thing].place = place
        up(heap, begin, place)
        return
    up(heap, begin, place)
    down(heap, begin, heap.heaps[which].count, heap.keys[thing].place)


@compiled
def take_out(heap, which, thing):
    """Remove an entry from a heap, if it is there."""
    place = heap.keys[thing].place
    if place < 0:
        return
    begin = heap.heaps[which].begin
    size = heap.heaps[which].count - 1
    heap.heaps[which].count = size
    heap.keys[thing].place = -1
    if place == size:
        return
    last = heap.things[begin + size]
    heap.things[begin + place] = last
    heap.keys[last].place = place
    up(heap, begin, place)
    down(heap, begin, size, heap.keys[last].place)


@compiled
def gather(heap, at, latest, below):
    """Move the entries of the first heap from after ``at`` up to ``latest`` to ``at``.

    Only those with a second key smaller than ``below``. Returns whether any was moved.
    """
    size, place, moved = heap.heaps[0].count, 0, False
    # each place before those below it, as far as its entry is not later
    while True:
        if place < size and heap.keys[heap.things[place]].first <= latest:
            key = heap.keys[heap.things[place]]
            if key.first > at and key.second < below:
                key.first = at
                moved = True
                up(heap, 0, place)  # what comes down instead has been looked at
            place = 2 * place + 1
            continue
        while place and not place & 1:
            place = (place - 1) >> 1
        if not place:
            return moved
        place += 1


@compiled
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


@compiled
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
