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
from farm.workload.blocks import Block, JobColumns, Names
from farm.workload.generators import PLACES, NeedsOfRun

_Pairs = tuple[Numbers, Numbers, Array]
"""Of each need the job that has it, the job that is needed, and the condition."""

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
    if isinstance(jobs, JobColumns):
        if jobs.held is None or not has_needs(jobs.held):
            return None
        column = jobs.held.column("needs")
        delays: Floats = jobs.held.array("needs_delay")
        if isinstance(column, Names) and (within := _within_runs(column)) is not None:
            return _of(*within, batches, delays)
        coded = jobs.held.coded("needs")
        return _of(*_by_id(coded.codes, coded.values, jobs.ids()), batches, delays)
    if not any(job.needs for job in jobs):
        return None
    by_id = _by_id(np.arange(len(jobs)), [job.needs for job in jobs], [job.id for job in jobs])
    return _of(*by_id, batches, np.array([job.needs_delay for job in jobs]))


def has_needs(block: Block) -> bool:
    """Return whether any of these jobs needs others.

    A column may have needs among its values that none of them has: of jobs that come too late.
    """
    column = block.column("needs")
    if isinstance(column, Names):
        within_runs = [of for of in column.functions if isinstance(of, NeedsOfRun)]
        if len(within_runs) == len(column.functions):
            counts = np.bincount(column.which, minlength=len(within_runs)).tolist()
            pairs = zip(within_runs, counts, strict=True)
            return any(count and any(of.needs) for of, count in pairs)
    coded = block.coded("needs")
    are_needs = np.array([*map(bool, coded.values), False], np.bool_)
    return bool(are_needs[coded.codes].any())


def _within_runs(column: Names) -> _Pairs | None:
    """Return the needs of jobs that need others of their matrix alone; None: they are not such.

    The ids of no job have to be made for it.
    """
    if len(column.functions) != 1 or not isinstance(column.functions[0], NeedsOfRun):
        return None
    of_place = column.functions[0].needs
    every = [need for needs in of_place for need in needs]
    sizes = np.array([len(needs) for needs in of_place])
    place = column.numbers % PLACES
    counts = sizes[place]
    owner = np.repeat(np.arange(len(place)), counts)
    source = _ranges((np.cumsum(sizes) - sizes)[place], counts)
    needed = owner + np.array([distance for distance, _ in every], np.int64)[source]
    conditions = np.array([_CONDITIONS[condition] for _, condition in every], np.int8)[source]
    if len(needed) and not 0 <= needed.min() <= needed.max() < len(place):
        return None
    # the numbers of a matrix follow each other
    if (column.numbers[needed] - column.numbers[owner] != needed - owner).any():
        return None
    return owner, needed, conditions


def _by_id(codes: Array, values: Sequence[tuple[str, ...]], ids: Sequence[str]) -> _Pairs:
    """Return the needs of jobs: the number of each job's texts, and these."""
    sizes = np.array([len(value) for value in values], np.int64)
    parsed = [need_of(text) for value in values for text in value]
    numbers = dict(zip(ids, range(len(ids)), strict=True))
    known = np.array([numbers.get(need.job, layout.UNKNOWN_JOB) for need in parsed], np.int64)
    conditions = np.array([_CONDITIONS[need.condition] for need in parsed], np.int8)
    begins = np.cumsum(sizes) - sizes
    # of each job, those of its value
    counts = sizes[codes]
    owner = np.repeat(np.arange(len(codes)), counts)
    source = _ranges(begins[codes], counts)
    return owner, known[source], conditions[source]


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
