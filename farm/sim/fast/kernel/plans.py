"""Sizing of pools: when a provisioner plans, its view of the pool, and the execution of its plan.

What ``farm.sim.provisioning`` and ``farm.core.pools.observer`` do, compiled. The algorithm itself
is called with the loop halted, or it is ``farm.upstream.taskcluster``, compiled.
"""

from __future__ import annotations

import numpy as np

from farm.core.pools.spec import MAX_STARTS
from farm.sim.fast.kernel.compiled import compiled, inlined
from farm.sim.fast.kernel.heaps import put, take_out
from farm.sim.fast.kernel.layout import PLANNED, TICKS
from farm.sim.fast.kernel.lives import request, stop
from farm.sim.fast.kernel.noting import happened
from farm.sim.provisioning import first_tick
from farm.upstream.taskcluster import plan

first_tick_after = compiled(first_tick)
estimate = compiled(plan)


@inlined
def look(farm, number):
    """Fill in a provisioner's view of its pool."""
    pool, seen = farm.pools[number], farm.looks[number]
    seen.waiting_jobs = 0
    for lane in range(len(farm.lanes)):
        if farm.serves[pool.group, lane]:
            seen.waiting_jobs += farm.lanes[lane].waiting
    never_taking = pool.builders - pool.accepting - pool.draining - pool.stopping
    seen.idle = pool.idle_builders + never_taking
    seen.busy = pool.accepting - pool.idle_builders
    seen.booting = pool.requested
    seen.draining = pool.draining
    seen.stopping = pool.stopping
    seen.running_jobs = pool.running_jobs
    seen.draining_jobs = pool.draining_jobs
    seen.cleaning_slots = pool.cleaning_slots
    seen.joined = seen.idle + seen.busy


@inlined
def answer(farm, number):
    """Let the compiled estimator plan, if the pool has it."""
    pool = farm.pools[number]
    pool.desired, pool.start, pool.stop, _ = estimate(
        farm.looks[number],
        pool.slots,
        pool.least,
        pool.most,
        pool.ratio,
        pool.terminate,
        pool.counted,
    )
    pool.stays_until = np.inf
    pool.answered = True


@inlined
def ticked(farm, number):
    """Store a provisioner's answer; return whether it differs from the last one."""
    at, pool = farm.instants[0].now, farm.pools[number]
    farm.counts[0].resting -= pool.resting
    pool.resting = False
    pool.answered = False
    pool.ticked_at = at
    next_tick = at + pool.interval
    if pool.desired != pool.planned or pool.start or pool.stop:
        pool.planned = pool.desired
        expect(farm, number, next_tick)
        return True
    if pool.stays_until <= next_tick:
        expect(farm, number, next_tick)
        return False
    pool.resting = True
    farm.counts[0].resting += 1
    if pool.stays_until < np.inf:
        expect(farm, number, first_tick_after(at, pool.interval, pool.stays_until))
    else:
        take_out(farm.agenda, 0, TICKS + number)
    return False


@compiled
def planned(farm, number):
    """Carry out a plan: the pool gets builders, or loses some."""
    pool, seen, counts = farm.pools[number], farm.looks[number], farm.counts[0]
    happened(farm, PLANNED, counts.plans)
    if counts.plans < len(farm.plans):
        told = farm.plans[counts.plans]
        counts.plans += 1
        told.pool = number
        told.desired = pool.desired
        told.requested = seen.booting + pool.start
        told.running = seen.joined
        told.waiting = seen.waiting_jobs
        told.start = pool.start
        told.stop = pool.stop
    for _ in range(min(pool.start, MAX_STARTS)):
        request(farm, number)
    stop(farm, number, pool.stop)


@inlined
def expect(farm, number, tick):
    """Schedule a provisioner's next tick."""
    put(farm.agenda, 0, TICKS + number, tick, farm.pools[number].code)


@inlined
def wake(farm, at, code):
    """Handle an event at that place of the agenda: the first tick after it is no longer skipped."""
    if not farm.counts[0].resting:
        return
    for number in range(len(farm.pools)):
        pool = farm.pools[number]
        if pool.resting:
            tick = first_tick_after(pool.ticked_at, pool.interval, at)
            if tick == at and code > pool.code:
                tick += pool.interval  # at this instant the tick would have come before
            expect(farm, number, tick)
            pool.resting = False
    farm.counts[0].resting = 0


@inlined
def has_room(farm, starts):
    """Return whether there is room for this many more builders, and for an event's consequences."""
    made, most = farm.counts[0].made + starts + 1, len(farm.builders)
    each = farm.counts[0].slots_each + 4
    notes = len(farm.notes)
    return (
        made < most
        and farm.counts[0].void + each < len(farm.void)
        and (not notes or farm.counts[0].noted + each * made + starts + 8 < notes)
        and (not notes or farm.counts[0].plans < len(farm.plans))
    )
