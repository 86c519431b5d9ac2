"""Comparison of runs: what differs, which is better, and whether that is significant."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import msgspec
import numpy as np

from farm.core.errors import InputError
from farm.core.json_names import json_name
from farm.results.comparison.metrics import (
    METRICS,
    RELEVANT,
    Better,
    JobMetric,
    Metric,
    Unit,
    Verdict,
    verdict_of,
)
from farm.results.comparison.significance import (
    Interval,
    difference_of,
    inverted_share,
    mean_of,
    paired_interval,
    welch_interval,
)
from farm.results.jobs_table import JobRow
from farm.results.recorded_run import RecordedRun
from farm.results.run_directory import Run
from farm.results.summary.descriptive_statistics import Floats


class MetricComparison(msgspec.Struct, frozen=True):
    """One metric in the base run and in another; ``relative`` is difference ÷ base."""

    metric: str
    unit: Unit
    better: Better | None
    base: float | None
    other: float | None
    difference: float | None
    relative: float | None
    interval: Interval | None
    verdict: Verdict | None


class JobByJob(msgspec.Struct, frozen=True, rename=json_name):
    """The jobs that two runs share. Spans are seconds; None if no job has the value in both."""

    common: int
    only_base: int
    only_other: int
    median_response_difference_time: float | None
    median_absolute_response_difference_time: float | None
    #: jobs that ended with another outcome
    ended_differently: int
    #: share of pairs of jobs that were dispatched in the other order, 0 to 1
    inverted_dispatch_pairs: float | None


class Agreement(msgspec.Struct, frozen=True, rename=json_name):
    """How well two runs of one scenario agree: a live run against its simulation."""

    #: (other - base) ÷ base of mean response time
    mean_response_relative: float | None
    #: per job, relative to the base's mean response time
    median_absolute_relative: float | None
    same_outcomes: bool


class PairComparison(msgspec.Struct, frozen=True):
    """The base run against one other."""

    base: str
    other: str
    worlds: tuple[str, str]
    metrics: tuple[MetricComparison, ...]
    jobs: JobByJob | None
    agreement: Agreement
    note: str = ""


class Comparison(msgspec.Struct, frozen=True):
    """The first run against each of the others."""

    pairs: tuple[PairComparison, ...]

    def to_json(self) -> bytes:
        """Return the comparison as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)


ComparedRun = Run | RecordedRun


class Setting:
    """Runs of one scenario, in one world, under one policy, with different seeds."""

    def __init__(self, run: ComparedRun) -> None:
        self.runs = {run.summary.seed: run}
        self.key = setting_of(run)

    @property
    def first(self) -> ComparedRun:
        """The run that was named first."""
        return next(iter(self.runs.values()))

    @property
    def label(self) -> str:
        """The name: that of its first run, and the number of runs."""
        more = f" (mean of {len(self.runs)} seeds)" if len(self.runs) > 1 else ""
        return self.first.label + more

    def mean(self, metric: Metric) -> float | None:
        """Return a metric's mean over the seeds; None if a run lacks it."""
        values = [metric.value(run.summary) for run in self.runs.values()]
        numbers = [value for value in values if value is not None]
        return None if len(numbers) < len(values) else math.fsum(numbers) / len(numbers)


def setting_of(run: ComparedRun) -> str:
    """Return a value that is equal for runs that differ by their seed alone."""
    text = re.sub(r"(?m)^seed:.*\n?", "", run.scenario_text)
    return f"{run.summary.world}\n{run.summary.policy}\n{text}"


def settings_of(runs: Sequence[ComparedRun]) -> list[Setting]:
    """Return the settings in order of their first runs; a repeated seed starts another one.

    If all runs are of one setting there is nothing to pool: each run is a setting.
    """
    settings: list[Setting] = []
    for run in runs:
        key, seed = setting_of(run), run.summary.seed
        same = next((s for s in settings if s.key == key and seed not in s.runs), None)
        if same is None:
            settings.append(Setting(run))
        else:
            same.runs[seed] = run
    return settings if len(settings) > 1 else [Setting(run) for run in runs]


