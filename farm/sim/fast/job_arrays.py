"""Jobs as arrays, in the order of their submission, with the order of their sort keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import astuple

from farm.columns import Coded, Floats, Numbers, coded, in_order_of_appearance, numbered
from farm.core.model import Job, Platform
from farm.core.policies import KeyFunction, ageing, asks_for_path, buildbarn, takes_columns
from farm.core.rules import Estimator, HeavyLightOptions
from farm.forecasts.runtime.oracle import Oracle
from farm.results.table.columnar_table import Column
from farm.results.table.job_columns import attributed
from farm.sim.fast.kernel import layout
from farm.sim.fast.kernel.heaps import Array
from farm.sim.fast.needed_jobs import Needs, lengths_below, needs_among
from farm.workload.blocks import Block, JobColumns

Jobs = Sequence[Job] | JobColumns
"""By arrival; those in columns are held."""


class JobArrays(msgspec.Struct, frozen=True):
    """The jobs under a policy: a run writes into its columns."""

    jobs: Jobs
    #: the run time that each job is queued with, seconds
    estimates: Floats
    #: whether each job's attempt fails
    fails: Array
    #: the lanes: every required platform
    platforms: Sequence[Platform]
    #: by lane: whether it has the heavy jobs alone (heavy-light)
    heavy_lanes: Array
    # for the kernel
    columns: Array
    in_order: Array
    #: the first job of each instant, and finally the number of jobs
    batches: Array
    #: None: no job needs others
    needs: Needs | None = None

    def ids(self) -> list[str]:
        """Return the jobs' ids, in order."""
        if isinstance(self.jobs, JobColumns):
            return self.jobs.ids()
        return [job.id for job in self.jobs]

    def copy(self) -> JobArrays:
        """Return a load with columns of its own, into which a run writes."""
        # as bytes: NumPy copies records field by field
        columns = self.columns.view(np.uint8).copy().view(self.columns.dtype)
        needs = None if self.needs is None else self.needs.copy()
        return msgspec.structs.replace(self, columns=columns, needs=needs)

    def job_columns(self, begin: int, end: int) -> Mapping[str, Array | Coded | Iterable[object]]:
        """Return the fields of some jobs as columns; a field without one has its default."""
        if isinstance(self.jobs, JobColumns):
            given = _held(self.jobs).taken(slice(begin, end)).given()
            return {
                name: column.occurring() if isinstance(column, Coded) else column
                for name, column in given.items()
            }
        columns = zip(*map(astuple, self.jobs[begin:end]), strict=True)
        return dict(zip(Job.__struct_fields__, columns, strict=True))


def taken(jobs: Jobs, column: Column[Any], rows: Numbers) -> Any:
    """Return a column that is a field of the jobs, for some of them."""
    field = column.source.removeprefix("job.")
    if not isinstance(jobs, JobColumns):
        return column.made(getattr(job, field) for job in jobs)[rows]
    found = _held(jobs).column(field)
    if isinstance(found, np.ndarray):
        return found[rows]
    if isinstance(found, Coded) and column.made in (coded, attributed):
        made = column.made(found.values)
        if len(found.values) == 1:  # most columns have one value alone
            return Coded(np.broadcast_to(made.codes, len(rows)), made.values)
        return Coded(made.codes[found.codes[rows]], made.values)
    return column.made(found[rows].tolist())


def loads_of(
    policy: KeyFunction, estimator: Estimator, jobs: JobColumns, ends: Sequence[int]
) -> tuple[JobArrays, list[JobArrays]]:
    """Return the jobs of several runs as columns, and each run's, which are pieces of these.

    ``ends``: where each run's jobs end. The policy takes columns.
    """
    begins = [0, *ends[:-1]]
    whole = load_of(
        policy, estimator, jobs, np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    )
    columns, in_order = whole.columns, whole.in_order
    columns["order"] -= np.repeat(begins, np.diff(ends, prepend=0)).astype(columns["order"].dtype)
    return whole, [
        msgspec.structs.replace(
            whole,
            estimates=whole.estimates[begin:end],
            fails=whole.fails[begin:end],
            columns=columns[begin:end],
            in_order=in_order[begin:end] - np.int32(begin),
            batches=batches(columns["submitted_at"][begin:end]),
        )
        for begin, end in zip(begins, ends, strict=True)
    ]


