"""The summary of a run (``summary.json``).

Only jobs that arrived in the run phase count, and builders' times are clipped to it; without phases
everything counts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from farm.columns import known
from farm.core.fields import json_name
from farm.core.model import Cause
from farm.results.descriptive_statistics import Spread, spread_of
from farm.results.formatting import readable_percent
from farm.results.summary.builder_time import BuilderCounts
from farm.results.summary.costs import CostPart, JobCounts
from farm.results.summary.fairness import FAIR_SHARE
from farm.results.summary.figures import Counted, Figures, RunInfo, WorldName
from farm.results.summary.lateness import Lateness
from farm.results.summary.pipeline_figures import PipelineFigures
from farm.results.summary.run_phase import Window
from farm.results.summary.tally import CountedInPieces, Tallied
from farm.results.table.job_columns import Jobs
from farm.results.table.recorder import RunRecords
from farm.results.table.runs import Runs
from farm.scenario.model import WorkloadKind
from farm.units import many

#: real seconds below which a live farm's overhead per job is noticeable
SHORT = 0.05


class Quiescence(msgspec.Struct, frozen=True, rename=json_name):
    """The farm at the end of its last phase, and how long jobs continued after it."""

    #: jobs that were waiting or running
    open_jobs: int
    builders: int
    busy_builders: int
    #: from the last phase's end to the last job's
    beyond_time: float
    #: by pool, after a ramp-down in which no job arrived: the builders that should have left,
    #: booting ones included
    left_over: dict[str, int] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """One if builders were left over: a farm should be at rest after a ramp-down."""
        if not (count := sum(self.left_over.values())):
            return ()
        what = "builder was" if count == 1 else "builders were"
        pools = ", ".join(f"{pool} {number:,}" for pool, number in self.left_over.items())
        return (f"{count:,} {what} still there when the ramp-down ended: {pools}",)


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """The summary of a run. Spans are seconds; None where there was nothing to measure.

    Waiting times are of the jobs that started, and count from their releases; response times and
    stretches of those that succeeded or failed (a cancelled job was not served); a matrix counts
    when all its jobs ended, and none was superseded.
    """

    name: str
    world: WorldName
    engine: str
    #: why the scheduler itself played a simulation: what the compiled loop does not cover; left out
    #: where that played, or was not asked
    not_compiled: str | msgspec.UnsetType = msgspec.UNSET
    seed: int
    policy: str
    #: ``open``: jobs came whatever the farm did; ``closed``: users waited for verdicts; ``mixed``
    workload: WorkloadKind = "open"
    jobs: JobCounts
    #: attempts of those jobs, the first ones included
    attempts: int
    #: last finish - first arrival
    makespan: float | None
    waiting_time: Spread
    #: what the traces recorded of those that they know; without any it is left out
    recorded_waiting_time: Spread | msgspec.UnsetType = msgspec.UNSET
    #: of the jobs that need others: release - arrival, or end - arrival if there was no release;
    #: left out, as the number of those that were skipped: no job needs others
    blocked_time: Spread | msgspec.UnsetType = msgspec.UNSET
    skipped: int | msgspec.UnsetType = msgspec.UNSET
    #: jobs that a newer run of their concurrency group cancelled, and the matrices of such jobs
    superseded: int | msgspec.UnsetType = msgspec.UNSET
    superseded_matrices: int | msgspec.UnsetType = msgspec.UNSET
    response_time: Spread
    stretch: Spread
    #: without superseded matrices
    matrix_response_time: Spread
    #: left out: no job needs another
    pipelines: PipelineFigures | msgspec.UnsetType = msgspec.UNSET
    #: how far p50, p95 and p99 are from the exact ones, at most, as a share of these; left out:
    #: they are exact
    percentile_error: float | msgspec.UnsetType = msgspec.UNSET
    #: for matrices with a failed job: its end - the matrix's release
    first_failure_time: Spread = Spread(count=0)
    #: slot time of the jobs that fail-fast cancelled
    saved_time: float = 0.0
    builders: BuilderCounts
    #: the sum of the time that builders were present
    builder_time: float
    #: busy slot time ÷ present slot time
    utilization: float | None
    fairness_index: float
    #: the cost of all builders, from request until they have left, in whole billing units
    cost: float = 0.0
    #: idle share of the billed slot time; None: nothing was billed
    idle_share: float | None = None
    #: jobs served ÷ the length of the window
    throughput_per_s: float | None = None
    #: what the builders cost in a month at this rate; None: the run has no length
    cost_per_month: float | None = None
    #: matrices, and jobs that are in none, that ended ÷ the hours of the window; None: the workload
    #: is open
    runs_per_hour: float | None = None
    #: of all costs; empty: the pools have prices without one; left out: costs are builder-hours
    currency: str | msgspec.UnsetType = msgspec.UNSET
    #: jobs whose slot had run a job of another invocation before, and the slot time that it took;
    #: None: there are no invocations
    switches: int | None = None
    switching_time: float | None = None
    pools: dict[str, CostPart] = {}
    platforms: dict[str, CostPart] = {}
    #: by invocation, if the jobs' attributes give one
    invocations: dict[str, CostPart] = {}
    #: events that the scheduler handled, over the whole run
    events: int
    #: real seconds that the run took
    wall_time: float
    #: start and end of the phase that counts, farm time; None: the whole run
    run_phase: tuple[float, float] | None = None
    #: the farm's state at the end of the last phase
    quiescence: Quiescence | None = None
    #: of a live run: how late its machine was; left out where it cannot be known
    lateness: Lateness | msgspec.UnsetType = msgspec.UNSET
    #: errors in the user's own functions, builders that a ramp-down left over, and keys of fair
    #: share that no job has
    warnings: tuple[str, ...] = ()
    #: remarks on the run, such as a speed at which the live farm's overhead is noticeable
    remarks: tuple[str, ...] = ()

    @property
    def window(self) -> Window:
        """The run phase as a window."""
        return Window() if self.run_phase is None else Window(*self.run_phase)

    @property
    def ended_well(self) -> bool:
        """Whether no job was lost and none of the user's functions failed."""
        of_rest = () if self.quiescence is None else self.quiescence.warnings
        of_functions = [warning for warning in self.warnings if not warning.startswith(FAIR_SHARE)]
        return not self.jobs.lost and len(of_functions) == len(of_rest)


