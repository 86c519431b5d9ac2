"""Jobs that end while they wait, as no builder runs them; compiled.

What ``farm.core.pools.unrunnable_jobs`` does.
"""

from __future__ import annotations

import numpy as np

from farm.core.pools.unrunnable_jobs import GIVEN_UP_AFTER
from farm.sim.fast.kernel.layout import CANCEL_END, END, ENDS_GIVEN_UP, ENDS_UNSERVED
from farm.sim.fast.kernel.noting import ask_alarm, note
from farm.sim.fast.kernel.queues import first, leave


def end_waiting(farm, number, how):
    """End a job that is no longer in its queue, or never was."""
    at, job, counts = farm.instants[0].now, farm.jobs[number], farm.counts[0]
    job.ended = how
    job.finished_at = at
    if not job.attempts:
        job.dispatched_at = np.nan
    farm.ended[counts.ended] = number
    counts.ended += 1
    counts.open -= 1
    note(farm, END if how == ENDS_UNSERVED else CANCEL_END, number, -1, 0, 0, at)


def is_blocked(farm, number):
    """Return whether a job is blocked."""
    if not len(farm.blocking):
        return False
    return farm.blocking[number].blocked


# --- platforms without builders ------------------------------------------------------------------


def watch_platforms(farm):
    """Fail the jobs of platforms without builders for too long; set alarms for the rest."""
    grace = farm.rules[0].platform_grace
    if grace < 0:
        return
    at = farm.instants[0].now
    for number in range(len(farm.lanes)):
        lane = farm.lanes[number]
        if not lane.waiting or has_builders(farm, number):
            lane.since = np.inf
            continue
        lane.since = min(lane.since, at)
        if at < lane.since + grace:
            ask_alarm(farm, lane.since + grace)
            continue
        lane.since = np.inf
        while lane.waiting:
            job = first(farm, number)
            leave(farm, number)
            end_waiting(farm, job, ENDS_UNSERVED)


def has_builders(farm, lane):
    """Return whether builders that stay may run the jobs of a lane, or boot for it."""
    for number in range(len(farm.pools)):
        pool_counts = farm.pool_counts[number]
        there = pool_counts.accepting + pool_counts.failed + pool_counts.requested
        if there and farm.serves[farm.pools[number].group, lane]:
            return True
    return False


# --- after the last arrival ----------------------------------------------------------------------


def give_up(farm):
    """End the jobs that no builder will ever run; False: there are some, and they may not end.

    Blocked jobs are none of these.
    """
    counts, instants = farm.counts[0], farm.instants[0]
    if not counts.arrivals_over:
        return True
    if counts.open == counts.blocked or counts.busy:
        instants.still_since = np.inf
        return True
    if instants.still_since == np.inf:
        instants.still_since = instants.now
    given_up_at = instants.still_since + GIVEN_UP_AFTER
    every = instants.now >= given_up_at
    ends = every
    if not (every or counts.booting or farm.rules[0].platform_grace >= 0):
        for lane in range(len(farm.lanes)):
            # with a joined builder that could run them they would not wait
            ends = ends or (farm.lanes[lane].waiting > 0 and not farm.lanes[lane].hopeful)
    if ends:
        if not counts.gives_up:
            return False
        end_hopeless(farm, every)
    if counts.open > counts.blocked:
        ask_alarm(farm, given_up_at)
    return True


def end_hopeless(farm, every):
    """End the jobs that wait where no builder will come, or all of them, as they were submitted."""
    for number in range(farm.batches[farm.counts[0].batch_next]):
        job = farm.jobs[number]
        if is_blocked(farm, number):
            continue
        if not job.ended and (every or not farm.lanes[job.lane].hopeful):
            end_waiting(farm, number, ENDS_GIVEN_UP)
    for number in range(len(farm.lanes)):
        lane = farm.lanes[number]
        if every or not lane.hopeful:
            farm.counts[0].waiting -= lane.waiting
            lane.waiting = 0