def compare(runs: Sequence[ComparedRun], *, relevant: float = RELEVANT) -> Comparison:
    """Compare the first setting with each of the others, pooling the seeds of a setting.

    A difference below ``relevant``, a share of the base, is called small. The bootstrap's resamples
    are the same whatever else is compared. Raises InputError for fewer than two runs, and for
    runs that cannot be read.
    """
    if len(runs) < 2:
        raise InputError(f"{len(runs)} run given; a comparison takes two or more")
    base, *others = settings_of(runs)
    return Comparison(tuple(_compare_pair(base, other, relevant) for other in others))


def _compare_pair(base: Setting, other: Setting, relevant: float) -> PairComparison:
    found = CommonJobs(base, other)
    metrics = tuple(_compare_metric(m, base, other, found, relevant) for m in METRICS)
    jobs = _job_by_job(found) if found.pairs else None
    return PairComparison(
        base=base.label,
        other=other.label,
        worlds=(base.first.summary.world, other.first.summary.world),
        metrics=metrics,
        jobs=jobs,
        agreement=_agreement(base, other, jobs),
        note=found.note,
    )


Pairs = list[tuple[JobRow, JobRow]]


class CommonJobs:
    """The jobs common to both settings that arrived in the run phase, seed by seed."""

    def __init__(self, base: Setting, other: Setting) -> None:
        both = [(base.runs[seed], other.runs[seed]) for seed in base.runs if seed in other.runs]
        self.by_run: list[Pairs] = []
        self.base, self.other = _rows(base), _rows(other)
        self.impostors = 0
        for one, two in both or [(base.first, other.first)]:
            pairs = _same_ids(_counted(one), _counted(two))
            self.by_run.append([pair for pair in pairs if _same_job(*pair)])
            self.impostors += len(pairs) - len(self.by_run[-1])
        self.pairs = [pair for pairs in self.by_run for pair in pairs]

    @property
    def note(self) -> str:
        """What a reader must know about the jobs."""
        if self.impostors:
            share = f"{self.impostors:,} jobs have the same id and are different jobs"
            rest = ", and are not compared" if self.pairs else ": there is nothing to compare"
            return f"{share}{rest} job by job"
        if not self.pairs:
            return "these runs have no job in common: job by job there is nothing to compare"
        return ""


def _rows(setting: Setting) -> list[JobRow]:
    return [row for run in setting.runs.values() for row in _counted(run)]


def _counted(run: ComparedRun) -> list[JobRow]:
    window = run.summary.window
    return [row for row in run.jobs if window.start <= row.arrived_at < window.end]


def _same_ids(base: Sequence[JobRow], other: Sequence[JobRow]) -> Pairs:
    """Return the common ids, in order of submission in the base run (ties by id)."""
    theirs = {row.job_id: row for row in other}
    pairs = [(row, theirs[row.job_id]) for row in base if row.job_id in theirs]
    pairs.sort(key=lambda pair: (pair[0].submitted_at, pair[0].job_id))
    return pairs


def _same_job(one: JobRow, two: JobRow) -> bool:
    """Return whether two rows are of one job, by its platform and service time alone."""
    if (one.platform, one.matrix) != (two.platform, two.matrix):
        return False
    mine, theirs = _time_alone(one), _time_alone(two)
    return mine is None or theirs is None or math.isclose(mine, theirs, rel_tol=1e-6)


def _time_alone(row: JobRow) -> float | None:
    if row.outcome == "cancelled" or not row.stretch or not row.response_time:
        return None
    return row.response_time / row.stretch


def _compare_metric(
    metric: Metric, base: Setting, other: Setting, found: CommonJobs, relevant: float
) -> MetricComparison:
    one, two = base.mean(metric), other.mean(metric)
    difference = None if one is None or two is None else two - one
    interval = None if difference is None else _interval(metric, base, other, found)
    return MetricComparison(
        metric=metric.name,
        unit=metric.unit,
        better=metric.better,
        base=one,
        other=two,
        difference=difference,
        relative=difference / one if difference is not None and one else None,
        interval=interval,
        verdict=None
        if one is None or difference is None
        else verdict_of(metric.better, one, difference, interval, relevant),
    )


