"""Failed attempts that are judged: ``farm.core.jobs.requeueing``, compiled."""

from __future__ import annotations

import numpy as np

from farm.core.jobs.failure_judgement import FAILS, OUT_OF_SERVICE, verdict
from farm.sim.fast.kernel.contention import first_slot
from farm.sim.fast.kernel.dispatching import fill, take_no_more, wait
from farm.sim.fast.kernel.holding import ask_for, pass_over
from farm.sim.fast.kernel.layout import END, ENDS_BLAMED, JUDGED, REQUEUED
from farm.sim.fast.kernel.lives import void
from farm.sim.fast.kernel.noting import happened, note


def judged(farm, builder, slot, number):
    """Blame the builder or the job for a failed attempt: the job is reset, or ends."""
    at, job, counts = farm.instants[0].now, farm.jobs[number], farm.counts[0]
    state = farm.builders[builder]
    happened(farm, JUDGED, number, builder, 0, job.attempts)
    # it is over, though the slot is taken until others have had a chance to take the job
    farm.slots[first_slot(farm, builder) + slot].ends_at_work = np.inf
    job.failures += 1
    state.failures += 1
    failures = state.failures
    of_builder, of_job, state.failures = verdict(
        failures, job.failures, False, False, job.resets, farm.rules[0].max_resets
    )
    if of_builder == OUT_OF_SERVICE:
        pool_counts = farm.pool_counts[state.pool]
        pool_counts.failed += not (state.draining or state.failed)
        take_no_more(farm, builder)
        state.failed = True
    if of_job == FAILS:
        job.ended = ENDS_BLAMED
        job.finished_at = at
        farm.ended[counts.ended] = number
        counts.ended += 1
        counts.open -= 1
        note(farm, END, number, -1, failures, 0, at, job.failures)
        return
    job.resets += 1
    void(farm, number, True)
    note(farm, REQUEUED, number, builder, failures, job.attempts, at, job.failures)
    wait(farm, number)
    # before its old slot is free again: another builder is a better test
    farm.lanes[job.lane].passed_over = False
    fill(farm)
    ask_for(farm, job.lane)
    pass_over(farm)
