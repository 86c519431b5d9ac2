"""Objectives and checks: ``p95(waiting_time) < 5m and mean(stretch) <= 3``.

An objective is one or several terms joined by ``and``. A term compares a statistic (mean, max, or a
percentile: p50, p95, p99.9) of a metric of the jobs (waiting_time response_time stretch
matrix_response_time pipeline_response_time) with a limit: a span of time, or for stretch a number.
``p95(linux.waiting_time)`` is of the jobs that the pool linux can run,
``p95(amd64/virtual.waiting_time)`` of those for that platform. A term may also be of a figure of
the whole run, ``utilization > 0.6``, ``cost <= 120``, ``jobs_failed < 1``, or of a pool or
platform: ``linux.cost < 50``.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Final

import msgspec
import numpy as np

from farm.columns import Floats, known
from farm.core.errors import InputError, not_among
from farm.core.model import Cause, Platform
from farm.results.descriptive_statistics import quantile
from farm.results.summary.costs import CostPart
from farm.results.summary.histogram import Histogram
from farm.results.summary.run_phase import Window, arrived_in
from farm.results.summary.summary import Summary
from farm.results.summary.tally import MEASURED, Tallied
from farm.results.table.job_columns import Jobs
from farm.results.table.job_table import ColumnsOf, JobTable
from farm.results.table.recorder import RunRecords
from farm.scenario import Pool
from farm.units import format_roughly, parse_time

STATISTICS = ("mean", "max", "p50", "p95", "p99.9")
"""Statistics as they are listed in messages; every percentile from p0 to p100 is allowed."""
METRICS = (
    "waiting_time",
    "response_time",
    "stretch",
    "matrix_response_time",
    "pipeline_response_time",
)
SHORT = {"wait": "waiting_time", "waiting": "waiting_time", "response": "response_time"}

OF_JOB_COUNTS: Final = ("submitted", "succeeded", "failed", "cancelled", "lost")

#: figures of the whole run, by their names in summary.json
FIGURES: Final[Mapping[str, Callable[[Summary], float | None]]] = {
    **{
        name: attrgetter(name)
        for name in (
            "makespan",
            "builder_time",
            "cost",
            "utilization",
            "idle_share",
            "fairness_index",
            "throughput_per_s",
            "attempts",
            "switches",
            "switching_time",
        )
    },
    "max_builders": attrgetter("builders.max_running"),
    **{f"jobs_{name}": attrgetter(f"jobs.{name}") for name in OF_JOB_COUNTS},
}
#: figures of a pool or platform
PART_FIGURES: Final[Mapping[str, Callable[[CostPart], float | None]]] = {
    **{name: attrgetter(name) for name in ("cost", "idle_share", "throughput_per_s")},
    **{f"jobs_{name}": attrgetter(name) for name in OF_JOB_COUNTS},
}
#: the names of figures in sweeps and comparisons
OTHER_NAMES: Final = {"throughput": "throughput_per_s", "builders_max": "max_builders"}
OF_BUILDERS: Final = ("builder_time", "cost", "utilization", "idle_share", "max_builders")
"""Figures that more builders make worse, or do not help."""

_TERM = re.compile(
    r"\s*([a-z]+[0-9.]*)\s*\(\s*(?:(\S+)\.)?([a-z_]+)\s*\)\s*(<=|<|>=|>)\s*(\S.*?)\s*\Z",
    re.IGNORECASE,
)
_FIGURE = re.compile(
    r"\s*(?:(\S+)\.)?([a-z]+(?:[_ ][a-z]+)*)\s*(<=|<|>=|>)\s*(\S.*?)\s*\Z", re.IGNORECASE
)
#: the same quantity as sweeps and comparisons name it: waiting_time.p95, waiting time p95
_NAMED = re.compile(
    r"\s*(?:(\S+)\.)?([a-z]+(?:[_ ][a-z]+)*)[. ](mean|max|p[0-9.]+)\s*([<>].*)", re.IGNORECASE
)
_PERCENTILE = re.compile(r"p([0-9]{1,3}(?:\.[0-9]+)?)")
_GRAMMAR = (
    "allowed: STATISTIC([POOL.]METRIC) < LIMIT, several joined by and, such as "
    f"p95(waiting_time) < 5m; statistics: {' '.join(STATISTICS)} (any percentile); "
    f"metrics: {' '.join(METRICS)}; or FIGURE > LIMIT, figures: {' '.join(FIGURES)}"
)


class Term(msgspec.Struct, frozen=True):
    """One comparison; ``limit`` in seconds for a metric that is a time, else a plain number."""

    #: empty: a figure of the whole run
    statistic: str
    metric: str
    strict: bool
    limit: float
    #: of the jobs that this pool can run, or for this platform; empty: of all
    pool: str = ""
    #: the value has to be above the limit
    above: bool = False

    def is_met_by(self, value: float) -> bool:
        """Return whether this value meets the objective (infinity is never below a limit)."""
        if self.above:
            return value > self.limit or (not self.strict and value == self.limit)
        return value < self.limit or (not self.strict and value == self.limit)

    @property
    def name(self) -> str:
        """The measured quantity: ``p95(waiting_time)``."""
        whose = f"{self.pool}." if self.pool else ""
        return f"{self.statistic}({whose}{self.metric})" if self.statistic else whose + self.metric

    @property
    def helped_by_builders(self) -> bool:
        """Whether a farm of more builders meets it sooner; else one of fewer does."""
        if self.metric in OF_BUILDERS:
            return False
        is_more_better = self.metric in ("throughput_per_s", "fairness_index", "jobs_succeeded")
        return self.above == is_more_better

    @property
    def is_time(self) -> bool:
        """Whether the metric is a span of time."""
        return self.metric.endswith(("_time", "makespan"))

    def show(self, value: float) -> str:
        """Return a value of this term's metric as readable text."""
        if not math.isfinite(value):
            return "never"
        return format_roughly(value) if self.is_time else f"{value:.3g}"

    def __str__(self) -> str:
        sign = ">" if self.above else "<"
        return f"{self.name} {sign}{'' if self.strict else '='} {self.show(self.limit)}"


