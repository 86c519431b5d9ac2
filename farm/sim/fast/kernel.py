"""The compiled loop: what ``driver``, ``Scheduler`` and ``SimulatedWorld`` do, on arrays.

The reader of ``farm.core.scheduler`` and ``farm.core.dispatching`` meets the same steps in the same
order, and the order of simultaneous events of ``farm.emulation.agenda``. A policy is a number for
each job (its place in the order of all keys), a law a table. If the two differ, this is wrong.
"""

from __future__ import annotations

import numpy as np

from farm.core.pools.hopeless import PATIENCE
from farm.emulation.agenda import FINISH, LIFE
from farm.sim.fast.compiled import compiled
from farm.sim.fast.heaps import before, pop, push, put, take_out
from farm.sim.fast.layout import (
    ALARM,
    ALARM_AT,
    ARRIVALS_ENDED,
    ARRIVALS_OVER,
    BEGUN,
    BOOTING,
    BUSY,
    CLEANED,
    CLEANING,
    END,
    ENDED,
    EVENTS,
    FINISHED,
    FREE,
    HOPELESS,
    JENKINS,
    JOINED,
    LAST_EVENT,
    NOTED,
    NOW,
    OPEN,
    PLAYED,
    START,
    STARTED,
    STILL_SINCE,
    SUBMITTED,
    WAITING,
)


@compiled
def play(farm, ranking, ends_at):
    """Play to the end; return how it ended."""
    counts, instants, agenda = farm.counts, farm.instants, farm.agenda
    batch, batches = 0, len(farm.batches) - 1
    slots = len(farm.slots)
    counts[EVENTS] = 1  # the farm opened
    for builder in range(len(farm.builders)):
        counts[BOOTING] += 1
        joins_at = farm.builders[builder].joins_at
        put(agenda, 0, slots + builder, joins_at, code(farm, LIFE, builder, 0))
    while True:
        thing = agenda.things[0] if agenda.heaps[0].size else -1
        at = agenda.keys[thing].first if thing >= 0 else np.inf
        if batch < batches and farm.batches[batch].at < at:
            instants[NOW] = farm.batches[batch].at
            submitted(farm, ranking, batch)
            batch += 1
            if batch == batches:
                counts[ARRIVALS_OVER] = 1
                happened(farm, ARRIVALS_ENDED, 0)
                if not hope(farm):
                    return HOPELESS
            started(farm)
            continue
        if batch == batches:
            alarm_at = instants[ALARM_AT]
            if counts[OPEN] == 0 and min(at, alarm_at) > ends_at:
                return PLAYED
            if alarm_at <= at and alarm_at < np.inf:
                return HOPELESS
            if thing < 0:
                return PLAYED
        instants[NOW] = at
        take_out(agenda, 0, thing)
        if thing >= slots:
            builder = thing - slots
            if agenda.keys[thing].second >> 48 == LIFE:
                joined(farm, ranking, builder)
            else:
                finished(farm, ranking, builder, next_due(farm, builder))
        elif farm.slots[thing].job == CLEANING:
            cleaned(farm, ranking, thing)
        else:
            job = farm.jobs[farm.slots[thing].job]
            finished(farm, ranking, job.builder, job.slot)
        if not hope(farm):
            return HOPELESS
        started(farm)


# --- events --------------------------------------------------------------------------------------


@compiled
def submitted(farm, ranking, batch):
    """Jobs arrive: all of them wait, then the best one that has a builder goes, again and again."""
    happened(farm, SUBMITTED, batch)
    begin, end = farm.batches[batch].begin, farm.batches[batch + 1].begin
    farm.counts[OPEN] += end - begin
    for job in range(begin, end):
        lane = farm.lanes[farm.jobs[job].lane]
        push(farm.queue, lane.begin, lane.waiting, farm.jobs[job].order)
        lane.waiting += 1
    farm.counts[WAITING] += end - begin
    while farm.counts[WAITING]:
        chosen, to = -1, -1
        for lane in range(len(farm.lanes)):
            if not farm.lanes[lane].waiting:
                continue
            builder = best_builder(farm, lane)
            if builder >= 0 and (chosen < 0 or head(farm, lane) < head(farm, chosen)):
                chosen, to = lane, builder
        if chosen < 0:
            return
        dispatch(farm, ranking, chosen, to, free_slot(farm, to))


@compiled
def joined(farm, ranking, builder):
    """A builder is there: each of its slots is offered."""
    happened(farm, JOINED, builder)
    farm.counts[BOOTING] -= 1
    state = farm.builders[builder]
    state.joined = True
    state.active_at = farm.instants[NOW]
    if state.law >= 0:
        state.clock_rate = rate_here(farm, builder)
    if state.takes_jobs:
        for slot in range(state.slots):
            open_slot(farm, ranking, builder, slot)


