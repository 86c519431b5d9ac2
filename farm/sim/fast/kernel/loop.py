"""The compiled loop: what ``driver``, ``Scheduler`` and ``SimulatedWorld`` do, on arrays.

It takes the steps of ``farm.core.scheduler`` in the same order, and has the order of simultaneous
events of ``farm.emulation.agenda``. A policy is a number for each job (its place in the order of
all keys), a law a table, a provisioner's plan an answer that the loop halts for. If the two differ,
this is wrong.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from farm.core.simultaneity import latest_same
from farm.emulation.agenda import ARRIVAL, LIFE
from farm.sim.fast.kernel.contention import code, first_slot, next_due, slot_thing
from farm.sim.fast.kernel.dispatching import fill, held_back, wait, work_on
from farm.sim.fast.kernel.giving_up import give_up, watch_platforms
from farm.sim.fast.kernel.heaps import Array, gather, put, take_out
from farm.sim.fast.kernel.holding import ask_for, pass_over, sent
from farm.sim.fast.kernel.judging import judged
from farm.sim.fast.kernel.layout import (
    ALARM_THING,
    ARRIVALS_ENDED,
    ASKS,
    BY_LIFETIME,
    CLEANED,
    CLEANING,
    END,
    ENDS_WELL,
    FINISHED,
    FULL,
    HOPELESS,
    JOB,
    LIVES,
    LOST,
    NO_LOAD,
    NOTHING,
    PLAYED,
    RANG,
    READS_ON,
    RETIRED,
    STARTED,
    SUBMITTED,
    TICK,
    Farm,
)
from farm.sim.fast.kernel.lives import (
    count_cleaning,
    gone,
    job_over,
    joined,
    lose,
    lose_as_planned,
    request,
    slot_ready,
    time_outs,
)
from farm.sim.fast.kernel.needs import (
    arrives,
    block,
    follow_ends,
    needs_others,
    release_due,
)
from farm.sim.fast.kernel.noting import alarm_rang, happened, note, soon
from farm.sim.fast.kernel.plans import (
    answer,
    answer_stands,
    expect,
    has_room,
    look,
    planned,
    tick_precedes,
    ticked,
    wake,
)


def play(farm: Farm):
    """Run to the end or a halt; return why it stopped."""
    counts, instants, agenda = farm.counts[0], farm.instants[0], farm.agenda
    batches = len(farm.batches) - 1
    if not counts.begun:
        counts.begun = 1
        opened(farm)
    while True:
        if not follow(farm):
            return HOPELESS
        if not has_room(farm, 0):
            return FULL
        thing, at, place = NOTHING, np.inf, 0
        if agenda.heaps[0].count:
            entry = agenda.entries[0]
            thing, at, place = entry.thing, entry.first, entry.second
        number = counts.next_tick
        if number >= 0 and tick_precedes(farm, number, at, place):
            thing = TICK
            at, place = farm.provisioners[number].next_at, farm.provisioners[number].code
        batch = counts.batch_next
        if batch == batches and counts.more:
            return READS_ON
        if batch < batches and farm.jobs[farm.batches[batch]].submitted_at < at:
            if thing != NOTHING and gathered(farm, farm.jobs[farm.batches[batch]].submitted_at):
                continue
            instants.now = farm.jobs[farm.batches[batch]].submitted_at
            wake(farm, instants.now, ARRIVAL << 48)
            submitted(farm, batch)
            watch_platforms(farm)
            settle(farm)
            continue
        if thing == NOTHING or (
            batch == batches and counts.open == 0 and at > farm.rules[0].ends_at
        ):
            return PLAYED
        if place < LIFE << 48 and at != instants.gathered_at and gathered(farm, at):
            continue
        instants.now = at
        if thing == TICK:
            provisioner = farm.provisioners[number]
            given = farm.answers[number]
            if not given.answered:
                look(farm, number)
                if provisioner.formula:
                    answer(farm, number)
                elif not answer_stands(farm, number):
                    counts.asked = number
                    return ASKS
            if not has_room(farm, given.start):
                return FULL
            if ticked(farm, number):
                wake(farm, at, place)
                planned(farm, number)
                watch_platforms(farm)
                if not give_up(farm):
                    return HOPELESS
                settle(farm)
            continue
        take_out(agenda, 0, thing)
        wake(farm, at, place)
        happens(farm, thing)
        if not give_up(farm):
            return HOPELESS
        settle(farm)


def settle(farm):
    """Release and skip jobs that needed those which have ended, until nothing changes."""
    if not len(farm.blocking):
        return
    counts = farm.counts[0]
    follow_ends(farm)
    while counts.changed:
        counts.changed = False
        give_up(farm)
        watch_platforms(farm)
        follow_ends(farm)


def gathered(farm, at):
    """Move the ends of jobs that are simultaneous to this instant; return whether any was moved."""
    farm.instants[0].gathered_at = at
    return gather(farm.agenda, at, latest_same(at), LIFE << 48)


def opened(farm):
    """Open the farm: pools get their initial builders, and provisioners their first ticks."""
    farm.counts[0].events = 1
    for number in range(len(farm.pools)):
        for _ in range(farm.pools[number].kept_at):
            request(farm, number)
    lose_as_planned(farm)
    for number in range(len(farm.pools)):
        if farm.pools[number].provisioned:
            expect(farm, number, farm.provisioners[number].first_plan_at)
    if len(farm.batches) == 1:
        soon(farm, ARRIVALS_ENDED, 0)


def follow(farm):
    """Handle everything that follows at this instant; False: the remaining jobs can never run."""
    counts = farm.counts[0]
    while counts.soon_first < counts.soon_last:
        event = farm.soon[counts.soon_first]
        counts.soon_first += 1
        if event.kind == STARTED:
            reported(farm, STARTED, event.what)
            continue
        if event.kind == ARRIVALS_ENDED:
            counts.arrivals_over = 1
            happened(farm, ARRIVALS_ENDED, 0)
        else:
            gone(farm, event.what, LOST)
            watch_platforms(farm)
        if not give_up(farm):
            return False
        settle(farm)
    counts.soon_first = 0
    counts.soon_last = 0
    return True


def happens(farm, thing):
    """Handle the agenda's next entry: an alarm, or an event of a builder."""
    if thing == ALARM_THING:
        happened(farm, RANG, 0)
        alarm_rang(farm)
        release_due(farm)
        held_back(farm)
        time_outs(farm)
        lose_as_planned(farm)
        watch_platforms(farm)
        return
    each, place = farm.counts[0].slots_each, thing - LIVES
    builder, slot = place // (each + 2), place % (each + 2)
    state = farm.builders[builder]
    if slot == each + 1:
        lose(farm, builder, BY_LIFETIME)
    elif slot == each:
        if np.isnan(state.joined_at):
            joined(farm, builder)
            watch_platforms(farm)
        elif state.retired:
            gone(farm, builder, RETIRED)
            watch_platforms(farm)
        else:
            finished(farm, builder, next_due(farm, builder))
    elif farm.slots[first_slot(farm, builder) + slot].job == CLEANING:
        happened(farm, CLEANED, builder, -1, slot)
        count_cleaning(farm, builder, -1)
        slot_ready(farm, builder, slot)
    else:
        number = farm.slots[first_slot(farm, builder) + slot].job
        if farm.jobs[number].started:
            finished(farm, builder, slot)
        else:
            reported(farm, STARTED, number)
            work_on(farm, builder, slot, number)


