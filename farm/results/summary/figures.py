"""The figures by which runs are compared, of one run or of several in the same tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from farm.columns import Flags, Numbers, numbered
from farm.core.fields import json_name
from farm.core.queues.fair_share.path_keys import NO_KEY
from farm.results.descriptive_statistics import Spread, spread_of
from farm.results.summary.builder_time import (
    BuilderCounts,
    BuilderTimes,
    builder_counts,
    builder_times,
)
from farm.results.summary.costs import Bill, CostParts, Costs, JobCounts, Place
from farm.results.summary.fairness import indices_of_runs, unused_fair_share_keys
from farm.results.summary.pipeline_figures import PipelineFigures, figures_of
from farm.results.summary.run_phase import Window, counting
from farm.results.summary.switches import keys_of_switches, switches_of, values_of
from farm.results.table.job_columns import Jobs, by_outcome, invocation_of
from farm.results.table.job_table import ColumnsOf, JobTable
from farm.results.table.runs import Runs
from farm.scenario.model import WorkloadKind

HOUR = 3600.0
MONTH = 365.25 * 86400.0 / 12
"""Seconds of a mean month."""

WorldName = Literal["simulated", "live"]


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a summary needs to know about a run besides its records.

    ``window`` is the run phase; ``fair_share`` the attributes by which jobs are charged, outermost
    first: the first is the party of the fairness index, which has ``weights``.
    ``as_taskcluster``: count what the Taskcluster simulator counts (``run_phase``).
    """

    name: str
    world: WorldName
    engine: str
    #: what the compiled loop did not cover of it; UNSET: it played, or was not asked
    not_compiled: str | msgspec.UnsetType = msgspec.UNSET
    seed: int
    policy: str
    #: whether jobs came whatever the farm did, or after verdicts
    workload: WorkloadKind = "open"
    window: Window = Window()
    #: when the last phase ends; None: no phases
    ends_at: float | None = None
    #: how many builders each pool keeps when there is nothing to do
    keeps: Mapping[str, int] = {}
    #: the run lasted at least until then: its builders were present, even if nothing happened
    until: float = 0.0
    fair_share: tuple[str, ...] = ()
    #: of invocations, where it is not 1
    weights: Mapping[str, float] = {}
    #: by pool and fair-share key, what going over to another invocation takes (s)
    switch_times: Mapping[str, Mapping[str, float]] = {}
    as_taskcluster: bool = False
    #: the tariffs, by pool
    bills: Mapping[str, Bill] = {}
    #: of their prices; empty: it has no name; UNSET: costs are builder-hours
    currency: str | msgspec.UnsetType = msgspec.UNSET