@compiled
def finished(farm, ranking, builder, slot):
    """A job ends; its slot is cleaned, or takes the next one."""
    at, counts, state = farm.instants[NOW], farm.counts, farm.builders[builder]
    thing = state.first_slot + slot
    job = farm.slots[thing].job
    happened(farm, FINISHED, job)
    farm.jobs[job].finished_at = at
    farm.ended[counts[ENDED]] = job
    counts[ENDED] += 1
    counts[OPEN] -= 1
    note(farm, END, job, at)
    if state.inter_job_time > 0:
        farm.slots[thing].job = CLEANING
        put(farm.agenda, 0, thing, at + state.inter_job_time, code(farm, LIFE, builder, slot))
    else:
        slot_ready(farm, ranking, builder, slot)


@compiled
def cleaned(farm, ranking, thing):
    """A slot is clean again."""
    builder = farm.slots[thing].builder
    happened(farm, CLEANED, thing)
    slot_ready(farm, ranking, builder, thing - farm.builders[builder].first_slot)


@compiled
def started(farm):
    """The jobs just dispatched start: events of their own, which change nothing more."""
    for number in range(farm.counts[BEGUN]):
        happened(farm, STARTED, farm.begun[number])
    farm.counts[BEGUN] = 0


# --- dispatching ---------------------------------------------------------------------------------


@compiled
def head(farm, lane):
    """Return the place, in the order of all keys, of the first job that waits in a lane."""
    return farm.queue[farm.lanes[lane].begin]


@compiled
def best_builder(farm, lane):
    """Return the builder with room that the balancer prefers; the lowest index on a tie."""
    best = -1
    for group in range(len(farm.free.heaps)):
        if farm.serves[group, lane] and farm.free.heaps[group].size:
            builder = farm.free.things[farm.free.heaps[group].begin]
            if best < 0 or before(farm.free, builder, best):
                best = builder
    return best


@compiled
def free_slot(farm, builder):
    """Return the lowest free slot of a builder that has room."""
    state = farm.builders[builder]
    for slot in range(state.slots):
        if farm.slots[state.first_slot + slot].job == FREE:
            return slot
    return -1


@compiled
def slot_ready(farm, ranking, builder, slot):
    """A busy slot is free again."""
    state = farm.builders[builder]
    farm.slots[state.first_slot + slot].job = FREE
    state.busy -= 1
    farm.counts[BUSY] -= 1
    state.active_at = farm.instants[NOW]
    open_slot(farm, ranking, builder, slot)


@compiled
def open_slot(farm, ranking, builder, slot):
    """Offer a free slot: it takes the best waiting job at once, or stands ready for the next."""
    best = -1
    if farm.counts[WAITING]:
        for lane in range(len(farm.lanes)):
            if (
                farm.lanes[lane].waiting
                and farm.serves[farm.builders[builder].group, lane]
                and (best < 0 or head(farm, lane) < head(farm, best))
            ):
                best = lane
    if best >= 0:
        dispatch(farm, ranking, best, builder, slot)
    else:
        offer(farm, ranking, builder)


@compiled
def offer(farm, ranking, builder):
    """Rank a builder that has room among the free ones of its group."""
    state = farm.builders[builder]
    rank = -(state.slots / (0.5 + state.busy)) if ranking == JENKINS else state.active_at
    put(farm.free, state.group, builder, rank, state.index)


@compiled
def dispatch(farm, ranking, lane, builder, slot):
    """Bind the first job of a lane to a slot; it starts there at this instant."""
    at = farm.instants[NOW]
    number = farm.in_order[head(farm, lane)]
    job, state = farm.jobs[number], farm.builders[builder]
    pop(farm.queue, farm.lanes[lane].begin, farm.lanes[lane].waiting)
    farm.lanes[lane].waiting -= 1
    farm.counts[WAITING] -= 1
    job.dispatched_at = at
    job.builder = builder
    job.slot = slot
    thing = state.first_slot + slot
    farm.slots[thing].job = number
    state.busy += 1
    farm.counts[BUSY] += 1
    state.active_at = at
    if state.busy < state.slots:
        offer(farm, ranking, builder)
    else:
        take_out(farm.free, state.group, builder)
    note(farm, START, number, at)
    farm.begun[farm.counts[BEGUN]] = number
    farm.counts[BEGUN] += 1
    if state.law >= 0:
        share(farm, builder, slot, number)
    else:
        ends_at = at + job.work / state.speed
        put(farm.agenda, 0, thing, ends_at, code(farm, FINISH, builder, slot))