def too_fast(records: RunRecords, speed: float) -> list[str]:
    """Return the remark that a live run's jobs were too short to be representative, if any."""
    times = records.jobs.work
    median = float(np.median(times)) / speed if len(times) else math.inf
    if median >= SHORT:
        return []
    text = (
        f"at speed {speed:g} the median job lasts {median * 1000:.2g}ms of real time, so the "
        f"farm's own work counts; from {SHORT * 1000:g}ms on (speed {speed * median / SHORT:.2g}) "
        "live and simulated runs agree better"
    )
    return [text]


def near_percentiles(jobs: int, error: float) -> str:
    """Return the remark that the percentiles of a run are not exact."""
    return (
        f"{jobs:,} jobs are too many to keep their times: p50, p95 and p99 come from a histogram, "
        f"and are within {readable_percent(error)} of the exact ones"
    )


class Measured:
    """A run to be summed up: it may have no jobs, no builders, or jobs that never started."""

    def __init__(
        self,
        records: RunRecords,
        info: RunInfo,
        wall_time: float,
        warnings: Iterable[str] = (),
        remarks: Iterable[str] = (),
        lateness: Lateness | None = None,
    ) -> None:
        self._info = info
        self._lateness = lateness
        self._wall_time = wall_time
        self._warnings = warnings
        self._remarks = remarks
        self._records = msgspec.structs.replace(
            records.having(fair_share=info.fair_share),
            # builders that never left were there to the run's end, even if nothing happened then
            last_at=max(records.last_at, info.until),
        )
        runs = Runs.one(self._records, info.seed)
        self._percentile_error: float | msgspec.UnsetType = msgspec.UNSET
        self._counted: Counted
        if isinstance(records, Tallied):
            self._counted = CountedInPieces(runs, info, records.tally)
            self._percentile_error = records.tally.percentile_error
        else:
            self._counted = Counted(runs, info)

    @cached_property
    def figures(self) -> Figures:
        """The figures by which runs are compared."""
        [figures] = self._counted.figures()
        return figures

    @property
    def summary(self) -> Summary:
        """The figures, and the rest of ``summary.json``."""
        return self._summary(self.figures, with_invocations=True)

    @property
    def summary_without_parties(self) -> Summary:
        """The summary without what each party got: the index is nan, and no invocation is listed.

        That takes as long as all the rest, and a search for shorter waits does not ask for it.
        """
        [figures] = self._counted.figures(with_fairness=False)
        return self._summary(figures, with_invocations=False)

    def _summary(self, figures: Figures, *, with_invocations: bool) -> Summary:
        info = self._info
        counted = self._counted
        parts = counted.parts()
        at_the_end = quiescence(self._records, info)
        left_over_builders = () if at_the_end is None else at_the_end.warnings
        run_phase = None
        if info.window != Window():
            run_phase = (info.window.start, info.window.end)
        remarks = [*self._remarks]
        if self._percentile_error:
            remarks.append(near_percentiles(figures.jobs.submitted, self._percentile_error))
        remarks += jobs_given_up(self._records)
        values = msgspec.structs.asdict(figures)
        unused_keys = values.pop("warnings")
        return Summary(
            **values,
            name=info.name,
            world=info.world,
            engine=info.engine,
            not_compiled=info.not_compiled,
            policy=info.policy,
            currency=info.currency,
            recorded_waiting_time=_recorded_waits(counted.jobs, counted.lost),
            **_blocked(counted.jobs),
            percentile_error=self._percentile_error,
            saved_time=counted.records.saved_time(counted.jobs),
            pools=parts.by_pool(),
            platforms=parts.by_platform(),
            invocations=parts.by_invocation() if with_invocations else {},
            events=self._records.events,
            wall_time=self._wall_time,
            quiescence=at_the_end,
            run_phase=run_phase,
            lateness=msgspec.UNSET if self._lateness is None else self._lateness,
            warnings=(*self._warnings, *left_over_builders, *unused_keys),
            remarks=tuple(remarks),
        )


