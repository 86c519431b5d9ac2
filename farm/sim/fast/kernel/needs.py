"""Jobs that need others: ``farm.core.jobs.blocking``, compiled. The rule is in ``needs.py`` there.

A job that ends meets or breaks needs of others, which are told of it in rounds: a job that is
skipped then ends in the next round. Each of those that were told is skipped or released, or waits
on, in the order of submission.
"""

from __future__ import annotations

from farm.sim.fast.kernel.dispatching import fill, wait
from farm.sim.fast.kernel.giving_up import end_waiting
from farm.sim.fast.kernel.heaps import pop, push, put, take_out
from farm.sim.fast.kernel.holding import ask_for, pass_over
from farm.sim.fast.kernel.layout import (
    ENDS_GIVEN_UP,
    ENDS_SKIPPED,
    ENDS_WELL,
    MET_BY_END,
    MET_BY_FAILURE,
    MET_BY_SUCCESS,
)
from farm.sim.fast.kernel.noting import ask_alarm


def arrives(farm, number):
    """Return whether a job of the present submission is queued at once."""
    if not len(farm.blocking):
        return True
    return not (farm.blocking[number].blocked or farm.jobs[number].ended)


def needs_others(farm, number):
    """Return whether a job has needs."""
    if not len(farm.blocking):
        return False
    return farm.blocking[number].needs < farm.blocking[number + 1].needs


# --- submission ----------------------------------------------------------------------------------


def block(farm, begin, end):
    """Block those jobs of a submission that need others, unless their needs are met."""
    at, counts = farm.instants[0].now, farm.counts[0]
    if not counts.blocked:
        counts.followed = counts.ended
    for number in range(begin, end):
        take_place(farm, number, number + 1 + counts.releases, at)
        if needs_others(farm, number):
            farm.blocking[number].blocked = True
            counts.blocked += 1
            look_back(farm, number)
    for number in range(begin, end):
        if farm.blocking[number].blocked and decided(farm, number):
            farm.blocking[number].released_at = at
            unblock(farm, number)


def look_back(farm, number):
    """Note which jobs that a new one needs have ended, and how."""
    state = farm.blocking[number]
    for place in range(state.needs, farm.blocking[number + 1].needs):
        need = farm.needs[place]
        need.was_over = outcome(farm, need.job) >= 0
        if need.was_over:
            tell(farm, place)
        else:
            state.left += 1
            state.failures_left += need.condition == MET_BY_FAILURE


def take_place(farm, number, place, at):
    """Give a job its place in line, and the part of its key that hangs on the instant."""
    state = farm.blocking[number]
    state.place = place
    state.own = farm.rules[0].ageing * at + state.unaged


# --- ends ----------------------------------------------------------------------------------------


def outcome(farm, number):
    """Return which condition the end of a job meets, apart from that it ended; -1: it has not."""
    if number < 0:
        return MET_BY_END
    how = farm.jobs[number].ended
    if how == 0:
        return -1
    if how == ENDS_WELL and not farm.fails[number]:
        return MET_BY_SUCCESS
    return MET_BY_END if how >= ENDS_GIVEN_UP else MET_BY_FAILURE


def tell(farm, place):
    """Tell a job that one has ended which it needs."""
    need = farm.needs[place]
    state, ended = farm.blocking[need.of], outcome(farm, need.job)
    if need.condition == MET_BY_FAILURE:
        state.failure_met = state.failure_met or ended == MET_BY_FAILURE
    is_broken = need.condition == MET_BY_SUCCESS and ended != MET_BY_SUCCESS
    if is_broken and (state.broken < 0 or place < state.broken):
        state.broken = place


def follow_ends(farm):
    """Release and skip the jobs that needed those which have ended."""
    counts = farm.counts[0]
    if not counts.blocked:
        return
    while counts.followed < counts.ended:
        until, told = counts.ended, 0
        for place in range(counts.followed, until):
            told = spread(farm, farm.ended[place], told)
        counts.followed = until
        while told:
            number = farm.news[0]
            pop(farm.news, 0, told)
            told -= 1
            farm.blocking[number].has_news = False
            if decided(farm, number):
                release(farm, number)
    fill_released(farm)


def spread(farm, ended, told):
    """Tell the blocked jobs that need one which has ended; return how many were told by now."""
    for place in range(farm.blocking[ended].dependents, farm.blocking[ended + 1].dependents):
        need = farm.needs[farm.dependents[place]]
        state = farm.blocking[need.of]
        if not state.blocked:
            continue
        state.left -= 1
        state.failures_left -= need.condition == MET_BY_FAILURE
        tell(farm, farm.dependents[place])
        if not state.has_news:
            state.has_news = True
            push(farm.news, 0, told, need.of)
            told += 1
    return told


def decided(farm, number):
    """Skip a blocked job, or let its delay run; return whether it is to be released now."""
    at, state = farm.instants[0].now, farm.blocking[number]
    never_fails = state.awaits_failure and not (state.failure_met or state.failures_left)
    if state.broken >= 0 or never_fails:
        unblock(farm, number)
        end_waiting(farm, number, ENDS_SKIPPED)
        return False
    if state.left:
        return False
    released_at = at + state.delay
    if released_at <= at:
        return True
    put(farm.due, 0, number, released_at, number)
    ask_alarm(farm, released_at)
    return False


def unblock(farm, number):
    """Note that a job is blocked no more."""
    farm.blocking[number].blocked = False
    farm.counts[0].blocked -= 1
    farm.counts[0].changed = True


# --- release -------------------------------------------------------------------------------------


def release(farm, number):
    """Queue a job that was blocked, behind all that arrived before."""
    at, counts = farm.instants[0].now, farm.counts[0]
    farm.blocking[number].released_at = at
    counts.releases += 1
    take_place(farm, number, farm.batches[counts.batch_next] + counts.releases, at)
    unblock(farm, number)
    wait(farm, number)
    lane = farm.lanes[farm.jobs[number].lane]
    if not lane.released:
        counts.released_lanes += 1
        lane.released = counts.released_lanes


def release_due(farm):
    """Release the jobs whose delay is over; set an alarm for the next one."""
    due, at = farm.due, farm.instants[0].now
    if not due.heaps[0].count:
        return
    while due.heaps[0].count and due.entries[0].first <= at:
        number = due.entries[0].thing
        take_out(due, 0, number)
        release(farm, number)
    if due.heaps[0].count:
        ask_alarm(farm, due.entries[0].first)
    fill_released(farm)


def fill_released(farm):
    """Look for builders for the lanes into which jobs were released, and for them alone."""
    counts = farm.counts[0]
    if not counts.released_lanes:
        return
    for lane in range(len(farm.lanes)):
        farm.lanes[lane].passed_over = not farm.lanes[lane].released
    fill(farm)
    for turn in range(1, counts.released_lanes + 1):
        for lane in range(len(farm.lanes)):
            if farm.lanes[lane].released == turn:
                ask_for(farm, lane)
    for lane in range(len(farm.lanes)):
        farm.lanes[lane].released = 0
    counts.released_lanes = 0
    pass_over(farm)