# --- jobs that slow each other down (``farm.core.contention.progress``) --------------------------


@compiled
def rate_here(farm, builder):
    """Return how fast every job on a builder advances under what runs there now."""
    state = farm.builders[builder]
    return state.speed / farm.slowdown[state.law, state.heavy, state.memory_heavy]


@compiled
def read_clock(farm, builder, at):
    """Return the work that each job on the builder has done since its clock began."""
    state = farm.builders[builder]
    return state.clock_work + (at - state.clock_at) * state.clock_rate


@compiled
def weigh(farm, builder, number, sign, at):
    """Add a job's weight to the load, or take it away, and let the clock follow."""
    job, state = farm.jobs[number], farm.builders[builder]
    state.jobs += sign
    state.heavy += sign * job.heavy
    state.memory_heavy += sign * job.memory_heavy
    rate = rate_here(farm, builder)
    if rate != state.clock_rate:
        state.clock_work = read_clock(farm, builder, at)
        state.clock_at = at
        state.clock_rate = rate


@compiled
def share(farm, builder, slot, number):
    """Begin a job whose end depends on its neighbours."""
    state = farm.builders[builder]
    at = max(farm.instants[NOW], state.seen_at)
    state.seen_at = at
    if not state.jobs:
        state.clock_at = at
        state.clock_work = 0.0
    work = read_clock(farm, builder, at) + farm.jobs[number].work
    farm.slots[state.first_slot + slot].ends_at_work = work
    weigh(farm, builder, number, 1, at)
    expect_next(farm, builder)


@compiled
def next_slot(farm, builder):
    """Return the slot of the job that ends next; -1: nothing runs."""
    first, found, soonest = farm.builders[builder].first_slot, -1, np.inf
    for place in range(farm.builders[builder].slots):
        slot = farm.slots[first + place]
        if slot.job >= 0 and (found < 0 or slot.ends_at_work < soonest):
            found, soonest = place, slot.ends_at_work
    return found


@compiled
def expect_next(farm, builder):
    """Put down who ends next, in the place of what was expected before."""
    slot = next_slot(farm, builder)
    if slot < 0:
        return
    state = farm.builders[builder]
    left = farm.slots[state.first_slot + slot].ends_at_work - state.clock_work
    at = max(state.seen_at, state.clock_at + left / state.clock_rate)
    put(farm.agenda, 0, len(farm.slots) + builder, at, code(farm, FINISH, builder, slot))


@compiled
def next_due(farm, builder):
    """Take the job that is due now off the builder's load; return its slot."""
    place = next_slot(farm, builder)
    state = farm.builders[builder]
    slot = farm.slots[state.first_slot + place]
    job = slot.job
    state.seen_at = farm.instants[NOW]
    weigh(farm, builder, job, -1, farm.instants[NOW])
    slot.job = FREE
    expect_next(farm, builder)
    slot.job = job
    return place


@compiled
def code(farm, rank, builder, slot):
    """Return the order of entries of one instant: by rank, then builder, then slot."""
    return (rank << 48) + (farm.builders[builder].index << 16) + slot


@compiled
def hope(farm):
    """Look, once nothing more arrives, whether jobs wait for nobody; False: they are given up."""
    counts, instants = farm.counts, farm.instants
    if not counts[ARRIVALS_OVER]:
        return True
    if counts[OPEN] == 0 or counts[BUSY]:
        instants[STILL_SINCE] = np.inf
        return True
    if instants[STILL_SINCE] == np.inf:
        instants[STILL_SINCE] = instants[NOW]
    if not counts[BOOTING] or instants[NOW] >= instants[STILL_SINCE] + PATIENCE:
        return False  # with a builder there that could run them they would not wait
    if instants[ALARM_AT] == np.inf:
        instants[ALARM_AT] = instants[STILL_SINCE] + PATIENCE
        note(farm, ALARM, 0, instants[ALARM_AT])
    return True


@compiled
def happened(farm, kind, what):
    """Count an event, and note it."""
    farm.counts[EVENTS] += 1
    farm.instants[LAST_EVENT] = farm.instants[NOW]
    note(farm, kind, what, farm.instants[NOW])


@compiled
def note(farm, kind, what, at):
    """Write down an event or a command, if anybody wants to know."""
    place = farm.counts[NOTED]
    if place < len(farm.notes):
        noted = farm.notes[place]
        noted.kind = kind
        noted.what = what
        noted.at = at
        farm.counts[NOTED] = place + 1