def jobs_given_up(records: RunRecords) -> list[str]:
    """Return a remark on the jobs that were cancelled because no builder would ever run them.

    The counts say that they were cancelled, and nothing else says why: builders that never take a
    job may fill a pool, and a platform may have none.
    """
    jobs = records.jobs
    given_up = jobs.cause.where(Cause.UNRUNNABLE) & jobs.outcome.where("cancelled")
    count = int(given_up.sum())
    if not count:
        return []
    platforms = sorted({str(platform) for platform in jobs.platform[given_up].tolist()})
    were = "was" if count == 1 else "were"
    text = (
        f"{many(count, 'job')} for {', '.join(platforms)} {were} given up and cancelled: no "
        "builder took them for so long that none ever would"
    )
    return [text]


def summarise(records: RunRecords, info: RunInfo, wall_time: float) -> Summary:
    """Summarise a run; it may have no jobs, no builders, or jobs that never started."""
    return Measured(records, info, wall_time).summary


def _recorded_waits(*tables: Jobs) -> Spread | msgspec.UnsetType:
    """Return the waits that the traces recorded of these jobs; UNSET: none was recorded."""
    columns = [jobs.recorded_waiting_time for jobs in tables]
    waits = [known(column) for column in columns if column is not None]
    if not waits:
        return msgspec.UNSET
    return spread_of(np.concatenate(waits))


def _blocked(jobs: Jobs) -> dict[str, Any]:
    """Return how long jobs were blocked, and how many were skipped, or superseded."""
    if jobs.blocked_time is None:
        return {}
    return {
        "blocked_time": spread_of(jobs.blocked_time[jobs.may_be_blocked]),
        "skipped": int(jobs.cause.where(Cause.SKIPPED).sum()),
        "superseded": int(jobs.cause.where(Cause.SUPERSEDED).sum()),
        "superseded_matrices": jobs.superseded_matrices(),
    }


def quiescence(records: RunRecords, info: RunInfo) -> Quiescence | None:
    """Return the farm's state when its last phase ended; None without phases."""
    ends_at = info.ends_at
    if ends_at is None:
        return None
    jobs = records.jobs
    builders = records.builders
    attempts = records.attempts

    is_open = (jobs.arrived_at <= ends_at) & (ends_at < jobs.finished_at)
    is_lost = records.lost.submitted_at <= ends_at
    has_left = builders.gone_at <= ends_at  # false for NaN: it never left
    has_joined = builders.joined_at <= ends_at
    holds_slot = (attempts.dispatched_at <= ends_at) & (ends_at < attempts.ended_at)
    busy_builders = set(attempts.builder.codes[holds_slot].tolist())
    last_finish = float(jobs.finished_at.max(initial=ends_at))

    left_over: dict[str, int] = {}
    if _ramped_down(records, info, ends_at):
        was_requested = np.fmin(builders.requested_at, builders.joined_at) <= ends_at
        pools = Counter(builders.taken(was_requested & ~has_left).pool.tolist())
        left_over = dict(sorted((pools - Counter(info.keeps)).items()))
    return Quiescence(
        open_jobs=int(is_open.sum()) + int(is_lost.sum()),
        builders=int((has_joined & ~has_left).sum()),
        busy_builders=len(busy_builders),
        beyond_time=max(0.0, last_finish - ends_at),
        left_over=left_over,
    )


def _ramped_down(records: RunRecords, info: RunInfo, ends_at: float) -> bool:
    """Return whether the run had its whole ramp-down, and no job arrived in it."""
    last_arrival = max(
        records.jobs.arrived_at.max(initial=-np.inf),
        records.lost.submitted_at.max(initial=-np.inf),
    )
    return bool(last_arrival <= info.window.end < ends_at <= info.until)
