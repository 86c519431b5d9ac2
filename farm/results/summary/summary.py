"""The summary of a run (``summary.json``): what it came to, in one small value.

Only jobs that arrived in the run phase count, and builders' numbers are clipped to it; without
phases everything counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Literal

import msgspec

from farm.core.commands import EndJob
from farm.core.model import Job
from farm.results.jobs_table import invocation_of
from farm.results.json_names import door_name
from farm.results.summary.builder_time import (
    BuilderCounts,
    Window,
    builder_counts,
    builder_times,
)
from farm.results.summary.costs import Bill, Costs, Part, Parts
from farm.results.summary.failing_fast import speeds_of, time_saved, times_to_first_failure
from farm.results.summary.percentiles import Spread, spread_of
from farm.results.summary.records import RunRecords
from farm.results.summary.taskcluster import touching

WorldName = Literal["simulated", "live"]


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a summary says about the run beside what happened in it.

    ``window`` is the run phase; ``fair_share`` the attributes that jobs are charged by, outermost
    first: its first is the party of the fairness index. ``as_taskcluster``: what counts is what the
    Taskcluster simulator counts (``farm.results.summary.taskcluster``).
    """

    name: str
    world: WorldName
    engine: str
    seed: int
    policy: str
    window: Window = Window()
    fair_share: tuple[str, ...] = ()
    as_taskcluster: bool = False
    #: by pool, what its builders cost
    bills: Mapping[str, Bill] = {}


class JobCounts(msgspec.Struct, frozen=True):
    """Jobs that arrived in the window, by how they ended; ``lost`` never did."""

    submitted: int
    succeeded: int
    failed: int
    cancelled: int
    lost: int


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename=door_name):
    """What a run came to. Spans are seconds; None where nothing was there to measure.

    Waiting times are of the jobs that started; response times and stretches of those that
    succeeded or failed (a cancelled job was not served); a matrix counts when all its jobs ended.
    """

    name: str
    world: WorldName
    engine: str
    seed: int
    policy: str
    jobs: JobCounts
    #: attempts of those jobs, the first ones included
    attempts: int
    #: last finish - first arrival
    makespan: float | None
    waiting_time: Spread
    response_time: Spread
    stretch: Spread
    matrix_response_time: Spread
    #: of the matrices with a failed job: its end - the matrix's release
    first_failure_time: Spread = Spread(count=0)
    #: slot time of the jobs that fail-fast cancelled
    saved_time: float = 0.0
    builders: BuilderCounts
    #: builders there, added up over time
    builder_time: float
    #: busy slot time ÷ slot time there
    utilization: float | None
    fairness_index: float
    #: what all builders cost, from request until gone: price of their hours, in billing units
    cost: float = 0.0
    #: share of the slot time paid in which no job was there; None: nothing was paid
    idle_share: float | None = None
    #: jobs served ÷ the time that counts
    throughput_per_s: float | None = None
    pools: dict[str, Part] = {}
    platforms: dict[str, Part] = {}
    #: whom jobs are charged to, where their attributes say it
    invocations: dict[str, Part] = {}
    #: events that the scheduler took in, over the whole run
    events: int
    #: real seconds that the run took
    wall_time: float
    #: start and end of the phase that counts, farm time; None: the whole run
    run_phase: tuple[float, float] | None = None
    #: what went wrong in functions of the user's own
    warnings: tuple[str, ...] = ()

    @property
    def window(self) -> Window:
        """The run phase as a window."""
        return Window() if self.run_phase is None else Window(*self.run_phase)