def parse_objective(text: str, option: str = "--slo") -> tuple[Term, ...]:
    """Return the terms of an objective; raises InputError that says what is allowed.

    Args:
        text: terms joined by ``and``.
        option: where it was given, for messages.
    """
    return tuple(_term(part, option) for part in re.split(r"\band\b", text, flags=re.IGNORECASE))


def _term(text: str, option: str) -> Term:
    named = _NAMED.fullmatch(text)
    if named is not None:
        pool = f"{named[1]}." if named[1] else ""
        text = f"{named[3]}({pool}{named[2].replace(' ', '_')}) {named[4]}"
    elif (figure := _FIGURE.fullmatch(text)) is not None:
        return _figure(figure[1] or "", figure[2], figure[3], figure[4], option)
    found = _TERM.match(text)
    if found is None:
        raise InputError(f"{option}: found {text.strip()!r}; {_GRAMMAR}")
    statistic, metric = found[1].lower(), found[3].lower()
    metric = SHORT.get(metric, metric)
    if not _is_statistic(statistic):
        raise InputError(f"{option}: found statistic {statistic!r}; {_GRAMMAR}")
    if metric not in METRICS:
        raise InputError(f"{option}: found metric {metric!r}; {_GRAMMAR}")
    if found[2] and metric == "pipeline_response_time":
        raise InputError(
            f"{option}: found {metric} of {found[2]}; allowed: of all jobs, as those of a pipeline "
            "may be for several pools"
        )
    limit, sign = _limit(found[5], metric, option), found[4]
    term = Term(statistic, metric, sign in "<>", limit, found[2] or "", sign.startswith(">"))
    if term.limit < 0 or (term.strict and term.limit == 0 and not term.above):
        raise InputError(f"{option}: {text.strip()!r} can never be met: nothing is below 0")
    return term


def _is_statistic(text: str) -> bool:
    percentile = _PERCENTILE.fullmatch(text)
    return text in ("mean", "max") or (percentile is not None and float(percentile[1]) <= 100.0)


def _figure(pool: str, name: str, sign: str, limit: str, option: str) -> Term:
    """Return the term of a figure of the whole run, or of a pool or platform."""
    name = name.lower().replace(" ", "_")
    name = OTHER_NAMES.get(name, name)
    allowed = PART_FIGURES if pool else FIGURES
    if name not in allowed:
        of_jobs = _GRAMMAR.removeprefix("allowed: ").partition("; or FIGURE")[0]
        whose = f" of {pool}" if pool else ""
        raise InputError(
            f"{option}: figure{whose} {not_among(name, allowed)}; or of jobs: {of_jobs}"
        )
    return Term("", name, sign in "<>", _limit(limit, name, option), pool, sign.startswith(">"))


def _limit(text: str, metric: str, option: str) -> float:
    is_time = metric.endswith(("_time", "makespan"))
    try:
        if is_time:
            return parse_time(text)
        limit = float(text)
    except ValueError as error:
        why = str(error) if is_time else f"found {text!r}; allowed: a number"
        raise InputError(f"{option}: limit of {metric}: {why}") from None
    if not math.isfinite(limit):
        raise InputError(f"{option}: limit of {metric}: found {text!r}; allowed: a finite number")
    return limit


def check_pools(terms: Sequence[Term], pools: Sequence[Pool], option: str = "--slo") -> None:
    """Raise InputError for a term of a pool or platform that is none of these pools'."""
    names = [pool.name for pool in pools]
    platforms = [
        str(Platform(processor, pool.platform.virtualized))
        for pool in pools
        for processor in pool.platform.processors or (None,)
    ]
    allowed = [*names, *dict.fromkeys(platforms)]
    for term in terms:
        # jobs may be for a platform that no pool has
        if term.pool and term.pool not in allowed and _platform_named(term.pool) is None:
            raise InputError(f"{option}: {term.name}: pool {not_among(term.pool, allowed)}")


