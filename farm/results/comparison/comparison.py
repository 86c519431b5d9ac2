"""Runs side by side: what differs, which is better, and whether that is noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
import numpy as np

from farm.core.errors import InputError
from farm.results.comparison.statistics import (
    Interval,
    inverted_share,
    paired_interval,
    welch_interval,
)
from farm.results.jobs_table import JobRow
from farm.results.json_names import door_name
from farm.results.run_directory import Run
from farm.results.summary.percentiles import Floats
from farm.results.summary.summary import Summary

Better = Literal["lower", "higher"]
Verdict = Literal["same", "better", "worse", "noise", "differs"]
"""``noise``: the confidence interval holds zero. ``differs``: neither direction is better."""
Unit = Literal["s", "count", "ratio"]
JobMetric = Literal["waiting_time", "response_time", "stretch"]


class Metric(msgspec.Struct, frozen=True):
    """A number of the summary, which way it is better, and the job column behind its mean."""

    name: str
    unit: Unit
    value: Callable[[Summary], float | None]
    better: Better | None = "lower"
    of_jobs: JobMetric | None = None


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


class JobByJob(msgspec.Struct, frozen=True, rename=door_name):
    """The same jobs in two runs. Spans are seconds; None where no job has the number in both."""

    common: int
    only_base: int
    only_other: int
    median_response_difference_time: float | None
    median_absolute_response_difference_time: float | None
    #: jobs that ended with another outcome
    ended_differently: int
    #: share of pairs of jobs that were dispatched in the other order, 0 to 1
    inverted_dispatch_pairs: float | None


class Agreement(msgspec.Struct, frozen=True, rename=door_name):
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


METRICS: tuple[Metric, ...] = (
    Metric("waiting_time mean", "s", lambda s: s.waiting_time.mean, of_jobs="waiting_time"),
    Metric("waiting_time p50", "s", lambda s: s.waiting_time.p50),
    Metric("waiting_time p95", "s", lambda s: s.waiting_time.p95),
    Metric("waiting_time max", "s", lambda s: s.waiting_time.max),
    Metric("response_time mean", "s", lambda s: s.response_time.mean, of_jobs="response_time"),
    Metric("response_time p50", "s", lambda s: s.response_time.p50),
    Metric("response_time p95", "s", lambda s: s.response_time.p95),
    Metric("response_time max", "s", lambda s: s.response_time.max),
    Metric("stretch mean", "ratio", lambda s: s.stretch.mean, of_jobs="stretch"),
    Metric("stretch p95", "ratio", lambda s: s.stretch.p95),
    Metric("matrix_response_time mean", "s", lambda s: s.matrix_response_time.mean),
    Metric("first_failure_time mean", "s", lambda s: s.first_failure_time.mean),
    Metric("makespan", "s", lambda s: s.makespan),
    Metric("jobs submitted", "count", lambda s: s.jobs.submitted, None),
    Metric("jobs succeeded", "count", lambda s: s.jobs.succeeded, "higher"),
    Metric("jobs failed", "count", lambda s: s.jobs.failed),
    Metric("jobs cancelled", "count", lambda s: s.jobs.cancelled, None),
    Metric("jobs lost", "count", lambda s: s.jobs.lost),
    Metric("attempts", "count", lambda s: s.attempts),
    Metric("builder_time", "s", lambda s: s.builder_time),
    Metric("builders max", "count", lambda s: s.builders.max_running),
    Metric("over_provisioned_time", "s", lambda s: s.builders.over_provisioned_time),
    Metric("utilization", "ratio", lambda s: s.utilization, "higher"),
    Metric("fairness_index", "ratio", lambda s: s.fairness_index, "higher"),
)


def compare(runs: Sequence[Run], rng: np.random.Generator) -> Comparison:
    """Compare the first run with each of the others; ``rng`` draws the bootstrap's resamples.

    Raises InputError for fewer than two runs, and for runs that cannot be read.
    """
    if len(runs) < 2:
        raise InputError(f"{len(runs)} run given; a comparison takes two or more")
    base, *others = runs
    return Comparison(tuple(_compare_pair(base, other, rng) for other in others))


def _compare_pair(base: Run, other: Run, rng: np.random.Generator) -> PairComparison:
    mine, theirs = _counted(base), _counted(other)
    pairs = _common_jobs(mine, theirs)
    metrics = tuple(_compare_metric(m, (base, mine), (other, theirs), pairs, rng) for m in METRICS)
    jobs = _job_by_job(len(mine), len(theirs), pairs) if pairs else None
    note = (
        "" if pairs else "these runs have no job in common: job by job there is nothing to compare"
    )
    return PairComparison(
        base=str(base.path),
        other=str(other.path),
        worlds=(base.summary.world, other.summary.world),
        metrics=metrics,
        jobs=jobs,
        agreement=_agreement(base.summary, other.summary, jobs),
        note=note,
    )


Pairs = list[tuple[JobRow, JobRow]]
Counted = tuple[Run, list[JobRow]]
"""A run with those of its jobs that arrived in its run phase."""


def _counted(run: Run) -> list[JobRow]:
    window = run.summary.window
    return [row for row in run.jobs if window.holds(row.arrived_at)]


def _common_jobs(base: Sequence[JobRow], other: Sequence[JobRow]) -> Pairs:
    """Return the jobs in both runs, in order of submission in the base run (ties by id)."""
    theirs = {row.job_id: row for row in other}
    pairs = [(row, theirs[row.job_id]) for row in base if row.job_id in theirs]
    pairs.sort(key=lambda pair: (pair[0].submitted_at, pair[0].job_id))
    return pairs


def _compare_metric(
    metric: Metric, base: Counted, other: Counted, pairs: Pairs, rng: np.random.Generator
) -> MetricComparison:
    (base_run, mine), (other_run, theirs) = base, other
    one, two = metric.value(base_run.summary), metric.value(other_run.summary)
    difference = None if one is None or two is None else two - one
    interval = None
    if metric.of_jobs is not None:
        if pairs:
            interval = paired_interval(_differences(pairs, metric.of_jobs), rng)
        else:
            columns = _column(mine, metric.of_jobs), _column(theirs, metric.of_jobs)
            interval = welch_interval(*columns)
    return MetricComparison(
        metric=metric.name,
        unit=metric.unit,
        better=metric.better,
        base=one,
        other=two,
        difference=difference,
        relative=difference / one if difference is not None and one else None,
        interval=interval,
        verdict=_verdict(metric.better, difference, interval),
    )


def _verdict(
    better: Better | None, difference: float | None, interval: Interval | None
) -> Verdict | None:
    if difference is None:
        return None
    if difference == 0:
        return "same"
    if interval is not None and interval.holds_zero:
        return "noise"
    if better is None:
        return "differs"
    return "better" if (difference < 0) == (better == "lower") else "worse"


def _job_by_job(base: int, other: int, pairs: Pairs) -> JobByJob:
    differences = _differences(pairs, "response_time")
    return JobByJob(
        common=len(pairs),
        only_base=base - len(pairs),
        only_other=other - len(pairs),
        median_response_difference_time=_median(differences),
        median_absolute_response_difference_time=_median(np.abs(differences)),
        ended_differently=sum(one.outcome != two.outcome for one, two in pairs),
        inverted_dispatch_pairs=_inverted_dispatches(pairs),
    )


def _inverted_dispatches(pairs: Pairs) -> float | None:
    """Return the share of pairs of jobs dispatched in the other order; ties go by submission."""
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


def _agreement(base: Summary, other: Summary, jobs: JobByJob | None) -> Agreement:
    one, two = base.response_time.mean, other.response_time.mean
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
    """Return a job's number where the summary counts it: a cancelled job was not served."""
    if metric != "waiting_time" and row.outcome == "cancelled":
        return None
    value: float | None = getattr(row, metric)
    return value


def _median(values: Floats) -> float | None:
    return float(np.median(values)) if len(values) else None
