"""The compiled loop: what ``driver``, ``Scheduler`` and ``SimulatedWorld`` do, on arrays.

The reader of ``farm.core.scheduler`` and ``farm.core.dispatching`` meets the same steps here in the
same order, and of ``farm.emulation.agenda`` the same order of simultaneous events. Policies are a
number for each job (its place in the order of all keys), a law of contention is a table. Nothing
is decided here that is not decided there: where the two differ, this is wrong.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from farm.core.pools.hopeless import PATIENCE
from farm.emulation.agenda import FINISH, LIFE
from farm.sim.fast.heaps import Array, Keyed, pop, push, put, take_out

# --- what is noted for the story: events, and behind each the commands that it led to ------------

ARRIVALS_ENDED, SUBMITTED, JOINED, STARTED, FINISHED, CLEANED = range(1, 7)
START, END, ALARM = range(7, 10)

JENKINS, LONGEST_IDLE = 0, 1
"""Balancers, by number (``farm.core.dispatching.balancers``)."""

# --- places of ``Farm.counts`` -------------------------------------------------------------------

OPEN, BUSY, WAITING, BOOTING, EVENTS, ENDED, NOTED, BEGUN, ARRIVALS_OVER = range(9)
COUNTS = 9

# --- places of ``Farm.instants`` -----------------------------------------------------------------

NOW, LAST_EVENT, STILL_SINCE, ALARM_AT = range(4)

PLAYED, HOPELESS = 0, 1
"""How a play ended: to its end, or where jobs were to be given up, which is not played here."""


class Farm(NamedTuple):
    """Everything that one play needs; ``columns.py`` fills it in."""

    # jobs, in order of submission
    work: Array
    #: place in the order of all jobs' keys, and which job has a place
    order: Array
    at_place: Array
    lane: Array
    heavy: Array
    memory_heavy: Array
    # jobs submitted together: those of batch b are from begins[b] to begins[b + 1]
    batch_at: Array
    batch_begins: Array
    # builders, in order of request
    index: Array
    group: Array
    slots: Array
    first_slot: Array
    speed: Array
    takes_jobs: Array
    joins_at: Array
    inter_job_time: Array
    #: which law of contention; -1: none
    law: Array
    #: slowdown by law, heavy jobs and memory-heavy jobs
    slowdown: Array
    #: whether the builders of a group may run the jobs of a lane
    serves: Array
    # what goes on: jobs waiting by lane (heaps of places), builders with room by group, the agenda
    queue: Array
    queue_begins: Array
    waiting: Array
    free: Keyed
    agenda: Keyed
    joined: Array
    busy: Array
    active_at: Array
    #: by slot: the job that runs there; -1: none, -2: it is being cleaned
    running: Array
    ends_at_work: Array
    # contention, by builder: the clock of work done, and what runs
    clock_at: Array
    clock_work: Array
    clock_rate: Array
    seen_at: Array
    jobs_here: Array
    heavy_here: Array
    memory_heavy_here: Array
    # the farm as a whole
    counts: Array
    instants: Array
    #: jobs dispatched by the event being handled: they start next
    begun: Array
    # results, by job; ``ended`` is in order of ending
    dispatched_at: Array
    finished_at: Array
    builder: Array
    slot: Array
    ended: Array
    # notes (none are taken where there is no room for any)
    note_kind: Array
    note_what: Array
    note_at: Array


@njit(cache=True)
def play(farm, ranking, ends_at):
    """Play to the end; return how it ended."""
    counts, instants, agenda = farm.counts, farm.instants, farm.agenda
    batch, batches = 0, len(farm.batch_at)
    slots = len(farm.running)
    counts[EVENTS] = 1  # the farm opened
    for builder in range(len(farm.slots)):
        counts[BOOTING] += 1
        put(agenda, 0, slots + builder, farm.joins_at[builder], code(farm, LIFE, builder, 0))
    while True:
        thing = agenda.things[0] if agenda.sizes[0] else -1
        at = agenda.first[thing] if thing >= 0 else np.inf
        if batch < batches and farm.batch_at[batch] < at:
            instants[NOW] = farm.batch_at[batch]
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
            if agenda.second[thing] >> 48 == LIFE:
                joined(farm, ranking, builder)
            else:
                finished(farm, ranking, builder, next_due(farm, builder))
        elif farm.running[thing] == -2:
            cleaned(farm, ranking, thing)
        else:
            job = farm.running[thing]
            finished(farm, ranking, farm.builder[job], farm.slot[job])
        if not hope(farm):
            return HOPELESS
        started(farm)


# --- events --------------------------------------------------------------------------------------


@njit(cache=True)
def submitted(farm, ranking, batch):
    """Jobs arrive: all of them wait, then the best one that has a builder goes, again and again."""
    happened(farm, SUBMITTED, batch)
    begin, end = farm.batch_begins[batch], farm.batch_begins[batch + 1]
    farm.counts[OPEN] += end - begin
    for job in range(begin, end):
        lane = farm.lane[job]
        push(farm.queue, farm.queue_begins[lane], farm.waiting[lane], farm.order[job])
        farm.waiting[lane] += 1
    farm.counts[WAITING] += end - begin
    while farm.counts[WAITING]:
        chosen, to = -1, -1
        for lane in range(len(farm.waiting)):
            if not farm.waiting[lane]:
                continue
            builder = best_builder(farm, lane)
            if builder >= 0 and (chosen < 0 or head(farm, lane) < head(farm, chosen)):
                chosen, to = lane, builder
        if chosen < 0:
            return
        dispatch(farm, ranking, chosen, to, free_slot(farm, to))


@njit(cache=True)
def joined(farm, ranking, builder):
    """A builder is there: each of its slots is offered."""
    happened(farm, JOINED, builder)
    farm.joined[builder] = True
    farm.counts[BOOTING] -= 1
    farm.active_at[builder] = farm.instants[NOW]
    if farm.law[builder] >= 0:
        farm.clock_rate[builder] = rate_here(farm, builder)
    if farm.takes_jobs[builder]:
        for slot in range(farm.slots[builder]):
            open_slot(farm, ranking, builder, slot)


@njit(cache=True)
def finished(farm, ranking, builder, slot):
    """A job ends; its slot is cleaned, or takes the next one."""
    at, counts = farm.instants[NOW], farm.counts
    thing = farm.first_slot[builder] + slot
    job = farm.running[thing]
    happened(farm, FINISHED, job)
    farm.finished_at[job] = at
    farm.ended[counts[ENDED]] = job
    counts[ENDED] += 1
    counts[OPEN] -= 1
    note(farm, END, job, at)
    if farm.inter_job_time[builder] > 0:
        farm.running[thing] = -2
        cleaned_at = at + farm.inter_job_time[builder]
        put(farm.agenda, 0, thing, cleaned_at, code(farm, LIFE, builder, slot))
    else:
        slot_ready(farm, ranking, builder, slot)


@njit(cache=True)
def cleaned(farm, ranking, thing):
    """A slot is clean again."""
    builder = np.searchsorted(farm.first_slot, thing, side="right") - 1
    happened(farm, CLEANED, thing)
    slot_ready(farm, ranking, builder, thing - farm.first_slot[builder])


@njit(cache=True)
def started(farm):
    """The jobs just dispatched start: events of their own, which change nothing more."""
    for number in range(farm.counts[BEGUN]):
        happened(farm, STARTED, farm.begun[number])
    farm.counts[BEGUN] = 0


# --- dispatching ---------------------------------------------------------------------------------


@njit(cache=True)
def head(farm, lane):
    """Return the place, in the order of all keys, of the first job that waits in a lane."""
    return farm.queue[farm.queue_begins[lane]]


@njit(cache=True)
def best_builder(farm, lane):
    """Return the builder with room that the balancer prefers; the lowest index on a tie."""
    best = -1
    for group in range(len(farm.free.sizes)):
        if farm.serves[group, lane] and farm.free.sizes[group]:
            builder = farm.free.things[farm.free.begins[group]]
            if (
                best < 0
                or farm.free.first[builder] < farm.free.first[best]
                or (
                    farm.free.first[builder] == farm.free.first[best]
                    and farm.index[builder] < farm.index[best]
                )
            ):
                best = builder
    return best


@njit(cache=True)
def free_slot(farm, builder):
    """Return the lowest free slot of a builder that has room."""
    for slot in range(farm.slots[builder]):
        if farm.running[farm.first_slot[builder] + slot] == -1:
            return slot
    return -1


@njit(cache=True)
def slot_ready(farm, ranking, builder, slot):
    """A busy slot is free again."""
    farm.running[farm.first_slot[builder] + slot] = -1
    farm.busy[builder] -= 1
    farm.counts[BUSY] -= 1
    farm.active_at[builder] = farm.instants[NOW]
    open_slot(farm, ranking, builder, slot)


@njit(cache=True)
def open_slot(farm, ranking, builder, slot):
    """Offer a free slot: it takes the best waiting job at once, or stands ready for the next."""
    best = -1
    if farm.counts[WAITING]:
        for lane in range(len(farm.waiting)):
            if (
                farm.waiting[lane]
                and farm.serves[farm.group[builder], lane]
                and (best < 0 or head(farm, lane) < head(farm, best))
            ):
                best = lane
    if best >= 0:
        dispatch(farm, ranking, best, builder, slot)
    else:
        offer(farm, ranking, builder)


@njit(cache=True)
def offer(farm, ranking, builder):
    """Rank a builder that has room among the free ones of its group."""
    if ranking == JENKINS:
        rank = -(farm.slots[builder] / (0.5 + farm.busy[builder]))
    else:
        rank = farm.active_at[builder]
    put(farm.free, farm.group[builder], builder, rank, farm.index[builder])


@njit(cache=True)
def dispatch(farm, ranking, lane, builder, slot):
    """Bind the first job of a lane to a slot; it starts there at this instant."""
    at = farm.instants[NOW]
    job = farm.at_place[head(farm, lane)]
    pop(farm.queue, farm.queue_begins[lane], farm.waiting[lane])
    farm.waiting[lane] -= 1
    farm.counts[WAITING] -= 1
    farm.dispatched_at[job] = at
    farm.builder[job] = builder
    farm.slot[job] = slot
    thing = farm.first_slot[builder] + slot
    farm.running[thing] = job
    farm.busy[builder] += 1
    farm.counts[BUSY] += 1
    farm.active_at[builder] = at
    if farm.busy[builder] < farm.slots[builder]:
        offer(farm, ranking, builder)
    else:
        take_out(farm.free, farm.group[builder], builder)
    note(farm, START, job, at)
    farm.begun[farm.counts[BEGUN]] = job
    farm.counts[BEGUN] += 1
    if farm.law[builder] >= 0:
        share(farm, builder, slot, job)
    else:
        ends_at = at + farm.work[job] / farm.speed[builder]
        put(farm.agenda, 0, thing, ends_at, code(farm, FINISH, builder, slot))


# --- jobs that slow each other down (``farm.core.contention.progress``) --------------------------


@njit(cache=True)
def rate_here(farm, builder):
    """Return how fast every job on a builder advances under what runs there now."""
    heavy, memory_heavy = farm.heavy_here[builder], farm.memory_heavy_here[builder]
    return farm.speed[builder] / farm.slowdown[farm.law[builder], heavy, memory_heavy]


@njit(cache=True)
def read_clock(farm, builder, at):
    """Return the work that each job on the builder has done since its clock began."""
    return farm.clock_work[builder] + (at - farm.clock_at[builder]) * farm.clock_rate[builder]


@njit(cache=True)
def weigh(farm, builder, job, sign, at):
    """Add a job's weight to the load, or take it away, and let the clock follow."""
    farm.jobs_here[builder] += sign
    farm.heavy_here[builder] += sign * farm.heavy[job]
    farm.memory_heavy_here[builder] += sign * farm.memory_heavy[job]
    rate = rate_here(farm, builder)
    if rate != farm.clock_rate[builder]:
        farm.clock_work[builder] = read_clock(farm, builder, at)
        farm.clock_at[builder] = at
        farm.clock_rate[builder] = rate


