"""Sizing of pools: when a provisioner plans, its view of the pool, and the execution of its plan.

What ``farm.sim.provisioning`` and ``farm.core.pools.observer`` do, compiled. The algorithm itself
is called with the loop halted, or its formula is compiled (``kernel/algorithms.py``).
"""

from __future__ import annotations

import numpy as np

from farm.core.pools.spec import MAX_STARTS
from farm.sim.fast.kernel.algorithms import decide
from farm.sim.fast.kernel.giving_up import is_blocked
from farm.sim.fast.kernel.layout import PLANNED
from farm.sim.fast.kernel.lives import request, stop
from farm.sim.fast.kernel.noting import happened
from farm.sim.provisioning import first_tick


def look(farm, number):
    """Fill in a provisioner's view of its pool."""
    pool, seen = farm.pools[number], farm.looks[number]
    pool_counts = farm.pool_counts[number]
    seen.at = farm.instants[0].now
    seen.slots = pool.slots
    seen.waiting_jobs = 0
    for lane in range(len(farm.lanes)):
        if farm.serves[pool.group, lane]:
            seen.waiting_jobs += farm.lanes[lane].waiting
    never_taking = (
        pool_counts.builders - pool_counts.accepting - pool_counts.draining - pool_counts.stopping
    )
    seen.idle = pool_counts.idle_builders + never_taking
    seen.busy = pool_counts.accepting - pool_counts.idle_builders
    seen.booting = pool_counts.requested
    seen.draining = pool_counts.draining
    seen.stopping = pool_counts.stopping
    seen.running_jobs = pool_counts.running_jobs
    seen.draining_jobs = pool_counts.draining_jobs
    seen.cleaning_slots = pool_counts.cleaning_slots
    seen.joined = seen.idle + seen.busy
    seen.present = seen.joined + seen.booting
    seen.total = seen.present + seen.draining + seen.stopping
    taken = seen.running_jobs + seen.cleaning_slots
    seen.free_slots = max(0, seen.joined * seen.slots - taken)
    if farm.provisioners[number].closely:
        look_at_jobs(farm, number)


def look_at_jobs(farm, number):
    """Add estimates of work and time, by a pass over the jobs from the oldest open one on.

    ``farm.core.pools.observer`` adds up in the same order.
    """
    pool, seen, provisioner = farm.pools[number], farm.looks[number], farm.provisioners[number]
    seen.waiting_work = 0.0
    seen.next_slot_time = 0.0 if seen.free_slots else np.inf
    oldest_at, arrived = seen.at, farm.batches[farm.counts[0].batch_next]
    while provisioner.first_open < arrived and farm.jobs[provisioner.first_open].ended:
        provisioner.first_open += 1
    first = provisioner.first_open if seen.waiting_jobs or not seen.free_slots else arrived
    for place in range(first, arrived):
        job = farm.jobs[place]
        if job.ended or is_blocked(farm, place):
            continue
        estimate = farm.estimates[place] / pool.speed
        if job.attempts == job.losses + job.resets:  # every attempt before is void: it waits
            if farm.serves[pool.group, job.lane]:
                seen.waiting_work += estimate
                oldest_at = min(oldest_at, queued_at(farm, place))
        elif not seen.free_slots:
            builder = farm.builders[job.builder]
            if builder.pool == number and builder.accepts:
                began_at = job.dispatched_at
                if job.started:
                    began_at += pool.pickup_time
                left = max(0.0, began_at + estimate - seen.at)
                seen.next_slot_time = min(seen.next_slot_time, left)
    seen.oldest_wait_time = seen.at - oldest_at


def queued_at(farm, number):
    """Return when a job was first queued: at its release, or its submission."""
    if len(farm.blocking) and not np.isnan(farm.blocking[number].released_at):
        return farm.blocking[number].released_at
    return farm.jobs[number].submitted_at


def answer(farm, number):
    """Let the pool's formula plan."""
    given = farm.answers[number]
    decide(
        farm.provisioners[number].formula,
        farm.looks[number],
        farm.options[number],
        farm.memories[number],
        given,
        farm.samples,
        farm.numbers,
    )
    given.answered = True


