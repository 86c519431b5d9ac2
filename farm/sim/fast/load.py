"""Jobs as arrays, in the order of their submission, with the order of their sort keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import msgspec
import numpy as np

from farm.core.estimator import Estimator
from farm.core.model import Job, Platform
from farm.core.policies import KeyFunction
from farm.sim.fast.kernel import layout
from farm.sim.fast.kernel.heaps import Array

Batches = Sequence[tuple[float, tuple[Job, ...]]]


class Load(msgspec.Struct, frozen=True):
    """What is submitted under a policy; farms of any kind may play it, again and again."""

    batches: Batches
    jobs: Sequence[Job]
    #: the run time that each job is queued with, seconds
    estimates: Sequence[float]
    #: the lanes: every platform that is asked for
    platforms: Sequence[Platform]
    # for the kernel
    columns: Array
    in_order: Array
    batch_columns: Array


def load_of(policy: KeyFunction, estimator: Estimator, batches: Batches) -> Load:
    """Return what is submitted as columns; a policy's key is asked for once a job, in order."""
    jobs = list(chain.from_iterable(together for _, together in batches))
    estimates = [estimator.estimate(job) for job in jobs]
    platforms = list({job.platform.normalised(): None for job in jobs})
    columns = _job_columns(jobs, platforms, batches)
    in_order = _order(policy, jobs, estimates, columns["submitted_at"])
    columns["order"][in_order] = np.arange(len(jobs))
    return Load(batches, jobs, estimates, platforms, columns, in_order, _batch_columns(batches))


def _job_columns(jobs: Sequence[Job], platforms: Sequence[Platform], batches: Batches) -> Array:
    made = np.zeros(len(jobs), layout.JOB)
    made["work"] = [job.service_time for job in jobs]
    made["heavy"] = [job.heavy for job in jobs]
    made["memory_heavy"] = [job.memory_heavy for job in jobs]
    made["submitted_at"] = np.repeat([at for at, _ in batches], [len(some) for _, some in batches])
    if len(platforms) > 1:
        numbers = {platform: number for number, platform in enumerate(platforms)}
        made["lane"] = [numbers[job.platform.normalised()] for job in jobs]
    return made


def _batch_columns(batches: Batches) -> Array:
    made = np.zeros(len(batches) + 1, layout.BATCH)
    made["at"][:-1] = [at for at, _ in batches]
    made["begin"][1:] = np.cumsum([len(together) for _, together in batches])
    return made


def _order(
    policy: KeyFunction, jobs: Sequence[Job], estimates: Sequence[float], submitted_at: Array
) -> Array:
    """Return the jobs in the order of their sort keys: (-level, the policy's key, serial).

    A key is constant, and whatever it is made of is known when the job is: so all are sorted now.
    """
    made = zip(jobs, estimates, submitted_at.tolist(), strict=True)
    keys = [policy(*one, serial) for serial, one in enumerate(made, 1)]
    parts: Array = np.array(keys, np.float64).reshape(len(jobs), -1)
    return np.lexsort((*parts.T[::-1], np.array([-job.level for job in jobs])))
