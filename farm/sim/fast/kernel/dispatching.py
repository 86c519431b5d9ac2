"""Which job goes to which slot: ``farm.core.dispatching``, compiled."""

from __future__ import annotations

import numpy as np

from farm.emulation.agenda import FINISH, LIFE
from farm.sim.fast.kernel.contention import code, first_slot, share, slot_thing
from farm.sim.fast.kernel.heaps import before, put, take_out
from farm.sim.fast.kernel.holding import ask_for, held_until, measure, relent, sent, with_room
from farm.sim.fast.kernel.layout import FREE, JENKINS, START, STARTED
from farm.sim.fast.kernel.noting import ask_alarm, note, soon
from farm.sim.fast.kernel.queues import first, goes_first, join, leave


def wait(farm, number):
    """Add a job to its lane, at its place."""
    lane = farm.lanes[farm.jobs[number].lane]
    if lane.heavy and not lane.waiting:
        lane.held_since = farm.instants[0].now
    join(farm, number)


def fill(farm):
    """Dispatch, best job first, until no job waits that has a builder with room.

    Of heavy-light only the jobs of lanes that are not passed over.
    """
    while farm.counts[0].waiting:
        chosen, to = -1, -1
        for lane in range(len(farm.lanes)):
            if not farm.lanes[lane].waiting or farm.lanes[lane].passed_over:
                continue
            builder = best_builder(farm, lane)
            if builder >= 0 and (chosen < 0 or goes_first(farm, lane, chosen)):
                chosen, to = lane, builder
        if chosen < 0:
            return
        dispatch(farm, chosen, to, free_slot(farm, to))


def fill_lane(farm, lane):
    """Dispatch the jobs of one lane while builders have room for them."""
    while farm.lanes[lane].waiting:
        builder = best_builder(farm, lane)
        if builder < 0:
            return
        dispatch(farm, lane, builder, free_slot(farm, builder))


def held_back(farm):
    """Admit one job of each overdue lane to an overloaded builder that has a free slot."""
    for lane in range(len(farm.lanes)):
        state = farm.lanes[lane]
        if not state.heavy or not state.waiting:
            continue
        until = held_until(farm, lane)
        if farm.instants[0].now >= until:
            builder = first_ranked(farm, lane)
            if builder >= 0 and with_room(farm, lane) < 0:
                farm.builders[builder].overloaded = False
                fill_lane(farm, lane)
                ask_for(farm, lane)
                measure(farm, builder)
        ask_for(farm, lane)


def best_builder(farm, lane):
    """Return the builder with room that the balancer prefers; the lowest index on a tie."""
    if not farm.lanes[lane].heavy:
        return first_ranked(farm, lane)
    place = with_room(farm, lane)
    return farm.free.entries[place].thing if place >= 0 else -1


def first_ranked(farm, lane):
    """Return the free builder that is ranked first; the lowest index on a tie."""
    best = -1
    for group in range(len(farm.free.heaps)):
        if farm.serves[group, lane] and farm.free.heaps[group].count:
            place = farm.free.heaps[group].begin
            top = farm.free.entries[place]
            if best < 0 or before(top.first, top.second, farm.free.entries[best]):
                best = place
    return farm.free.entries[best].thing if best >= 0 else -1


def free_slot(farm, builder):
    """Return the lowest free slot of a builder that has room."""
    first = first_slot(farm, builder)
    for slot in range(farm.pools[farm.builders[builder].pool].slots):
        if farm.slots[first + slot].job == FREE:
            return slot
    return -1


def open_slot(farm, builder, slot):
    """Offer a free slot: it gets the best waiting job, or is kept for the next arrival."""
    best = -1
    if farm.counts[0].waiting:
        relent(farm, builder)
        group = farm.pools[farm.builders[builder].pool].group
        for lane in range(len(farm.lanes)):
            if (
                farm.lanes[lane].waiting
                and farm.serves[group, lane]
                and not (farm.builders[builder].overloaded and farm.lanes[lane].heavy)
                and (best < 0 or goes_first(farm, lane, best))
            ):
                best = lane
    if best >= 0:
        dispatch(farm, best, builder, slot)
    else:
        offer(farm, builder)
        measure(farm, builder)


