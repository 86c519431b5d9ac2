"""Many loads, one after the other, on farms that are alike: no array is made in between."""

from __future__ import annotations

from farm.sim.fast import kernel
from farm.sim.fast.compiled import compiled
from farm.sim.fast.layout import HOPELESS, PLAYED


@compiled
def play_each(farm, fresh, columns, orders, ranking, ends):
    """Play each load on a fresh farm, and write down when its jobs end; return how it went."""
    for number in range(len(columns)):
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
        if kernel.play(farm, ranking, 0.0) == HOPELESS:
            return HOPELESS
        for job in range(len(farm.jobs)):
            ends[number, job] = farm.jobs[job].finished_at
    return PLAYED


@compiled
def copy(to, source):
    """Copy what stands in one array into another (a slice would be copied twice)."""
    for place in range(len(to)):
        to[place] = source[place]
