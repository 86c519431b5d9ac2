"""The lives of builders: ``farm.core.pools`` and ``farm.emulation``, compiled."""

from __future__ import annotations

import numpy as np

from farm.emulation.agenda import LIFE
from farm.sim.fast.kernel.contention import (
    code,
    first_slot,
    own_thing,
    rate_here,
    slot_thing,
)
from farm.sim.fast.kernel.dispatching import (
    fill,
    first_timer,
    open_slot,
    take_no_more,
    wait,
    watch_idleness,
)
from farm.sim.fast.kernel.heaps import put, take_out
from farm.sim.fast.kernel.holding import ask_for, pass_over
from farm.sim.fast.kernel.layout import (
    AS_PLANNED,
    DRAINED,
    END,
    ENDS_LOST,
    ENDS_POISONOUS,
    HAS_RETIRED,
    IS_LOST,
    JOINED,
    LOSE,
    LOST,
    REQUESTED,
    REQUEUED,
    RETIRE,
    RETIRED,
)
from farm.sim.fast.kernel.noting import ask_alarm, happened, note, soon


def request(farm, number):
    """Request a pool's next builder: it boots."""
    at, pool = farm.instants[0].now, farm.pools[number]
    pool_counts = farm.pool_counts[number]
    builder = farm.counts[0].made
    farm.counts[0].made += 1
    pool_counts.made += 1
    pool_counts.requested += 1
    farm.counts[0].booting += 1
    fate, state = farm.fates[number, pool_counts.made], farm.builders[builder]
    state.pool = number
    state.number = pool_counts.made
    state.requested_at = at
    state.takes_jobs = fate.takes_jobs
    state.lifetime = fate.lifetime
    state.timed = np.isnan(pool.idle_timeout)
    note(farm, REQUESTED, builder, -1, 0, 0, at)
    joins_at = at + (pool.boot_time + fate.boot_delay)
    put(farm.agenda, 0, own_thing(farm, builder), joins_at, code(LIFE, builder, 0))


def joined(farm, builder):
    """Handle that a builder joined: each of its slots is offered."""
    happened(farm, JOINED, builder)
    at, state = farm.instants[0].now, farm.builders[builder]
    pool = farm.pools[state.pool]
    pool_counts = farm.pool_counts[state.pool]
    farm.counts[0].booting -= 1
    pool_counts.requested -= 1
    pool_counts.builders += 1
    state.joined_at = at
    state.active_at = at
    if not np.isnan(state.lifetime):
        over_at = at + state.lifetime
        put(farm.agenda, 0, own_thing(farm, builder) + 1, over_at, code(LIFE, builder, -1))
    if pool.law >= 0:
        state.clock_rate = rate_here(farm, builder)
    if state.takes_jobs:
        state.accepts = True
        pool_counts.accepting += 1
        pool_counts.idle_builders += 1
        for slot in range(pool.slots):
            if state.accepts:
                open_slot(farm, builder, slot)
    watch_idleness(farm, builder)


def drain(farm, builder):
    """Drain a builder: it finishes its jobs, accepts no more, and then retires."""
    take_no_more(farm, builder)
    farm.builders[builder].draining = True
    retire_if_empty(farm, builder)


def retire_if_empty(farm, builder):
    """Shut a draining builder down once it is empty."""
    state = farm.builders[builder]
    if not state.draining or state.busy or state.retired:
        return
    at, pool = farm.instants[0].now, farm.pools[state.pool]
    pool_counts = farm.pool_counts[state.pool]
    state.retired = True
    pool_counts.draining -= 1
    pool_counts.stopping += 1
    note(farm, RETIRE, builder, -1, 0, 0, at)
    if not state.vanished:
        gone_at = at + pool.shutdown_time
        put(farm.agenda, 0, own_thing(farm, builder), gone_at, code(LIFE, builder, 0))


def job_over(farm, builder):
    """Count that a builder runs one job fewer."""
    state = farm.builders[builder]
    pool_counts = farm.pool_counts[state.pool]
    if state.accepts:
        pool_counts.running_jobs -= 1
    else:
        pool_counts.draining_jobs -= 1


def count_cleaning(farm, builder, change):
    """Count that a builder cleans one slot more, or one fewer."""
    state = farm.builders[builder]
    state.cleaning += change
    if state.accepts:
        farm.pool_counts[state.pool].cleaning_slots += change


def slot_ready(farm, builder, slot):
    """Handle that a busy slot is free again."""
    state = farm.builders[builder]
    pool_counts = farm.pool_counts[state.pool]
    farm.slots[first_slot(farm, builder) + slot].job = -1
    state.busy -= 1
    farm.counts[0].busy -= 1
    state.active_at = farm.instants[0].now
    if state.accepts:
        pool_counts.idle_builders += state.busy == 0
        open_slot(farm, builder, slot)
        watch_idleness(farm, builder)
    else:
        retire_if_empty(farm, builder)


def lose(farm, builder, reason):
    """Lose a builder with its jobs; the scheduler learns of it next."""
    state, own = farm.builders[builder], own_thing(farm, builder)
    state.vanished = True
    state.reason = reason
    for slot in range(farm.pools[state.pool].slots):
        take_out(farm.agenda, 0, slot_thing(farm, builder, slot))
    take_out(farm.agenda, 0, own)
    take_out(farm.agenda, 0, own + 1)
    soon(farm, LOST, builder)


