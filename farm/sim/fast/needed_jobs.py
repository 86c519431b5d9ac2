"""The needs of jobs as arrays: each job's, and for each job the needs of others that it meets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from farm.columns import Floats, Numbers
from farm.core.jobs.needs import Condition, need_of
from farm.core.model import Job
from farm.sim.fast.kernel import layout
from farm.sim.fast.kernel.heaps import Array
from farm.workload.blocks import JobColumns

_CONDITIONS: Mapping[Condition, int] = {
    "succeeded": layout.MET_BY_SUCCESS,
    "ended": layout.MET_BY_END,
    "failed": layout.MET_BY_FAILURE,
}


class Needs(msgspec.Struct):
    """The needs of the jobs of a load, and what follows from them; a run writes into the arrays."""

    needs: Array
    blocking: Array
    dependents: Array
    #: what a second of waiting adds to the policy's part of a sort key
    ageing: float = 0.0

    def copy(self) -> Needs:
        """Return the same, for another run."""
        return Needs(self.needs.copy(), self.blocking.copy(), self.dependents, self.ageing)

    @property
    def has_needs(self) -> Array:
        """Which jobs need others."""
        return np.diff(self.blocking["needs"]) > 0

    def of(self, number: int) -> range:
        """Return the places of a job's needs."""
        begin, end = self.blocking["needs"][number : number + 2].tolist()
        return range(begin, end)


def needs_among(jobs: Sequence[Job] | JobColumns, batches: Array) -> Needs | None:
    """Return the needs of jobs, by their numbers; None: no job needs others.

    Jobs that are submitted later are not known to those that need them.
    """
    texts = _texts_of(jobs)
    if texts is None:
        return None
    codes, values = texts
    sizes = np.array([len(value) for value in values], np.int64)
    parsed = [need_of(text) for value in values for text in value]
    ids = jobs.ids() if isinstance(jobs, JobColumns) else [job.id for job in jobs]
    numbers = dict(zip(ids, range(len(ids)), strict=True))
    known = np.array([numbers.get(need.job, layout.UNKNOWN_JOB) for need in parsed], np.int64)
    conditions = np.array([_CONDITIONS[need.condition] for need in parsed], np.int8)
    begins = np.cumsum(sizes) - sizes
    # of each job, those of its value
    counts = sizes[codes]
    owner = np.repeat(np.arange(len(codes)), counts)
    source = _ranges(begins[codes], counts)
    return _of(owner, known[source], conditions[source], batches, _delays(jobs))


def _texts_of(jobs: Sequence[Job] | JobColumns) -> tuple[Array, Sequence[tuple[str, ...]]] | None:
    """Return the needs of jobs as texts: the number of each job's, and the distinct ones."""
    if isinstance(jobs, JobColumns):
        if jobs.held is None or "needs" not in jobs.held.columns:
            return None
        column = jobs.held.coded("needs")
        return (column.codes, column.values) if any(column.values) else None
    if not any(job.needs for job in jobs):
        return None
    return np.arange(len(jobs)), [job.needs for job in jobs]


def _delays(jobs: Sequence[Job] | JobColumns) -> Floats:
    if isinstance(jobs, JobColumns) and jobs.held is not None:
        return jobs.held.array("needs_delay")
    return np.array([job.needs_delay for job in jobs])


def _of(
    owner: Numbers, needed: Numbers, conditions: Array, batches: Array, delays: Floats
) -> Needs:
    """Return the needs, given whose each is, which job is needed, and how it must have ended."""
    jobs = int(batches[-1])
    batch = np.repeat(np.arange(len(batches) - 1), np.diff(batches))
    needs = np.zeros(len(owner), layout.NEED)
    needs["of"], needs["condition"] = owner, conditions
    needs["job"] = np.where(batch[needed] > batch[owner], layout.UNKNOWN_JOB, needed)
    blocking = np.zeros(jobs + 1, layout.BLOCKING)
    blocking["needs"] = np.searchsorted(owner, np.arange(jobs + 1))
    blocking["delay"][:-1] = delays
    blocking["released_at"], blocking["broken"] = np.nan, -1
    awaits = owner[conditions == layout.MET_BY_FAILURE]
    blocking["awaits_failure"][awaits] = True
    dependents = np.argsort(needs["job"], kind="stable")
    known = needs["job"][dependents]
    blocking["dependents"] = np.searchsorted(known, np.arange(jobs + 1))
    return Needs(needs, blocking, dependents.astype(np.int32))


def lengths_below(needs: Needs, estimates: Floats, batches: Array) -> Floats:
    """Return the longest path of estimates below each job, among those submitted with it (s)."""
    batch = np.repeat(np.arange(len(batches) - 1), np.diff(batches))
    owner, needed = needs.needs["of"], needs.needs["job"]
    together = (needed >= 0) & (batch[needed] == batch[owner])
    owner, needed = owner[together], needed[together]
    below = np.zeros(len(estimates))
    dependents_left = np.bincount(needed, minlength=len(estimates))
    counts = np.bincount(owner, minlength=len(estimates))
    begins = np.cumsum(counts) - counts
    # first those that no other needs, then those that only these need, and so on
    stage = np.flatnonzero((dependents_left == 0) & (counts > 0))
    while len(stage):
        places = _ranges(begins[stage], counts[stage])
        above = needed[places]
        np.maximum.at(below, above, below[owner[places]] + estimates[owner[places]])
        np.subtract.at(dependents_left, above, 1)
        stage = np.unique(above[dependents_left[above] == 0])
    return below


def _ranges(begins: Numbers, counts: Numbers) -> Numbers:
    """Return the numbers of these ranges, one range after the other."""
    ends = np.cumsum(counts)
    numbers: Numbers = np.arange(int(counts.sum())) + np.repeat(begins - (ends - counts), counts)
    return numbers