def submitted(farm, batch):
    """Jobs arrive: all of them wait, then the best one that has a builder goes, repeatedly."""
    happened(farm, SUBMITTED, batch)
    farm.counts[0].batch_next = batch + 1
    if batch + 2 == len(farm.batches) and not farm.counts[0].more:
        soon(farm, ARRIVALS_ENDED, 0)
    begin, end = farm.batches[batch], farm.batches[batch + 1]
    farm.counts[0].open += end - begin
    if len(farm.blocking):
        block(farm, begin, end)
    if farm.rules[0].load != NO_LOAD:
        submitted_by_weight(farm, begin, end)
        return
    for job in range(begin, end):
        if arrives(farm, job):
            wait(farm, job)
    fill(farm)


def submitted_by_weight(farm, begin, end):
    """Let jobs arrive of which the heavy ones may be held back."""
    # one that arrives alone has no builder if others of its lane have none
    looks = end - begin > 1 or not farm.lanes[farm.jobs[begin].lane].waiting
    looks = looks or needs_others(farm, begin)
    for job in range(begin, end):
        if arrives(farm, job):
            wait(farm, job)
            farm.lanes[farm.jobs[job].lane].passed_over = False
    if looks:
        fill(farm)
    for job in range(begin, end):
        if not farm.lanes[farm.jobs[job].lane].passed_over:
            ask_for(farm, farm.jobs[job].lane)
    pass_over(farm)