class Figures(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """The figures of a summary by which runs are compared, with the same names."""

    seed: int
    workload: WorkloadKind = "open"
    jobs: JobCounts
    attempts: int
    makespan: float | None
    waiting_time: Spread
    response_time: Spread
    stretch: Spread
    matrix_response_time: Spread
    first_failure_time: Spread
    #: UNSET: no job needs another
    pipelines: PipelineFigures | msgspec.UnsetType = msgspec.UNSET
    builders: BuilderCounts
    builder_time: float
    utilization: float | None
    fairness_index: float
    cost: float
    idle_share: float | None
    throughput_per_s: float | None
    #: what the builders cost in a month at this rate; None: the run has no length
    cost_per_month: float | None = None
    #: matrices, and jobs that are in none, that ended ÷ the hours of the window; None: the workload
    #: is open, so that their number does not depend on the farm
    runs_per_hour: float | None = None
    #: jobs whose slot had run a job of another invocation before; None: there are no invocations
    switches: int | None = None
    #: how long slots went over to others
    switching_time: float | None = None
    #: keys of fair share that no job has
    warnings: tuple[str, ...] = ()


class Counted:
    """The jobs and builders of runs that count; there may be none, or jobs that never started.

    ``run_phase`` says which these are. Runs of several seeds have no jobs that never ended.
    """

    def __init__(self, runs: Runs, info: RunInfo) -> None:
        counted = counting(runs.records, info.window, as_taskcluster=info.as_taskcluster)
        self.jobs = counted.jobs
        self.lost = counted.lost
        self.records = counted.records
        self._builders_in = counted.builders_in
        self._info = info
        self._runs = runs._replace(records=counted.records)
        self._run = runs.of_builder[self.jobs.builder.codes]
        self.makespans = [
            float(finished_at.max() - arrived_at.min()) if len(arrived_at) else None
            for finished_at, arrived_at in zip(
                self._parts(self.jobs.finished_at), self._parts(self.jobs.arrived_at), strict=True
            )
        ]
        whole = info.window == Window()
        length = info.window.end - info.window.start
        self.lengths = self.makespans if whole else [length] * len(runs.seeds)
        self.costs = Costs(self._runs, info.window, info.bills)

    def figures(self, *, with_fairness: bool = True) -> list[Figures]:
        """Return the figures of each run; without fairness its index, which takes long, is nan."""
        runs, times = self._runs, self._builder_times()
        spreads, numbers = self._spreads(), range(len(runs.seeds))
        costs = list(map(self.costs.total, numbers))
        months = [None if length is None else length / MONTH for length in self.lengths]
        served = [spread.count for spread in spreads["response_time"]]
        columns: dict[str, Sequence[Any]] = {
            "seed": runs.seeds,
            "workload": [self._info.workload] * len(runs.seeds),
            "jobs": self._counts(),
            "attempts": self._attempts(),
            "makespan": self.makespans,
            **spreads,
            "builders": builder_counts(runs, self._builders_in),
            "builder_time": times.present,
            "utilization": list(map(_ratio, times.busy, times.slots)),
            "fairness_index": self._fairness() if with_fairness else [math.nan] * len(runs.seeds),
            "cost": costs,
            "idle_share": list(map(self.costs.idle_share, numbers)),
            "throughput_per_s": list(map(_ratio, served, self.lengths)),
            "cost_per_month": list(map(_ratio, costs, months)),
            "warnings": [self._warnings()] * len(runs.seeds),
        }
        if self.jobs.has_needs:
            columns["pipelines"] = self._pipelines()
        if self._info.workload != "open":
            alone = self._parts(self.jobs.served & (self.jobs.matrix.codes < 0))
            ended = [
                spread.count + int(served.sum())
                for spread, served in zip(spreads["matrix_response_time"], alone, strict=True)
            ]
            hours = [None if length is None else length / HOUR for length in self.lengths]
            columns["runs_per_hour"] = list(map(_ratio, ended, hours))
        keys = keys_of_switches(self._info.fair_share, self._info.switch_times)
        if keys:
            columns["switches"], columns["switching_time"] = self._switches(keys)
        rows = zip(*columns.values(), strict=True)
        return [Figures(**dict(zip(columns, row, strict=True))) for row in rows]

    def parts(self) -> CostParts:
        """Return the parts of a single run."""
        jobs, started, lost = self.jobs, self.jobs.started(), self.lost
        of, places = self.costs.places(jobs, slice(None))
        by_place = np.split(np.argsort(of, kind="stable"), np.cumsum(np.bincount(of))[:-1])
        rows = dict(zip(places, by_place, strict=False))

        def spreads_of(some_places: Sequence[Place]) -> tuple[Spread, Spread]:
            each = (rows[place] for place in some_places if place in rows)
            some = np.concatenate([np.arange(0), *each])
            waits, responses = jobs.waiting_time[some], jobs.response_time[some]
            return spread_of(waits[started[some]]), spread_of(responses[jobs.served[some]])

        ended = map(by_outcome, jobs.outcomes(of, len(places)))
        endless = zip(lost.platform.tolist(), lost.invocation.tolist(), strict=True)
        never = Counter[Place](("", platform, charged or "") for platform, charged in endless)
        found = dict(zip(places, ended, strict=True))
        return CostParts(self.costs, self.lengths[0], found, never, spreads_of)

    def _builder_times(self) -> BuilderTimes:
        return builder_times(self._runs, self._info.window)

    def _attempts(self) -> list[int]:
        attempts = np.where(self.jobs.shared, 0, self.jobs.attempts)
        return list(map(int, self._runs.total(self._run, attempts).tolist()))

    def _fairness(self) -> list[float]:
        """Return the index of each run; with fewer than two parties it is 1."""
        count = len(self._runs.seeds)
        party, names = parties_of(self.jobs, self._info.fair_share)
        if len({*names} - {""}) < 2:
            return [1.0] * count
        return indices_of_runs(self.jobs, self._run, count, party, names, self._info.weights)

    def _warnings(self) -> tuple[str, ...]:
        return tuple(unused_fair_share_keys(self._info.fair_share, self._runs.records))

    def _switches(self, keys: Sequence[str]) -> tuple[list[int], list[float]]:
        """Return the number of switches of each run, and the time that they took."""
        records, window = self.records, self._info.window
        builders = records.builders
        pool_of = dict(zip(builders.builder.codes.tolist(), builders.pool.tolist(), strict=True))
        pools = [pool_of.get(number) or "" for number in range(len(records.pool_of))]
        # what was before a job that counts need not count itself
        is_switch, times = switches_of(records.jobs, pools, keys, self._info.switch_times)
        is_switch &= window.holds(records.jobs.arrived_at)
        run = self._runs.of_builder[records.jobs.builder.codes][is_switch]
        return self._runs.counted(run), self._runs.total(run, times[is_switch]).tolist()

    def _pipelines(self) -> list[PipelineFigures | msgspec.UnsetType]:
        """Return the figures of each run's pipelines, with all jobs of these.

        Also with those jobs that arrived outside the run phase, which alone do not count.
        """
        from farm.results.table.pipelines import measured_pipelines  # noqa: PLC0415 - slow, most runs have none

        records, window = self.records.having(), self._info.window
        if len(self._runs.seeds) == 1:
            table = JobTable(ColumnsOf(records.jobs, records.lost))
            return [figures_of(measured_pipelines(table, records.edges), window)]
        run = self._runs.of_builder[records.jobs.builder.codes]
        rows = self._runs.parts(run, np.arange(len(records.jobs)))
        tables = [JobTable(ColumnsOf(records.jobs.taken(part))) for part in rows]
        return [figures_of(measured_pipelines(table), window) for table in tables]

    def _counts(self) -> list[JobCounts]:
        lost = len(self.lost)
        return [
            JobCounts(submitted=int(ended.sum()) + lost, lost=lost, **by_outcome(ended))
            for ended in self.jobs.outcomes(self._run, len(self._runs.seeds))
        ]

    def _spreads(self) -> dict[str, list[Spread]]:
        jobs = self.jobs
        # as Taskcluster does: of the jobs that ended by the phase's end
        started = jobs.started(self._info.window.end if self._info.as_taskcluster else np.inf)
        in_matrices = first_failures = [np.zeros(0)] * len(self._runs.seeds)
        if jobs.matrix.values:
            unfinished, each = self.lost.names_of_matrices(), self._parts(jobs)
            in_matrices = [one.matrix_response_times(unfinished) for one in each]
            first_failures = [one.times_to_first_failure() for one in each]
        values = {
            "waiting_time": self._parts(jobs.waiting_time, started),
            "response_time": self._parts(jobs.response_time, jobs.served),
            "stretch": self._parts(jobs.stretch, jobs.has_stretch),
            "matrix_response_time": in_matrices,
            "first_failure_time": first_failures,
        }
        return {name: list(map(spread_of, found)) for name, found in values.items()}

    def _parts(self, values: Any, some: Flags | None = None) -> list[Any]:
        """Return the values of each run, of some of the jobs."""
        if isinstance(values, Jobs) and len(self._runs.seeds) > 1:
            rows = self._runs.parts(self._run, np.arange(len(values)))
            return [values.taken(one) for one in rows]
        if some is None or some.all():
            return self._runs.parts(self._run, values)
        return self._runs.parts(self._run[some], values[some])


def _ratio(part: float, whole: float | None) -> float | None:
    return part / whole if whole else None


def parties_of(jobs: Jobs, fair_share: Sequence[str]) -> tuple[Numbers, list[str]]:
    """Return the number of the party that is charged for each job, and the parties' names."""
    if fair_share:
        of, values = values_of(jobs, fair_share[0])
        return of, ["" if value == NO_KEY else value for value in values]
    invocations = [invocation_of(one, ()) for one in jobs.attributes.values]
    # jobs without attributes are the last
    of, names = numbered([*(name.partition("/")[0] for name in invocations), ""])
    return of[jobs.attributes.codes], names