def load_of(
    policy: KeyFunction,
    estimator: Estimator,
    jobs: Jobs,
    run: Array | None = None,
    heavy_light: HeavyLightOptions | None = None,
) -> JobArrays:
    """Return the jobs as columns; the policy's key function is called once per job, in order.

    ``run``: the run of each job, where they are of several, one after the other. With
    ``heavy_light`` heavy jobs have lanes of their own.
    """
    made = np.zeros(len(jobs), layout.JOB)
    estimates: Floats
    if isinstance(jobs, JobColumns):
        block = _held(jobs)
        for name, field in _FIELDS.items():
            made[name] = block.array(field)
        estimates, fails = _estimates(estimator, block), block.array("fails")
        platform = block.coded("platform")
    else:
        made["work"] = [job.service_time for job in jobs]
        made["submitted_at"] = [job.arrived_at or 0.0 for job in jobs]
        made["heavy"] = [job.heavy for job in jobs]
        made["memory_heavy"] = [job.memory_heavy for job in jobs]
        estimates = np.array([estimator.estimate(job) for job in jobs], np.float64)
        fails = np.array([job.fails for job in jobs], np.bool_)
        platform = coded([job.platform for job in jobs])
    lane, lanes = numbered([one.normalised() for one in platform.values])
    # in the order in which their first jobs come, as the scheduler goes through them
    if heavy_light is None:
        made["lane"], found = in_order_of_appearance(lane[platform.codes])
        lanes = [lanes[code] for code in found.tolist()]
        heavy_lanes, heavy_first = np.zeros(len(lanes), np.bool_), None
    else:
        codes = 2 * lane[platform.codes].astype(np.int64) + made["heavy"]
        made["lane"], found = in_order_of_appearance(codes)
        lanes = [lanes[code // 2] for code in found.tolist()]
        heavy_lanes = found % 2 > 0
        heavy_first = -made["heavy"] if heavy_light.heavy_first else None
    instants = batches(made["submitted_at"])
    needs = needs_among(jobs, instants)
    if needs is None:
        in_order = _order(policy, jobs, estimates, made["submitted_at"], run, heavy_first)
    else:
        lengths = estimates
        if asks_for_path(policy):
            lengths = estimates + lengths_below(needs, estimates, instants)
        in_order = _ranked(policy, jobs, lengths, made["submitted_at"], heavy_first, needs)
    made["order"][in_order] = np.arange(len(jobs))
    return JobArrays(jobs, estimates, fails, lanes, heavy_lanes, made, in_order, instants, needs)


_FIELDS = {
    "work": "service_time",
    "submitted_at": "arrived_at",
    "heavy": "heavy",
    "memory_heavy": "memory_heavy",
}
"""The fields of a job that the kernel reads, by its names."""


def _held(jobs: JobColumns) -> Block:
    return NO_JOBS if jobs.held is None else jobs.held


_UNKNOWN = Job(id="", service_time=math.inf)
NO_JOBS = Block({"service_time": np.zeros(0), "arrived_at": np.zeros(0)})


def _estimates(estimator: Estimator, block: Block) -> Floats:
    """Return what Oracle or Declared say of each job."""
    field = "service_time" if isinstance(estimator, Oracle) else "declared_time"
    found: Floats = np.asarray(block.array(field), np.float64)
    known = (found >= 0) & (found < np.inf)
    return found if known.all() else np.where(known, found, estimator.estimate(_UNKNOWN))


def batches(submitted_at: Floats) -> Array:
    """Return the first job of each instant, and the number of jobs."""
    begins = np.ones(len(submitted_at) + 1, np.bool_)
    begins[1:-1] = submitted_at[1:] != submitted_at[:-1]
    return np.flatnonzero(begins).astype(np.int32)


class _Fields:
    """Jobs by column in the place of a job, for key functions that only calculate."""

    def __init__(self, block: Block) -> None:
        self._block = block

    def __getattr__(self, field: str) -> Array:
        return self._block.array(field)


def _order(
    policy: KeyFunction,
    jobs: Jobs,
    estimates: Floats,
    submitted_at: Floats,
    run: Array | None,
    heavy_first: Array | None,
) -> Array:
    """Return the jobs in the order of their sort keys: (run, -level, the policy's key, serial).

    ``heavy_first``: what comes before the policy's key, if anything.
    A key is constant and depends only on the job: so all are sorted now.
    """
    count = len(submitted_at)
    if not count:
        return np.arange(0, dtype=np.int32)
    parts = _parts(policy, jobs, estimates, submitted_at)
    keys = [key for key in (*_leading(jobs, heavy_first), *parts) if np.ndim(key)]
    changing = [key for key in keys if (key != key[0]).any()]
    if changing and run is not None:
        changing.insert(0, run)
    if not changing or (len(changing) == 1 and (changing[0][1:] >= changing[0][:-1]).all()):
        return np.arange(count, dtype=np.int32)  # they are in this order
    return np.lexsort(changing[::-1]).astype(np.int32)


def _ranked(
    policy: KeyFunction,
    jobs: Jobs,
    estimates: Floats,
    submitted_at: Floats,
    heavy_first: Array | None,
    needs: Needs,
) -> Array:
    """Write what is known of sort keys before jobs are released; return the jobs in their order.

    The instant of a release is in few keys. Where it is the last part, the place behind it, which
    ascends with time, suffices; linear ageing adds it to the rest.
    """
    leading = _leading(jobs, heavy_first)
    if getattr(policy, "func", None) is ageing.linear:
        factor, sign = policy.args  # type: ignore[attr-defined]
        needs.blocking["unaged"][:-1] = sign * estimates
        needs.ageing = factor
        parts: Sequence[Array] = ()
    else:
        parts = _parts(policy, jobs, estimates, submitted_at)
        if policy is buildbarn.key:
            parts = parts[:-1]
    changing = [key for key in (*leading, *parts) if np.ndim(key) and (key != key[0]).any()]
    if not changing:
        return np.arange(len(submitted_at), dtype=np.int32)
    in_order = np.lexsort(changing[::-1]).astype(np.int32)
    differs = np.zeros(len(in_order), np.bool_)
    for key in changing:
        differs[1:] |= key[in_order[1:]] != key[in_order[:-1]]
    needs.blocking["rank"][in_order] = np.cumsum(differs)
    return in_order


def _leading(jobs: Jobs, heavy_first: Array | None) -> Sequence[Array]:
    """Return what comes before a policy's part of a sort key."""
    if isinstance(jobs, JobColumns):
        levels = -_held(jobs).array("level")
    else:
        levels = np.array([-job.level for job in jobs])
    return (levels,) if heavy_first is None else (levels, heavy_first)


def _parts(
    policy: KeyFunction, jobs: Jobs, estimates: Floats, submitted_at: Floats
) -> Sequence[Array]:
    """Return the policy's part of all sort keys, as columns."""
    parts: Any
    if isinstance(jobs, JobColumns) and takes_columns(policy):
        fields: Any = _Fields(_held(jobs))
        given: Any = (estimates, submitted_at, 0)
        parts = policy(fields, *given)
        return parts if isinstance(parts, tuple) else (parts,)
    count = len(submitted_at)
    times = (estimates.tolist(), submitted_at.tolist(), range(1, count + 1))
    made = list(map(policy, jobs, *times))
    return np.array(made, np.float64).reshape(count, -1).T  # type: ignore[return-value]
