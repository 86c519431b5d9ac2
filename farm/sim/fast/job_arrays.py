"""Jobs as arrays, in the order of their submission, with the order of their sort keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import astuple

from farm.core.model import Job, Platform
from farm.core.policies import KeyFunction, fifo, ljf, score, sjf
from farm.core.rules import Estimator
from farm.results.table.columns import Column, Floats, Numbers, coded, numbered
from farm.sim.fast.kernel import layout
from farm.sim.fast.kernel.heaps import Array
from farm.workload.alike import AlikeJobs

Jobs = Sequence[Job] | AlikeJobs
"""By arrival; those that are alike are held."""


_ARITHMETIC = (fifo.key, ljf.key, sjf.key, score.key)
"""Policies that take columns as well as numbers, where jobs are alike."""


class Load(msgspec.Struct, frozen=True):
    """The jobs under a policy: a run writes into its columns."""

    jobs: Jobs
    #: the run time that each job is queued with, seconds
    estimates: Floats
    #: whether each job's attempt fails
    fails: Array
    #: the lanes: every required platform
    platforms: Sequence[Platform]
    # for the kernel
    columns: Array
    in_order: Array
    #: the first job of each instant, and finally the number of jobs
    batches: Array

    def ids(self) -> list[str]:
        """Return the jobs' ids, in order."""
        return (
            self.jobs.ids() if isinstance(self.jobs, AlikeJobs) else [job.id for job in self.jobs]
        )

    def taken(self, column: Column[Any], rows: Numbers) -> Any:
        """Return a column that is a field of the jobs, for some of them."""
        field = column.source.removeprefix("job.")
        if not isinstance(self.jobs, AlikeJobs):
            return column.made(getattr(job, field) for job in self.jobs)[rows]
        if field in AlikeJobs.OWN:
            return column.made(self.jobs.values(field))[rows]
        return column.made([getattr(self.jobs[0], field)])[np.zeros_like(rows)]

    def job_values(self, begin: int, end: int) -> list[Iterable[Any]]:
        """Return the fields of some jobs as columns, in the order of the fields."""
        if isinstance(self.jobs, AlikeJobs):
            return self.jobs.columns(begin, end)
        return list(zip(*map(astuple, self.jobs[begin:end]), strict=True))


def load_of(policy: KeyFunction, estimator: Estimator, jobs: Jobs) -> Load:
    """Return the jobs as columns; the policy's key function is called once per job, in order."""
    alike = isinstance(jobs, AlikeJobs)
    # of identical jobs the first one stands for all
    samples = [jobs[0]] if alike else list(jobs)
    platform = coded([job.platform for job in samples])
    lane, lanes = numbered([one.normalised() for one in platform.values])
    made = np.zeros(len(jobs), layout.JOB)
    if isinstance(jobs, AlikeJobs):
        made["work"], made["submitted_at"] = jobs.held["service_time"], jobs.held["arrived_at"]
        # their declared times are the actual ones, and the estimators use both
        estimates = jobs.held["service_time"]
    else:
        made["work"] = [job.service_time for job in jobs]
        made["submitted_at"] = [job.arrived_at or 0.0 for job in jobs]
        estimates = np.array([estimator.estimate(job) for job in jobs], np.float64)
    made["heavy"] = [job.heavy for job in samples]
    made["memory_heavy"] = [job.memory_heavy for job in samples]
    made["lane"] = lane[platform.numbers]
    in_order = _order(policy, samples, estimates, made["submitted_at"])
    made["order"][in_order] = np.arange(len(jobs))
    begins = np.flatnonzero(np.diff(made["submitted_at"], prepend=-1.0))
    batches = np.append(begins, len(jobs)).astype(np.int32)
    fails = np.broadcast_to(np.array([job.fails for job in samples], np.bool_), len(jobs))
    return Load(jobs, estimates, fails, lanes, made, in_order, batches)


def _order(
    policy: KeyFunction, jobs: Sequence[Job], estimates: Floats, submitted_at: Floats
) -> Array:
    """Return the jobs in the order of their sort keys: (-level, the policy's key, serial).

    A key is constant and depends only on the job: so all are sorted now.
    """
    count = len(submitted_at)
    if not count:
        return np.arange(0, dtype=np.int32)
    parts: Any
    if len(jobs) == 1 and policy in _ARITHMETIC:
        columns: Any = estimates, submitted_at, 0
        parts = [policy(jobs[0], *columns)]
    else:
        each: Any = jobs if len(jobs) == count else repeat(jobs[0], count)
        made = zip(
            each, estimates.tolist(), submitted_at.tolist(), range(1, count + 1), strict=True
        )
        parts = np.array([policy(*one) for one in made], np.float64).reshape(count, -1).T
    levels = [-job.level for job in jobs]
    keys = [np.broadcast_to(part, count) for part in (levels, *parts)]
    changing = [key for key in keys if (key != key[0]).any()]
    if not changing:
        return np.arange(count, dtype=np.int32)
    return np.lexsort(changing[::-1]).astype(np.int32)
