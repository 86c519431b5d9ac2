"""Heaps over plain arrays, compiled: numbered things with keys, and bare numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

Array = Any
"""A NumPy array; compiled code has no use for more."""


class Keyed(NamedTuple):
    """Several heaps of numbered things; a thing stands in one heap at most, at a known place.

    It is ordered by ``(first, second)``, smallest on top, and can be moved or taken out.
    """

    #: the things of heap ``h`` stand from ``begins[h]`` on, ``sizes[h]`` of them
    things: Array
    begins: Array
    sizes: Array
    #: by thing: where it stands in its heap; -1: in none
    places: Array
    first: Array
    second: Array


def keyed(things: int, heaps: int) -> Keyed:
    """Return empty heaps, each with room for all things."""
    return Keyed(
        np.empty(things * heaps, np.int64),
        np.arange(heaps, dtype=np.int64) * things,
        np.zeros(heaps, np.int64),
        np.full(things, -1, np.int64),
        np.zeros(things, np.float64),
        np.zeros(things, np.int64),
    )


@njit(cache=True)
def before(heap, one, other):
    """Whether a thing goes before another one."""
    if heap.first[one] != heap.first[other]:
        return heap.first[one] < heap.first[other]
    return heap.second[one] < heap.second[other]


@njit(cache=True)
def up(heap, begin, place):
    """Move the thing at a place up to where it belongs."""
    thing = heap.things[begin + place]
    while place > 0:
        parent = (place - 1) >> 1
        above = heap.things[begin + parent]
        if not before(heap, thing, above):
            break
        heap.things[begin + place] = above
        heap.places[above] = place
        place = parent
    heap.things[begin + place] = thing
    heap.places[thing] = place


@njit(cache=True)
def down(heap, begin, size, place):
    """Move the thing at a place down to where it belongs."""
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
        heap.places[below] = place
        place = child
    heap.things[begin + place] = thing
    heap.places[thing] = place


@njit(cache=True)
def put(heap, which, thing, first, second):
    """Let a thing stand in a heap with this key, wherever in it it stood before."""
    begin = heap.begins[which]
    heap.first[thing] = first
    heap.second[thing] = second
    place = heap.places[thing]
    if place < 0:
        place = heap.sizes[which]
        heap.sizes[which] = place + 1
        heap.things[begin + place] = thing
        heap.places[thing] = place
        up(heap, begin, place)
        return
    up(heap, begin, place)
    down(heap, begin, heap.sizes[which], heap.places[thing])


@njit(cache=True)
def take_out(heap, which, thing):
    """Take a thing out of a heap, if it stands there."""
    place = heap.places[thing]
    if place < 0:
        return
    begin = heap.begins[which]
    size = heap.sizes[which] - 1
    heap.sizes[which] = size
    heap.places[thing] = -1
    if place == size:
        return
    last = heap.things[begin + size]
    heap.things[begin + place] = last
    heap.places[last] = place
    up(heap, begin, place)
    down(heap, begin, size, heap.places[last])


@njit(cache=True)
def push(numbers, begin, size, number):
    """Put a number into the heap of ``size`` numbers from ``begin`` on."""
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        above = numbers[begin + parent]
        if above <= number:
            break
        numbers[begin + place] = above
        place = parent
    numbers[begin + place] = number


@njit(cache=True)
def pop(numbers, begin, size):
    """Take the smallest number out of the heap of ``size`` numbers from ``begin`` on."""
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
