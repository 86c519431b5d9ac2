"""The jobs that wait in each lane, as heaps; compiled.

A job's place in the order of all keys is one number, known beforehand. Where jobs need others it is
not: the later a job is released, the further behind its place. There the heaps have whole keys.
"""

from __future__ import annotations

from farm.sim.fast.kernel.heaps import pop, push


def first(farm, lane):
    """Return the job that is first in a lane."""
    begin = farm.lanes[lane].begin
    if len(farm.line):
        return farm.line[begin].job
    return farm.in_order[farm.queue[begin]]


def goes_first(farm, lane, other):
    """Return whether the first job of a lane precedes that of another."""
    begin, other_begin = farm.lanes[lane].begin, farm.lanes[other].begin
    if len(farm.line):
        return precedes(farm.line[begin], farm.line[other_begin])
    return farm.queue[begin] < farm.queue[other_begin]


def join(farm, number):
    """Add a job to its lane, at its place."""
    lane = farm.lanes[farm.jobs[number].lane]
    if len(farm.line):
        push_waiter(farm, lane.begin, lane.waiting, number)
    else:
        push(farm.queue, lane.begin, lane.waiting, farm.jobs[number].order)
    lane.waiting += 1
    farm.counts[0].waiting += 1


def leave(farm, lane):
    """Remove the first job of a lane."""
    state = farm.lanes[lane]
    if len(farm.line):
        pop_waiter(farm.line, state.begin, state.waiting)
    else:
        pop(farm.queue, state.begin, state.waiting)
    state.waiting -= 1
    farm.counts[0].waiting -= 1


# --- heaps of whole keys -------------------------------------------------------------------------


def precedes(one, other):
    """Return whether a waiting job, or one that would wait, precedes another."""
    if one.rank != other.rank:
        return one.rank < other.rank
    return one.own < other.own or (one.own == other.own and one.place < other.place)


def push_waiter(farm, begin, size, number):
    """Add a job to the heap of ``size`` from ``begin`` on."""
    line, key, place = farm.line, farm.blocking[number], size
    while place > 0:
        parent = (place - 1) >> 1
        if not precedes(key, line[begin + parent]):
            break
        line[begin + place] = line[begin + parent]
        place = parent
    waiter = line[begin + place]
    waiter.rank = key.rank
    waiter.own = key.own
    waiter.place = key.place
    waiter.job = number


def pop_waiter(line, begin, size):
    """Remove the first job of the heap of ``size`` from ``begin`` on."""
    last = begin + size - 1
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size - 1:
            break
        if child + 1 < size - 1 and precedes(line[begin + child + 1], line[begin + child]):
            child += 1
        if not precedes(line[begin + child], line[last]):
            break
        line[begin + place] = line[begin + child]
        place = child
    line[begin + place] = line[last]