def _platform_named(name: str) -> str | None:
    """Return a platform as tables name it; None: this is no platform."""
    try:
        return str(Platform.parse(name))
    except ValueError:
        return None


def value_of(
    records: RunRecords, summary: Summary, term: Term, pools: Sequence[Pool] = ()
) -> float | None:
    """Return the value of a term in a run; None if nothing has one. See ``measured``."""
    if term.statistic:
        return measured(records, summary.window, term, pools)
    if not term.pool:
        return FIGURES[term.metric](summary)
    part = summary.pools.get(term.pool)
    if part is None:
        part = summary.platforms.get(_platform_named(term.pool) or term.pool)
    return None if part is None else PART_FIGURES[term.metric](part)


def value_of_tallied(records: Tallied, term: Term, pools: Sequence[Pool]) -> float | None:
    """Return the value of a term of the jobs in a run that let its jobs go: all of them ended.

    Raises InputError for what is not known of such a run.
    """
    is_asked = partial(_is_asked, term.pool, pools) if term.pool else None
    values = None
    if term.metric in MEASURED:
        values = records.tally.values_of(term.metric, is_asked)
    if values is None:
        raise InputError(
            f"{term}: found a run whose jobs were too many to be held; allowed there: "
            "waiting_time, response_time, and stretch of all jobs"
        )
    if not isinstance(values, Histogram):
        return _statistic(values, term.statistic)
    if not values.count:
        return None
    spread = values.spread()
    if term.statistic in ("mean", "max"):
        return spread.mean if term.statistic == "mean" else spread.max
    return values.quantile(float(term.statistic[1:]) / 100)


def measured(
    records: RunRecords, window: Window, term: Term, pools: Sequence[Pool] = ()
) -> float | None:
    """Return the term's statistic in a run (percentiles: type 7); None if no job has a value.

    A job that was never served, or was given up, counts as infinity, and so does a matrix with such
    a job, and a pipeline with a job that never ended; cancelled and superseded ones are ignored.

    Args:
        records: of the run.
        window: the phase that counts.
        term: of jobs, not of the whole run.
        pools: the farm's, for terms of one of them (``check_pools``).
    """
    jobs, lost = (_of_pool(table, term.pool, pools) for table in arrived_in(records, window))
    given_up = jobs.cause.where(Cause.UNRUNNABLE)
    if term.metric == "matrix_response_time":
        never_whole = jobs.taken(given_up).names_of_matrices() | lost.names_of_matrices()
        values, never = jobs.matrix_response_times(never_whole), len(never_whole)
    elif term.metric == "pipeline_response_time":
        from farm.results.table.pipelines import pipelines_of  # noqa: PLC0415 - slow, most runs have none

        # with all their jobs, also those that arrived outside the window
        pipelines = pipelines_of(JobTable(ColumnsOf(records.jobs, records.lost)))
        pipelines = pipelines.taken(window.holds(pipelines["arrived_at_s"]))
        values = known(pipelines.counted("response_time_s"))
        never = int((pipelines["outcome"] == "unfinished").sum())
    elif term.metric == "waiting_time":
        never_started = (given_up | jobs.served) & np.isnan(jobs.started_at)
        values, never = jobs.waits(), len(lost) + int(never_started.sum())
    else:
        values = jobs.responses() if term.metric == "response_time" else jobs.stretches()
        never = len(lost) + int((given_up & ~jobs.served).sum())
    return _statistic(np.concatenate((values, np.full(never, math.inf))), term.statistic)


def _of_pool(jobs: Jobs, name: str, pools: Sequence[Pool]) -> Jobs:
    """Return the jobs that a pool can run, or those for a platform; without a name all."""
    if not name:
        return jobs
    is_asked = [_is_asked(name, pools, platform) for platform in jobs.platform.values]
    return jobs.taken(np.isin(jobs.platform.codes, np.flatnonzero(is_asked)))


def _is_asked(name: str, pools: Sequence[Pool], platform: Platform) -> bool:
    """Return whether a term of this pool or platform is of the jobs for a platform."""
    pool = next((pool for pool in pools if pool.name == name), None)
    if pool is None:
        return str(platform) == _platform_named(name)
    return pool.platform.can_run(platform)


def _statistic(values: Floats, statistic: str) -> float | None:
    if not len(values):
        return None
    if statistic == "mean":
        return math.fsum(values.tolist()) / len(values)
    if statistic == "max":
        return float(values.max())
    level = float(statistic[1:]) / 100
    if np.quantile(values, level, method="higher") == math.inf:
        return math.inf
    # the value beyond has no weight, but infinity times 0 would be NaN
    return quantile(np.minimum(values, sys.float_info.max), level)
