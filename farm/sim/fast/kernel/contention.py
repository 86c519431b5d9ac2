"""Jobs that slow each other down (``farm.core.contention.progress``), compiled."""

from __future__ import annotations

import numpy as np

from farm.core.simultaneity import latest_same
from farm.emulation.agenda import FINISH
from farm.sim.fast.kernel.heaps import put
from farm.sim.fast.kernel.layout import FREE, LIVES


def code(rank, builder, slot):
    """Return the order of entries of one instant: by rank, then builder, then slot.

    Slot -1 is a builder's lifetime, which was scheduled first: it precedes everything else.
    """
    return (rank << 48) + ((builder + 1) << 16) + slot + 1


def own_thing(farm, builder):
    """Return the heap entry of a builder's own life; the next one is its lifetime."""
    each = farm.counts[0].slots_each
    return LIVES + builder * (each + 2) + each


def slot_thing(farm, builder, slot):
    """Return the heap entry of a builder's slot."""
    return LIVES + builder * (farm.counts[0].slots_each + 2) + slot


def first_slot(farm, builder):
    """Return the index of a builder's first slot."""
    return builder * farm.counts[0].slots_each


def rate_here(farm, builder):
    """Return the present rate of every job on a builder."""
    state = farm.builders[builder]
    pool = farm.pools[state.pool]
    return pool.speed / farm.slowdown[pool.law, state.heavy, state.memory_heavy]


def read_clock(farm, builder, at):
    """Return the work that each job on the builder has done since its clock began."""
    state = farm.builders[builder]
    return state.clock_work + (at - state.clock_at) * state.clock_rate


def weigh(farm, builder, number, sign, at):
    """Add a job's weight to the load, or subtract it, and update the clock."""
    job, state = farm.jobs[number], farm.builders[builder]
    state.jobs += sign
    state.heavy += sign * job.heavy
    state.memory_heavy += sign * job.memory_heavy
    rate = rate_here(farm, builder)
    if rate != state.clock_rate:
        state.clock_work = read_clock(farm, builder, at)
        state.clock_at = at
        state.clock_rate = rate


def share(farm, builder, slot, number):
    """Begin a job whose end depends on its neighbours."""
    state = farm.builders[builder]
    at = max(farm.instants[0].now, state.seen_at)
    state.seen_at = at
    if not state.jobs:
        state.clock_at = at
        state.clock_work = 0.0
    work = read_clock(farm, builder, at) + farm.jobs[number].work
    farm.slots[first_slot(farm, builder) + slot].ends_at_work = work
    weigh(farm, builder, number, 1, at)
    expect_next(farm, builder)


def reaches(state, work):
    """Return when the builder's clock reaches this work if nothing changes before."""
    return state.clock_at + (work - state.clock_work) / state.clock_rate


def next_end(farm, builder):
    """Return the slot of the job that ends next, and when; -1: nothing runs."""
    state, first, found, soonest = farm.builders[builder], first_slot(farm, builder), -1, np.inf
    for place in range(farm.pools[state.pool].slots):
        slot = farm.slots[first + place]
        # infinity: one that is still to be picked up, or that is over
        if slot.job >= 0 and slot.ends_at_work < soonest:
            found, soonest = place, slot.ends_at_work
    if found < 0:
        return found, soonest
    at = reaches(state, soonest)
    for place in range(found):
        slot = farm.slots[first + place]
        if slot.job >= 0 and reaches(state, slot.ends_at_work) <= latest_same(at):
            found = place
            break
    at = max(state.seen_at, at)
    return found, (state.seen_at if at <= latest_same(state.seen_at) else at)


def expect_next(farm, builder):
    """Schedule the next end, replacing the previous entry."""
    slot, at = next_end(farm, builder)
    if slot >= 0:
        put(farm.agenda, 0, own_thing(farm, builder), at, code(FINISH, builder, slot))


def next_due(farm, builder):
    """Remove the job that is due now from the builder's load; return its slot."""
    place, _ = next_end(farm, builder)
    state = farm.builders[builder]
    slot = farm.slots[first_slot(farm, builder) + place]
    job = slot.job
    state.seen_at = farm.instants[0].now
    weigh(farm, builder, job, -1, farm.instants[0].now)
    slot.job = FREE
    expect_next(farm, builder)
    slot.job = job
    return place
