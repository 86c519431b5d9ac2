"""Many loads, one after the other, on identical farms: no array is allocated in between."""

from __future__ import annotations

from farm.sim.fast.kernel import loop
from farm.sim.fast.kernel.compiled import inlined, kept
from farm.sim.fast.kernel.layout import PLAYED


@kept
def play_each(farm, fresh, columns, orders, ends):
    """Run each load on a fresh farm, and record when its jobs end; return the results."""
    for number in range(len(columns)):
        copy(farm.pools, fresh.pools)
        copy(farm.builders, fresh.builders)
        copy(farm.slots, fresh.slots)
        copy(farm.lanes, fresh.lanes)
        copy(farm.counts, fresh.counts)
        copy(farm.instants, fresh.instants)
        for heap, empty in ((farm.free, fresh.free), (farm.agenda, fresh.agenda)):
            copy(heap.heaps, empty.heaps)
            copy(heap.keys, empty.keys)
        copy(farm.jobs, columns[number])
        copy(farm.in_order, orders[number])
        halt = loop.play(farm)
        if halt != PLAYED:
            return halt
        for job in range(len(farm.jobs)):
            ends[number, job] = farm.jobs[job].finished_at
    return PLAYED


@inlined
def copy(to, source):
    """Copy the content of one array into another (a slice would be copied twice)."""
    for place in range(len(to)):
        to[place] = source[place]
