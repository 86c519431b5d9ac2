"""An observer that keeps the farm's counters and histograms: what happened, by bounded labels."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from farm.core.commands import (
    Command,
    EndJob,
    Ignored,
    RequestBuilder,
    RequeueJob,
    StartJob,
    log_name,
)
from farm.core.events import (
    AttemptLost,
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    EstimateMade,
    Event,
    JobFinished,
    JobsSubmitted,
    PoolPlanned,
    SchedulingChanged,
)
from farm.core.model import Builder, Platform
from farm.core.pools.spec import PoolSpec
from farm.metrics.catalogue import NAMES
from farm.metrics.series import Bounded, Labels, Series
from farm.metrics.shares import Shares

OUTCOMES = ("succeeded", "failed", "cancelled")
#: jobs whose slowdown the gauge averages
RECENT = 100
#: tolerance: a certain estimate is met exactly except for rounding, seconds
ROUNDING = 1e-6
#: largest number of jobs on a builder that has a label of its own: larger ones share one
MOST_JOBS = 16
#: how a builder goes: when empty, because an operator stopped it, without notice
ENDS = ("retired", "left", "lost")


class BuilderHours:
    """Builders that came and went, by pool, and the time that they were there: what a farm costs.

    The time of those that are there is n·now - Σ joined_at.
    """

    def __init__(self, series: Series) -> None:
        self._series = series
        self._pool = Bounded(NAMES)
        self._requested: dict[str, tuple[Builder, float]] = {}
        #: the builders that are there, each with when it joined
        self.joined: dict[str, tuple[Builder, float]] = {}
        self._there: defaultdict[str, int] = defaultdict(int)
        self._sum_joined_at: defaultdict[str, float] = defaultdict(float)
        self._past: defaultdict[str, float] = defaultdict(float)

    def expect(self, pool: str) -> None:
        """Begin what is counted of a pool at zero."""
        name = self._pool(pool)
        self._series.begin("farm_builders_requested_total", (name,))
        self._series.begin("farm_builders_joined_total", (name,))
        self._series.begin("farm_builders_ended_total", *((name, end) for end in ENDS))
        self._series.begin("farm_builder_boot_seconds", (name,))
        self._there[name] += 0

    def on_requested(self, builder: Builder, at: float) -> None:
        """A builder was requested."""
        pool = self._pool(builder.pool)
        self._series.add("farm_builders_requested_total", (pool,))
        self._series.begin("farm_builder_boot_seconds", (pool,))
        self._requested[builder.id] = (builder, at)

    def on_joined(self, event: BuilderJoined) -> None:
        """A builder came up."""
        pool = self._pool(event.builder.pool)
        self._series.add("farm_builders_joined_total", (pool,))
        self.adopt(event.builder, event.at)
        asked = self._requested.pop(event.builder.id, None)
        if asked is not None:
            self._series.observe("farm_builder_boot_seconds", event.at - asked[1], (pool,))

    def adopt(self, builder: Builder, joined_at: float) -> None:
        """A builder is there, perhaps from before us."""
        if builder.id in self.joined:
            return
        pool = self._pool(builder.pool)
        self._series.begin("farm_builders_ended_total", *((pool, end) for end in ENDS))
        self.joined[builder.id] = (builder, joined_at)
        self._there[pool] += 1
        self._sum_joined_at[pool] += joined_at

    def on_gone(self, event: BuilderRetired | BuilderLost) -> None:
        """A builder is gone, or never came."""
        end = (
            "retired" if isinstance(event, BuilderRetired) else "left" if event.excused else "lost"
        )
        asked = self._requested.pop(event.builder, None)
        was = self.joined.pop(event.builder, None)
        found = was or asked
        if found is None:
            return
        builder, joined_at = found
        pool = self._pool(builder.pool)
        self._series.add("farm_builders_ended_total", (pool, end))
        if was is not None:
            self._there[pool] -= 1
            self._sum_joined_at[pool] -= joined_at
            self._past[pool] += event.at - joined_at

    def seconds(self, at: float) -> dict[Labels, float]:
        """Return the builder time of each pool up to now."""
        return {
            (pool,): self._past[pool] + max(0.0, there * at - self._sum_joined_at[pool])
            for pool, there in self._there.items()
        }


class _Matrix(msgspec.Struct):
    """A matrix whose last job has not ended."""

    released_at: float
    live: int = 0


class FarmCounts:
    """Counts what the driver observes. Call it from one thread; ``series`` holds the result.

    ``waits``: says whether a job waits; an estimate of one that does not has come too late.
    ``jobs_on``: says how many jobs a builder has.
    """

    def __init__(
        self,
        series: Series,
        shares: Shares | None,
        waits: Callable[[str], bool],
        jobs_on: Callable[[str], int],
    ) -> None:
        self.series = series
        self.shares = shares
        self._waits = waits
        self._jobs_on = jobs_on
        self.hours = BuilderHours(series)
        self.platform = Bounded(NAMES)
        self._begun: set[str] = set()
        #: estimated time to dispatch of a job submitted now, by platform name
        self.new_job_estimates: dict[str, float] = {}
        self.slowdowns: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=RECENT))
        #: … by pool, and number of jobs on the builder
        self._slowdowns_by_jobs: defaultdict[tuple[str, int], deque[float]] = defaultdict(
            lambda: deque(maxlen=RECENT)
        )
        #: how many jobs the builder of a running job had when it was dispatched
        self._jobs_beside: dict[str, int] = {}
        self._matrices: dict[str, _Matrix] = {}
        #: when a waiting job should be dispatched, as estimated at its submission
        self._expected: dict[str, float] = {}
        #: between which instants it should be dispatched in eight cases of ten
        self._ranges: dict[str, tuple[float, float]] = {}
        #: how many builders each pool should have, as last planned
        self.desired: dict[Labels, float] = {}
        self._take: dict[type, Callable[[Any], None]] = {
            JobsSubmitted: self._on_submitted,
            BuilderJoined: self.hours.on_joined,
            BuilderRetired: self._on_gone,
            BuilderLost: self._on_gone,
            EstimateMade: self._on_estimate,
            PoolPlanned: self._on_planned,
        }
        series.begin("farm_attempts_total", *((result,) for result in (*OUTCOMES, "lost")))
        series.begin("farm_scheduler_ignored_events_total")
        series.begin("farm_scheduler_events_total", (log_name(SchedulingChanged),))
        series.begin("farm_matrix_response_seconds")

    def __call__(self, event: Event, commands: Sequence[Command]) -> None:
        """Handle one event and its commands."""
        self.series.add("farm_scheduler_events_total", (log_name(type(event)),))
        if type(commands) is Ignored:
            self.series.add("farm_scheduler_ignored_events_total")
            return
        take = self._take.get(type(event))
        if take is not None:
            take(event)
        for command in commands:
            if type(command) is StartJob:
                self._started(command, event.at)
            elif type(command) is EndJob:
                self._ended(command, event)
            elif type(command) is RequeueJob:
                self.series.add("farm_attempts_total", ("lost",))
                if self.shares is not None:
                    self.shares.over(command.job, event.at)
            elif isinstance(command, RequestBuilder):
                self.hours.on_requested(command.builder, event.at)

    def expect(self, pool: PoolSpec) -> None:
        """Begin what is counted of a pool, and of the platforms that it builds for, at zero."""
        self.hours.expect(pool.name)
        for processor in pool.processors:
            self._begin(self.platform(str(Platform(processor, pool.virtualized))))

    def _begin(self, platform: str) -> None:
        """Begin what is counted of a platform at zero."""
        self._begun.add(platform)
        for counted in ("submitted", "dispatched"):
            self.series.begin(f"farm_jobs_{counted}_total", (platform,))
        for span in ("waiting", "service", "response"):
            self.series.begin(f"farm_job_{span}_seconds", (platform,))
        errors = ((platform, direction) for direction in ("later", "earlier"))
        self.series.begin("farm_dispatch_estimate_error_seconds", *errors)
        held = ((platform, dispatch) for dispatch in ("within", "earlier", "later"))
        self.series.begin("farm_dispatch_forecasts_total", *held)

    def continue_from(self, ended: Mapping[str, int]) -> None:
        """Continue the count of jobs that ended, by outcome."""
        for outcome in OUTCOMES:
            self.series.add("farm_jobs_total", (outcome,), float(ended.get(outcome, 0)))

    def slowdown(self) -> dict[Labels, float]:
        """Return the mean slowdown of the last jobs, by pool."""
        return {(pool,): sum(last) / len(last) for pool, last in self.slowdowns.items() if last}

    def slowdown_by_jobs(self) -> dict[Labels, float]:
        """Return the mean slowdown of the last jobs, by pool and jobs on the builder."""
        return {
            (pool, f"{jobs}" if jobs < MOST_JOBS else f"{MOST_JOBS}+"): sum(last) / len(last)
            for (pool, jobs), last in self._slowdowns_by_jobs.items()
        }

    # --- events ------------------------------------------------------------------------------

    def _on_submitted(self, event: JobsSubmitted) -> None:
        for job in event.jobs:
            platform = self.platform(str(job.platform))
            if platform not in self._begun:
                self._begin(platform)
            self.series.add("farm_jobs_submitted_total", (platform,))
            estimate = self.new_job_estimates.get(platform)
            if estimate is not None:
                self._expected[job.id] = event.at + estimate
            if job.matrix is not None:
                new = _Matrix(job.arrival(event.at))
                self._matrices.setdefault(job.matrix, new).live += 1
            if self.shares is not None:
                self.shares.submitted(job)

    def _on_gone(self, event: BuilderRetired | BuilderLost) -> None:
        self.hours.on_gone(event)
        if self.shares is not None:
            self.shares.gone(event.builder)

    def _on_estimate(self, event: EstimateMade) -> None:
        if event.dispatch_at is not None and self._waits(event.job):
            self._expected[event.job] = event.dispatch_at
            if event.quantiles_at:
                self._ranges[event.job] = event.quantiles_at[0], event.quantiles_at[-1]

    def _on_planned(self, event: PoolPlanned) -> None:
        self.desired[event.pool,] = event.desired

    # --- commands ---------------------------------------------------------------------------

    def _started(self, command: StartJob, at: float) -> None:
        job = command.job
        platform = self.platform(str(job.platform))
        self.series.add("farm_jobs_dispatched_total", (platform,))
        self._jobs_beside[job.id] = self._jobs_on(command.builder)
        expected = self._expected.pop(job.id, None)
        if expected is not None:
            error = at - expected
            direction = "later" if error >= 0 else "earlier"
            labels = (platform, direction)
            self.series.observe("farm_dispatch_estimate_error_seconds", abs(error), labels)
        if (between := self._ranges.pop(job.id, None)) is not None:
            low_at, high_at = between
            dispatch = "within" if at <= high_at + ROUNDING else "later"
            if at < low_at - ROUNDING:
                dispatch = "earlier"
            self.series.add("farm_dispatch_forecasts_total", (platform, dispatch))
        if self.shares is not None:
            self.shares.started(command, at)

    def _ended(self, command: EndJob, event: Event) -> None:
        job, outcome = command.job, command.outcome
        self.series.add("farm_jobs_total", (outcome,))
        self._expected.pop(job.id, None)
        self._ranges.pop(job.id, None)
        jobs = self._jobs_beside.pop(job.id, None)
        if job.matrix is not None:
            self._matrix_member_ended(job.matrix, command.finished_at)
        if command.builder is None or command.served_by is not None:
            return
        lost = isinstance(event, AttemptLost | BuilderLost | BuilderRetired)
        voided = isinstance(event, JobFinished) and event.outcome == "cancelled" != outcome
        self.series.add("farm_attempts_total", ("lost" if lost or voided else outcome,))
        if self.shares is not None:
            self.shares.over(job.id, command.finished_at)
        if outcome != "cancelled" and not lost:
            self._ran(command, jobs)

    def _ran(self, command: EndJob, jobs: int | None) -> None:
        """Note the times of a job that ran to its end; ``jobs``: on its builder at its dispatch."""
        job, finished_at = command.job, command.finished_at
        started_at = command.started_at if command.started_at is not None else command.dispatched_at
        if started_at is None:
            return
        arrived_at = job.arrival(command.submitted_at)
        service_time = finished_at - started_at
        observe, labels = self.series.observe, (self.platform(str(job.platform)),)
        released_at = arrived_at if command.released_at is None else command.released_at
        observe("farm_job_waiting_seconds", max(0.0, started_at - released_at), labels)
        observe("farm_job_service_seconds", service_time, labels)
        observe("farm_job_response_seconds", max(0.0, finished_at - arrived_at), labels)
        there = self.hours.joined.get(command.builder or "")
        if there is not None and command.outcome == "succeeded" and job.service_time > 0:
            builder, _ = there
            ratio = service_time * builder.speed / job.service_time
            self.slowdowns[builder.pool].append(ratio)
            if jobs is not None:
                self._slowdowns_by_jobs[builder.pool, min(jobs, MOST_JOBS)].append(ratio)

    def _matrix_member_ended(self, name: str, at: float) -> None:
        matrix = self._matrices.get(name)
        if matrix is None:
            return
        matrix.live -= 1
        if matrix.live == 0:
            del self._matrices[name]
            response_time = max(0.0, at - matrix.released_at)
            self.series.observe("farm_matrix_response_seconds", response_time)