def summarise(
    records: RunRecords, info: RunInfo, wall_time: float, warnings: Iterable[str] = ()
) -> Summary:
    """Return what a run came to; copes with no jobs, no builders and jobs that never started."""
    window = info.window
    if info.as_taskcluster:
        records, window = touching(records, info.window), Window()
    ends, lost = _counted(records, window)
    served = [end for end in ends if end.outcome != "cancelled"]
    times = builder_times(records, info.window)
    makespan = _makespan(ends)
    length = makespan if info.window == Window() else info.window.end - info.window.start
    charged_to = partial(invocation_of, fair_share=info.fair_share)
    costs = Costs(records, info.window, info.bills, charged_to)
    parts = Parts(ends, lost, costs, charged_to, length)
    return Summary(
        name=info.name,
        world=info.world,
        engine=info.engine,
        seed=info.seed,
        policy=info.policy,
        jobs=_job_counts(ends, lost),
        attempts=sum(end.attempts for end in ends if end.served_by is None),
        makespan=makespan,
        waiting_time=spread_of(_waits(ends, info)),
        response_time=spread_of([end.finished_at - _arrival(end) for end in served]),
        stretch=spread_of([value for _, value in _stretches(served)]),
        matrix_response_time=spread_of(matrix_response_times(ends, lost)),
        first_failure_time=spread_of(times_to_first_failure(ends)),
        saved_time=time_saved(ends, speeds_of(records)),
        builders=builder_counts(records, window),
        builder_time=times.present,
        utilization=times.busy / times.slots if times.slots > 0 else None,
        fairness_index=fairness_index(
            (_party(end.job, info.fair_share), value) for end, value in _stretches(served)
        ),
        cost=costs.total,
        idle_share=costs.idle_share,
        throughput_per_s=len(served) / length if length else None,
        pools=parts.by_pool(),
        platforms=parts.by_platform(),
        invocations=parts.by_invocation(),
        events=records.events,
        wall_time=wall_time,
        run_phase=None if info.window == Window() else (info.window.start, info.window.end),
        warnings=tuple(warnings),
    )


def matrix_response_times(ends: Iterable[EndJob], lost: Iterable[Job] = ()) -> list[float]:
    """Return last end - first arrival of each matrix, in order of first end; seconds.

    A matrix with a lost job has none.
    """
    released: dict[str, float] = {}
    finished: dict[str, float] = {}
    for end in ends:
        matrix = end.job.matrix
        if matrix is not None:
            arrived_at = _arrival(end)
            released[matrix] = min(released.get(matrix, arrived_at), arrived_at)
            finished[matrix] = max(finished.get(matrix, end.finished_at), end.finished_at)
    unfinished = {job.matrix for job in lost}
    return [finished[m] - at for m, at in released.items() if m not in unfinished]


def _counted(records: RunRecords, window: Window) -> tuple[list[EndJob], list[Job]]:
    """Return the ends of the jobs that arrived in the window, and such jobs without an end."""
    ends = [end for end in records.ends if window.holds(_arrival(end))]
    if sum(len(event.jobs) for event in records.submissions) == len(records.ends):
        return ends, []
    lost = [job for job, at in records.unended() if window.holds(job.arrival(at))]
    return ends, lost


def _waits(ends: Iterable[EndJob], info: RunInfo) -> list[float]:
    """Return how long each started job waited; as Taskcluster: those over by the phase's end."""
    by = info.window.end if info.as_taskcluster else float("inf")
    return [
        end.started_at - _arrival(end)
        for end in ends
        if end.started_at is not None and end.finished_at <= by
    ]


def _arrival(end: EndJob) -> float:
    return end.job.arrival(end.submitted_at)


def _job_counts(ends: Sequence[EndJob], lost: Sequence[Job]) -> JobCounts:
    outcomes = {"succeeded": 0, "failed": 0, "cancelled": 0}
    for end in ends:
        outcomes[end.outcome] += 1
    return JobCounts(submitted=len(ends) + len(lost), lost=len(lost), **outcomes)


def _makespan(ends: Sequence[EndJob]) -> float | None:
    if not ends:
        return None
    return max(end.finished_at for end in ends) - min(_arrival(end) for end in ends)


def _stretches(served: Iterable[EndJob]) -> list[tuple[EndJob, float]]:
    return [
        (end, (end.finished_at - _arrival(end)) / end.job.service_time)
        for end in served
        if end.job.service_time > 0
    ]


def _party(job: Job, fair_share: tuple[str, ...]) -> str:
    return invocation_of(job, fair_share[:1]).partition("/")[0]


def jain_index(shares: Sequence[float]) -> float:
    """Return Jain's fairness index (Σx)² ÷ (n·Σx²): 1 is even, 1/n is all to one.

    Source: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness", DEC TR-301 (1984). It is 1.0
    for no shares, for one, and where all are zero.
    """
    squares = sum(share * share for share in shares)
    if not shares or squares == 0.0:
        return 1.0
    total = sum(shares)
    return total * total / (len(shares) * squares)


def fairness_index(stretches: Iterable[tuple[str, float]]) -> float:
    """Return Jain's index over each party's mean stretch, from (party, stretch of a job) pairs."""
    sums: dict[str, tuple[float, int]] = {}
    for party, stretch in stretches:
        total, count = sums.get(party, (0.0, 0))
        sums[party] = (total + stretch, count + 1)
    return jain_index([total / count for total, count in sums.values()])