@njit(cache=True)
def share(farm, builder, slot, job):
    """Begin a job whose end depends on its neighbours."""
    at = max(farm.instants[NOW], farm.seen_at[builder])
    farm.seen_at[builder] = at
    if not farm.jobs_here[builder]:
        farm.clock_at[builder] = at
        farm.clock_work[builder] = 0.0
    thing = farm.first_slot[builder] + slot
    farm.ends_at_work[thing] = read_clock(farm, builder, at) + farm.work[job]
    weigh(farm, builder, job, 1, at)
    expect_next(farm, builder)


@njit(cache=True)
def next_slot(farm, builder):
    """Return the slot of the job that ends next; -1: nothing runs."""
    first, found = farm.first_slot[builder], -1
    for slot in range(farm.slots[builder]):
        if farm.running[first + slot] >= 0 and (
            found < 0 or farm.ends_at_work[first + slot] < farm.ends_at_work[first + found]
        ):
            found = slot
    return found


@njit(cache=True)
def expect_next(farm, builder):
    """Put down who ends next, in the place of what was expected before."""
    slot = next_slot(farm, builder)
    if slot < 0:
        return
    work = farm.ends_at_work[farm.first_slot[builder] + slot] - farm.clock_work[builder]
    at = farm.clock_at[builder] + work / farm.clock_rate[builder]
    at = max(farm.seen_at[builder], at)
    put(farm.agenda, 0, len(farm.running) + builder, at, code(farm, FINISH, builder, slot))