def offer(farm, builder):
    """Rank a builder with room among the free ones of its group."""
    state = farm.builders[builder]
    pool = farm.pools[state.pool]
    jenkins = farm.rules[0].ranking == JENKINS
    rank = -(pool.slots / (0.5 + state.busy)) if jenkins else state.active_at
    put(farm.free, pool.group, builder, rank, builder)


def dispatch(farm, lane, builder, slot):
    """Bind the first job of a lane to a slot; it starts there at this instant."""
    at = farm.instants[0].now
    number = first(farm, lane)
    job, state = farm.jobs[number], farm.builders[builder]
    pool = farm.pools[state.pool]
    pool_counts = farm.pool_counts[state.pool]
    leave(farm, lane)
    job.dispatched_at = at
    job.builder = builder
    job.slot = slot
    job.attempts += 1
    farm.slots[first_slot(farm, builder) + slot].job = number
    pool_counts.idle_builders -= state.busy == 0
    pool_counts.running_jobs += 1
    state.busy += 1
    farm.counts[0].busy += 1
    state.active_at = at
    state.used += 1
    if state.used == pool.uses:
        take_no_more(farm, builder)
        state.draining = True
    elif state.busy < pool.slots:
        offer(farm, builder)
    else:
        take_out(farm.free, pool.group, builder)
    note(farm, START, number, builder, slot, job.attempts, at)
    sent(farm, builder, number, 1)
    job.started = False
    if state.vanished:
        return  # the scheduler learns that next
    if pool.pickup_time > 0:
        farm.slots[first_slot(farm, builder) + slot].ends_at_work = np.inf
        picked_up_at = at + pool.pickup_time
        put(
            farm.agenda, 0, slot_thing(farm, builder, slot), picked_up_at, code(LIFE, builder, slot)
        )
    else:
        soon(farm, STARTED, number)
        work_on(farm, builder, slot, number)


def work_on(farm, builder, slot, number):
    """Begin a job's work."""
    job, pool = farm.jobs[number], farm.pools[farm.builders[builder].pool]
    job.started = True
    if pool.law >= 0:
        share(farm, builder, slot, number)
    else:
        ends_at = farm.instants[0].now + job.work / pool.speed
        put(farm.agenda, 0, slot_thing(farm, builder, slot), ends_at, code(FINISH, builder, slot))


def take_no_more(farm, builder):
    """Dispatch nothing more to a builder, which may be empty, busy, or never have taken a job."""
    state = farm.builders[builder]
    pool = farm.pools[state.pool]
    pool_counts = farm.pool_counts[state.pool]
    if state.accepts:
        take_out(farm.free, pool.group, builder)
        pool_counts.accepting -= 1
        pool_counts.idle_builders -= state.busy == 0
    state.accepts = False
    if state.draining or state.failed:
        return
    running = state.busy - state.cleaning
    pool_counts.draining += 1
    pool_counts.running_jobs -= running
    pool_counts.draining_jobs += running
    pool_counts.cleaning_slots -= state.cleaning


# --- idle time-outs (``farm.core.pools.idleness``) -----------------------------------------------


def watch_idleness(farm, builder):
    """Set the timer of an idle builder without a timer."""
    state = farm.builders[builder]
    if state.timed or state.busy or state.draining:
        return
    state.timed = True
    expires_at = state.active_at + farm.pools[state.pool].idle_timeout
    put(farm.timers, 0, builder, expires_at, builder)
    ask_alarm(farm, expires_at)


def first_timer(farm):
    """Return when the first time-out expires, as of now; infinity: never."""
    timers = farm.timers
    while timers.heaps[0].count:
        first = timers.entries[0]
        builder = first.thing
        state = farm.builders[builder]
        expires_at = state.active_at + farm.pools[state.pool].idle_timeout
        if state.busy or state.draining or state.failed or state.end:
            take_out(timers, 0, builder)
            state.timed = False
        elif expires_at > first.first:
            put(timers, 0, builder, expires_at, builder)
        else:
            return first.first
    return np.inf
