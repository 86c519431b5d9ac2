"""How late a live farm's machine was: with taking jobs in, and with beginning and ending them.

A farm that runs many times as fast as real time leaves the machine milliseconds for each message.
Where it needs longer (other programs run, the speed is too high), jobs hold their slots for longer
than they take, and all waits grow. The farm's own clock shows it: what a job took beyond its
service time is the machine's, as long as nothing in the scenario slows jobs down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from farm.core.fields import json_name
from farm.results.table.job_columns import Jobs
from farm.scenario import Pool

MAX_SHARE: Final = 0.03
"""Lateness above this share of the jobs' service times is told before anything else."""


class Lateness(msgspec.Struct, frozen=True, rename=json_name):
    """How late the machine was, farm seconds for each job."""

    #: mean and longest time by which jobs held their slots beyond their service time, or were
    #: received after their arrival
    mean_time: float
    max_time: float
    #: mean ÷ mean service time
    share: float

    @property
    def matters(self) -> bool:
        """Whether the run's waits are the machine's rather than the farm's."""
        return self.share > MAX_SHARE


def lateness_of(jobs: Jobs, pools: Sequence[Pool]) -> Lateness | None:
    """Return how late the machine was with the jobs of a live run.

    None: a pool changes how long jobs take (speed, contention, pick-up time, a user's behaviour),
    or no job succeeded at its first attempt.
    """
    if any(_changes_times(pool) for pool in pools):
        return None
    is_measured = (
        jobs.outcome.where("succeeded") & (jobs.attempts == 1) & ~jobs.shared & (jobs.work > 0)
    )
    if not is_measured.any():
        return None
    work = jobs.work[is_measured]
    held = (jobs.finished_at - jobs.dispatched_at)[is_measured] - work
    received_late = (jobs.submitted_at - jobs.arrived_at)[is_measured]
    late = np.maximum(0.0, held) + np.maximum(0.0, received_late)
    mean_time = float(late.mean())
    return Lateness(mean_time, float(late.max()), mean_time / float(work.mean()))


def _changes_times(pool: Pool) -> bool:
    starts_late = pool.pickup_time or pool.switch_times
    return bool(pool.speed != 1.0 or pool.contention or starts_late or pool.behaviour is not None)