def gone(farm, builder, kind):
    """Remove a builder; its jobs return to their places in the queue, or fail."""
    happened(farm, kind, builder)
    at, state = farm.instants[0].now, farm.builders[builder]
    pool = farm.pools[state.pool]
    pool_counts = farm.pool_counts[state.pool]
    state.gone_at = at
    state.end = HAS_RETIRED if kind == RETIRED else IS_LOST
    take_out(farm.agenda, 0, own_thing(farm, builder) + 1)
    take_out(farm.free, pool.group, builder)
    pool_counts.builders -= 1
    farm.counts[0].busy -= state.busy
    if state.accepts:
        pool_counts.running_jobs -= state.busy - state.cleaning
        pool_counts.cleaning_slots -= state.cleaning
        pool_counts.accepting -= 1
        pool_counts.idle_builders -= state.busy == 0
    elif state.retired:
        pool_counts.stopping -= 1
    elif state.draining or state.failed:
        pool_counts.draining -= 1
        pool_counts.failed -= not state.draining
        pool_counts.draining_jobs -= state.busy - state.cleaning
    first = first_slot(farm, builder)
    for slot in range(pool.slots):
        if farm.slots[first + slot].job >= 0:
            number = farm.slots[first + slot].job
            give_back(farm, number, builder)
            if not farm.jobs[number].ended:
                farm.lanes[farm.jobs[number].lane].passed_over = False
    fill(farm)
    for slot in range(pool.slots):
        number = farm.slots[first + slot].job
        if number >= 0 and not farm.jobs[number].ended:
            ask_for(farm, farm.jobs[number].lane)
    pass_over(farm)
    if not pool.provisioned and pool.kept_at > pool_counts.builders + pool_counts.requested:
        request(farm, state.pool)


def void(farm, number, failed):
    """Record a job's attempt that does not end it."""
    job, counts = farm.jobs[number], farm.counts[0]
    attempt = farm.void[counts.void]
    counts.void += 1
    attempt.job = number
    attempt.builder = job.builder
    attempt.dispatched_at = job.dispatched_at
    attempt.ended_at = farm.instants[0].now
    attempt.failed = failed


def give_back(farm, number, builder):
    """Requeue the job of a lost builder, or end it (``farm.core.jobs.requeueing``)."""
    at, job, counts = farm.instants[0].now, farm.jobs[number], farm.counts[0]
    job.losses += 1
    poisonous = 0 < farm.rules[0].max_lost <= job.losses
    if not poisonous and job.losses <= farm.rules[0].retries:
        void(farm, number, False)
        note(farm, REQUEUED, number, builder, 0, job.attempts, at)
        wait(farm, number)
        return
    job.ended = ENDS_POISONOUS if poisonous else ENDS_LOST
    job.finished_at = at
    farm.ended[counts.ended] = number
    counts.ended += 1
    counts.open -= 1
    note(farm, END, number, -1, 0, 0, at)


# --- alarms ----------------------------------------------------------------------------------


def time_outs(farm):
    """Retire builders that were idle for too long; request an alarm for the next ones."""
    at = farm.instants[0].now
    while first_timer(farm) <= at:
        builder = farm.timers.entries[0].thing
        take_out(farm.timers, 0, builder)
        drain(farm, builder)
    if farm.timers.heaps[0].count:
        ask_alarm(farm, farm.timers.entries[0].first)


def lose_as_planned(farm):
    """Lose the builders whose instant has come (``farm.core.pools.planned_losses``)."""
    at, counts = farm.instants[0].now, farm.counts[0]
    while counts.losses < len(farm.losses) and farm.losses[counts.losses].at <= at:
        longest = -1
        for builder in range(first_alive(farm), counts.made):
            state = farm.builders[builder]
            if (
                state.pool == farm.losses[counts.losses].pool
                and not np.isnan(state.joined_at)
                and not state.end
                and not state.vanished
                and (longest < 0 or state.joined_at < farm.builders[longest].joined_at)
            ):
                longest = builder
        counts.losses += 1
        if longest >= 0:
            note(farm, LOSE, longest, -1, 0, 0, at)
            lose(farm, longest, AS_PLANNED)
    if counts.losses < len(farm.losses):
        ask_alarm(farm, farm.losses[counts.losses].at)


def stop(farm, number, count):
    """Drain this many of a pool's builders (``farm.core.pools.builder_book``)."""
    for _ in range(count):
        best = -1
        for builder in range(first_alive(farm), farm.counts[0].made):
            state = farm.builders[builder]
            here = state.pool == number and state.accepts and not state.end
            if here and (best < 0 or goes_before(state, farm.builders[best])):
                best = builder
        if best < 0:
            return
        if farm.builders[best].busy:
            note(farm, DRAINED, best, -1, 0, 0, farm.instants[0].now)
        drain(farm, best)


def first_alive(farm):
    """Return the first builder that has not ended, or one before it."""
    counts = farm.counts[0]
    while counts.first_alive < counts.made and farm.builders[counts.first_alive].end:
        counts.first_alive += 1
    return counts.first_alive


def goes_before(state, other):
    """Return whether a builder is stopped before an older one."""
    if state.busy != other.busy:
        return state.busy < other.busy
    return state.active_at <= other.active_at