def reported(farm, kind, number):
    """Handle a builder's report of its attempt."""
    job = farm.jobs[number]
    happened(farm, kind, number, job.builder, 0, job.attempts)


def finished(farm, builder, slot):
    """Handle the end of an attempt, and of its job unless its failure is judged."""
    at, counts, state = farm.instants[0].now, farm.counts[0], farm.builders[builder]
    number = farm.slots[first_slot(farm, builder) + slot].job
    job = farm.jobs[number]
    if farm.rules[0].max_resets >= 0 and farm.fails[number]:
        judged(farm, builder, slot, number)
        follow_ends(farm)
        attempt_over(farm, builder, slot)
        return
    state.failures = 0
    reported(farm, FINISHED, number)
    job.finished_at = at
    job.ended = ENDS_WELL
    farm.ended[counts.ended] = number
    counts.ended += 1
    counts.open -= 1
    note(farm, END, number, -1, 0, 0, at)
    if counts.blocked:
        # a job that is released now may be the best for the slot, which is taken until then
        farm.slots[first_slot(farm, builder) + slot].ends_at_work = np.inf
        follow_ends(farm)
    attempt_over(farm, builder, slot)


def attempt_over(farm, builder, slot):
    """Reuse the slot of an ended attempt, cleaned first if its builder cleans."""
    at, pool = farm.instants[0].now, farm.pools[farm.builders[builder].pool]
    job_over(farm, builder)
    sent(farm, builder, farm.slots[first_slot(farm, builder) + slot].job, -1)
    if pool.inter_job_time > 0:
        farm.slots[first_slot(farm, builder) + slot].job = CLEANING
        count_cleaning(farm, builder, 1)
        thing = slot_thing(farm, builder, slot)
        put(farm.agenda, 0, thing, at + pool.inter_job_time, code(LIFE, builder, slot))
    else:
        slot_ready(farm, builder, slot)
    if farm.rules[0].load != NO_LOAD:
        admit(farm, pool.group)


def admit(farm, group):
    """Look for builders for the heavy jobs that a builder of this group may have room for now."""
    for lane in range(len(farm.lanes)):
        state = farm.lanes[lane]
        state.passed_over = not (state.heavy and state.waiting and farm.serves[group, lane])
    fill(farm)
    for lane in range(len(farm.lanes)):
        if not farm.lanes[lane].passed_over:
            ask_for(farm, lane)
    pass_over(farm)


def play_each(
    farm: Farm,
    fresh: Farm,
    columns: Annotated[Array, JOB, 2],
    orders: Annotated[Array, np.int32, 2],
    ends: Annotated[Array, np.float64, 2],
):
    """Run each load on a fresh farm, and record when its jobs end; return the results."""
    for number in range(len(columns)):
        copy(farm.pool_counts, fresh.pool_counts)
        copy(farm.builders, fresh.builders)
        copy(farm.slots, fresh.slots)
        copy(farm.lanes, fresh.lanes)
        copy(farm.counts, fresh.counts)
        copy(farm.instants, fresh.instants)
        for heap, empty in ((farm.free, fresh.free), (farm.agenda, fresh.agenda)):
            copy(heap.heaps, empty.heaps)
            copy(heap.places, empty.places)
        copy(farm.jobs, columns[number])
        copy(farm.in_order, orders[number])
        halt = play(farm)
        if halt != PLAYED:
            return halt
        for job in range(len(farm.jobs)):
            ends[number, job] = farm.jobs[job].finished_at
    return PLAYED


def copy(to, source):
    """Copy the content of one array into another (a slice would be copied twice)."""
    for place in range(len(to)):
        to[place] = source[place]