def _interval(metric: Metric, base: Setting, other: Setting, found: CommonJobs) -> Interval | None:
    """Return the interval of a difference: over the seeds, or for single runs over the jobs."""
    if min(len(base.runs), len(other.runs)) > 1:
        return _interval_over_seeds(metric, base, other)
    if metric.of_jobs is None or len(base.runs) + len(other.runs) > 2:
        return None
    if found.pairs:
        return paired_interval(_differences(found.pairs, metric.of_jobs), np.random.default_rng(1))
    return welch_interval(_column(found.base, metric.of_jobs), _column(found.other, metric.of_jobs))


def _interval_over_seeds(metric: Metric, base: Setting, other: Setting) -> Interval | None:
    one = {seed: metric.value(run.summary) for seed, run in base.runs.items()}
    two = {seed: metric.value(run.summary) for seed, run in other.runs.items()}
    if one.keys() == two.keys():
        differences = np.array([(two[s] or 0.0) - (one[s] or 0.0) for s in sorted(one)])
        return mean_of(differences).interval(f"paired t over {len(one)} seeds")
    samples = [np.array([value or 0.0 for value in seeds.values()]) for seeds in (one, two)]
    return difference_of(*samples).interval(f"Welch over {len(one)} and {len(two)} seeds")


def _job_by_job(found: CommonJobs) -> JobByJob:
    pairs = found.pairs
    inverted = [_inverted_dispatches(run) for run in found.by_run]
    shares = [share for share in inverted if share is not None]
    differences = _differences(pairs, "response_time")
    return JobByJob(
        common=len(pairs),
        only_base=len(found.base) - len(pairs),
        only_other=len(found.other) - len(pairs),
        median_response_difference_time=_median(differences),
        median_absolute_response_difference_time=_median(np.abs(differences)),
        ended_differently=sum(one.outcome != two.outcome for one, two in pairs),
        inverted_dispatch_pairs=math.fsum(shares) / len(shares) if shares else None,
    )


def _inverted_dispatches(pairs: Pairs) -> float | None:
    """Return the share of pairs of jobs dispatched in the opposite order; ties by submission."""
    instants = [
        (one.dispatched_at, two.dispatched_at)
        for one, two in pairs
        if one.dispatched_at is not None and two.dispatched_at is not None
    ]
    if len(instants) < 2:
        return None
    one, two = np.array(instants, dtype=np.float64).T
    in_base = np.argsort(one, kind="stable")
    ranks = np.empty(len(instants), dtype=np.int64)
    ranks[np.argsort(two, kind="stable")] = np.arange(len(instants))
    return inverted_share(ranks[in_base])


def _agreement(base: Setting, other: Setting, jobs: JobByJob | None) -> Agreement:
    response = next(metric for metric in METRICS if metric.name == "response_time mean")
    one, two = base.mean(response), other.mean(response)
    median = jobs.median_absolute_response_difference_time if jobs else None
    return Agreement(
        mean_response_relative=(two - one) / one if one and two is not None else None,
        median_absolute_relative=median / one if one and median is not None else None,
        same_outcomes=jobs is not None
        and jobs.ended_differently == jobs.only_base == jobs.only_other == 0,
    )


def _differences(pairs: Pairs, metric: JobMetric) -> Floats:
    found = [(_value(one, metric), _value(two, metric)) for one, two in pairs]
    return np.array([y - x for x, y in found if x is not None and y is not None], dtype=np.float64)


def _column(rows: Sequence[JobRow], metric: JobMetric) -> Floats:
    values = [_value(row, metric) for row in rows]
    return np.array([value for value in values if value is not None], dtype=np.float64)


def _value(row: JobRow, metric: JobMetric) -> float | None:
    """Return a job's value if the summary counts it: a cancelled job was not served."""
    if metric != "waiting_time" and row.outcome == "cancelled":
        return None
    value: float | None = getattr(row, metric)
    return value


def _median(values: Floats) -> float | None:
    return float(np.median(values)) if len(values) else None
