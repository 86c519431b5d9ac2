"""Heavy jobs that are held back: ``farm.core.dispatching.heavy_light``, compiled.

The builders with room for a heavy job are those free ones that are not overloaded; the best one is
searched for among them.
"""

from __future__ import annotations

import numpy as np

from farm.core.contention.laws import is_overloaded
from farm.sim.fast.kernel.heaps import before
from farm.sim.fast.kernel.layout import HEAVY_SHARE, NO_LOAD
from farm.sim.fast.kernel.noting import ask_alarm


def load_on(farm, builder):
    """Return the load of the jobs that were sent to a builder."""
    state = farm.builders[builder]
    pool = farm.pools[state.pool]
    if farm.rules[0].load == HEAVY_SHARE:
        return state.sent_heavy / pool.slots
    if pool.law < 0:
        return 1.0
    return farm.slowdown[pool.law, state.sent_heavy, state.sent_memory_heavy]


def measure(farm, builder):
    """Measure a builder's load again, and admit or refuse heavy jobs."""
    rules, state = farm.rules[0], farm.builders[builder]
    if rules.load != NO_LOAD:
        state.overloaded = state.sent > 0 and is_overloaded(
            load_on(farm, builder), state.overloaded, rules.overloaded_at, rules.room_at
        )


def sent(farm, builder, number, sign):
    """Count a job that is sent to a builder, or whose attempt is over there."""
    if farm.rules[0].load == NO_LOAD:
        return
    state, job = farm.builders[builder], farm.jobs[number]
    state.sent += sign
    state.sent_heavy += sign * job.heavy
    state.sent_memory_heavy += sign * job.memory_heavy
    if sign > 0 and farm.lanes[job.lane].heavy:
        farm.lanes[job.lane].held_since = farm.instants[0].now
    measure(farm, builder)


def with_room(farm, lane):
    """Return the place of the builder with the lowest load that has room for a heavy job; or -1."""
    best, lowest = -1, np.inf
    for group in range(len(farm.free.heaps)):
        if not farm.serves[group, lane]:
            continue
        begin = farm.free.heaps[group].begin
        for place in range(begin, begin + farm.free.heaps[group].count):
            entry = farm.free.entries[place]
            if farm.builders[entry.thing].overloaded:
                continue
            load = load_on(farm, entry.thing)
            precedes = best < 0 or load < lowest
            if not precedes and load == lowest:
                precedes = before(entry.first, entry.second, farm.free.entries[best])
            if precedes:
                best, lowest = place, load
    return best


def held_until(farm, lane):
    """Return until when the heavy jobs of a lane are held back."""
    state = farm.lanes[lane]
    if np.isnan(state.held_since):
        state.held_since = farm.instants[0].now
    return state.held_since + farm.rules[0].hold_at_most


def ask_for(farm, lane):
    """Set an alarm for when the heavy jobs of a lane have been held back long enough."""
    state = farm.lanes[lane]
    if state.heavy and state.waiting:
        rings_at = held_until(farm, lane)
        if farm.instants[0].now < rings_at and rings_at < np.inf:
            ask_alarm(farm, rings_at)


def pass_over(farm):
    """Look for no builder for any lane, until something has changed for it."""
    for lane in range(len(farm.lanes)):
        farm.lanes[lane].passed_over = farm.rules[0].load != NO_LOAD


def relent(farm, builder):
    """Let a builder compete for heavy jobs that are overdue, though it is overloaded."""
    state = farm.builders[builder]
    if not state.overloaded:
        return
    group = farm.pools[state.pool].group
    for lane in range(len(farm.lanes)):
        if not (farm.serves[group, lane] and farm.lanes[lane].heavy and farm.lanes[lane].waiting):
            continue
        until = held_until(farm, lane)
        if farm.instants[0].now >= until:
            state.overloaded = False
            return