@njit(cache=True)
def next_due(farm, builder):
    """Stop the job that is due now; return its slot."""
    slot = next_slot(farm, builder)
    thing = farm.first_slot[builder] + slot
    job = farm.running[thing]
    farm.seen_at[builder] = farm.instants[NOW]
    weigh(farm, builder, job, -1, farm.instants[NOW])
    farm.running[thing] = -1
    expect_next(farm, builder)
    farm.running[thing] = job
    return slot


# --- the farm as a whole -------------------------------------------------------------------------


@njit(cache=True)
def code(farm, rank, builder, slot):
    """Return the order of entries of one instant: by rank, then builder, then slot."""
    return (rank << 48) + (farm.index[builder] << 16) + slot


@njit(cache=True)
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


@njit(cache=True)
def happened(farm, kind, what):
    """Count an event, and note it."""
    farm.counts[EVENTS] += 1
    farm.instants[LAST_EVENT] = farm.instants[NOW]
    note(farm, kind, what, farm.instants[NOW])


@njit(cache=True)
def note(farm, kind, what, at):
    """Write down an event or a command, if anybody wants to know."""
    place = farm.counts[NOTED]
    if place < len(farm.note_kind):
        farm.note_kind[place] = kind
        farm.note_what[place] = what
        farm.note_at[place] = at
        farm.counts[NOTED] = place + 1