def answer_stands(farm, number):
    """Return whether nothing that counts has changed since an answer that changed nothing.

    Otherwise it is asked, and what it is asked for is remembered.
    """
    provisioner, seen, given = farm.provisioners[number], farm.looks[number], farm.answers[number]
    leaving = seen.draining + seen.stopping
    same = (
        provisioner.ignores_jobs
        and seen.at < given.stays_until
        and seen.joined == provisioner.joined
        and seen.booting == provisioner.booting
        and leaving == provisioner.leaving
        and not given.start
        and not given.stop
    )
    provisioner.joined = seen.joined
    provisioner.booting = seen.booting
    provisioner.leaving = leaving
    return same


def ticked(farm, number):
    """Store a provisioner's answer; return whether it differs from the last one."""
    at, provisioner, given = farm.instants[0].now, farm.provisioners[number], farm.answers[number]
    farm.counts[0].resting -= provisioner.resting
    provisioner.resting = False
    given.answered = False
    provisioner.ticked_at = at
    next_tick = at + provisioner.interval
    if given.desired != provisioner.planned or given.start or given.stop:
        provisioner.planned = given.desired
        expect(farm, number, next_tick)
        return True
    if given.stays_until <= next_tick:
        expect(farm, number, next_tick)
        return False
    provisioner.resting = True
    farm.counts[0].resting += 1
    if given.stays_until < np.inf:
        expect(farm, number, first_tick(at, provisioner.interval, given.stays_until))
    else:
        expect(farm, number, np.inf)
    return False


def planned(farm, number):
    """Carry out a plan: the pool gets builders, or loses some."""
    given, seen, counts = farm.answers[number], farm.looks[number], farm.counts[0]
    happened(farm, PLANNED, counts.plans)
    if counts.plans < len(farm.plans):
        told = farm.plans[counts.plans]
        counts.plans += 1
        told.pool = number
        told.desired = given.desired
        told.requested = seen.booting + given.start
        told.running = seen.joined
        told.waiting = seen.waiting_jobs
        told.start = given.start
        told.stop = given.stop
    for _ in range(min(given.start, MAX_STARTS)):
        request(farm, number)
    stop(farm, number, given.stop)


def expect(farm, number, tick):
    """Schedule a provisioner's next tick; infinity: none."""
    farm.provisioners[number].next_at = tick
    choose_tick(farm)


def choose_tick(farm):
    """Find whose tick is next."""
    first, at, code = -1, np.inf, 0
    for number in range(len(farm.pools)):
        provisioner = farm.provisioners[number]
        later = provisioner.next_at == at and provisioner.code > code
        if provisioner.next_at < np.inf and provisioner.next_at <= at and not later:
            first, at, code = number, provisioner.next_at, provisioner.code
    farm.counts[0].next_tick = first


def tick_precedes(farm, number, at, place):
    """Return whether a provisioner's tick comes before what is at that place of the agenda."""
    provisioner = farm.provisioners[number]
    return provisioner.next_at < at or (provisioner.next_at == at and provisioner.code < place)


def wake(farm, at, code):
    """Handle an event at that place of the agenda: the first tick after it is no longer skipped."""
    if not farm.counts[0].resting:
        return
    for number in range(len(farm.pools)):
        provisioner = farm.provisioners[number]
        if provisioner.resting:
            tick = first_tick(provisioner.ticked_at, provisioner.interval, at)
            if tick == at and code > provisioner.code:
                tick += provisioner.interval  # at this instant the tick would have come before
            provisioner.next_at = tick
            provisioner.resting = False
    farm.counts[0].resting = 0
    choose_tick(farm)


def has_room(farm, starts):
    """Return whether there is room for this many more builders, and for an event's consequences."""
    counts = farm.counts[0]
    each = counts.slots_each + 4
    if counts.made + starts + 1 >= len(farm.builders) or counts.void + each >= len(farm.void):
        return False
    if not len(farm.notes):
        return True
    # an event may end every job that waits
    notes = counts.noted + counts.waiting + each * (counts.made + starts + 1) + starts + 8
    if len(farm.blocking):
        # or skip every blocked job, or let its delay run; also those of the next submission
        batch = min(counts.batch_next, len(farm.batches) - 2)
        notes += 2 * (counts.blocked + farm.batches[batch + 1] - farm.batches[batch])
    return notes < len(farm.notes) and counts.plans < len(farm.plans)
