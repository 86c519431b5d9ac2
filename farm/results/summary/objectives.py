"""Objectives and checks: ``p95(waiting_time) < 5m and mean(stretch) <= 3``.

An objective is one or several terms joined by ``and``. A term compares a statistic (mean, max, or a
percentile: p50, p95, p99.9) of a metric of the jobs (waiting_time response_time stretch
matrix_response_time) with a limit: a span of time, or for stretch a number.
``p95(linux.waiting_time)`` is of the jobs that the pool linux can run, or of those for the platform
linux. A check may also be of a figure of the whole run: ``utilization > 0.6``, ``cost <= 120``.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence

import msgspec
import numpy as np

from farm.core.errors import InputError, not_among
from farm.core.model import Cause, Platform
from farm.results.descriptive_statistics import quantile
from farm.results.summary.builder_time import Window
from farm.results.table.columns import Floats
from farm.results.table.job_columns import Jobs
from farm.results.table.records import RunRecords
from farm.scenario import Pool
from farm.units import format_roughly, parse_time

STATISTICS = ("mean", "max", "p50", "p95", "p99.9")
"""Statistics as they are listed in messages; every percentile from p0 to p100 is allowed."""
METRICS = ("waiting_time", "response_time", "stretch", "matrix_response_time")
SHORT = {"wait": "waiting_time", "waiting": "waiting_time", "response": "response_time"}

#: figures of the whole run, by their names in summary.json
FIGURES = (
    "makespan", "builder_time", "cost", "utilization", "idle_share", "fairness_index",
    "throughput_per_s",
)  # fmt: skip

_TERM = re.compile(
    r"\s*([a-z]+[0-9.]*)\s*\(\s*(?:(\S+)\.)?([a-z_]+)\s*\)\s*(<=|<)\s*(\S.*?)\s*\Z",
    re.IGNORECASE,
)
_FIGURE = re.compile(r"\s*([a-z_]+)\s*(<=|<|>=|>)\s*(\S.*?)\s*\Z", re.IGNORECASE)
#: the same quantity as sweeps and comparisons name it: waiting_time.p95, waiting time p95
_NAMED = re.compile(
    r"\s*(?:(\S+)\.)?([a-z]+(?:[_ ][a-z]+)*)[. ](mean|max|p[0-9.]+)\s*(<.*)", re.IGNORECASE
)
_PERCENTILE = re.compile(r"p([0-9]{1,3}(?:\.[0-9]+)?)")
_GRAMMAR = (
    "allowed: STATISTIC([POOL.]METRIC) < LIMIT, several joined by and, such as "
    f"p95(waiting_time) < 5m; statistics: {' '.join(STATISTICS)} (any percentile); "
    f"metrics: {' '.join(METRICS)}"
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
        if not self.statistic:
            return self.metric
        return f"{self.statistic}({self.pool}{'.' * bool(self.pool)}{self.metric})"

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


def parse_objective(
    text: str, option: str = "--slo", *, with_figures: bool = False
) -> tuple[Term, ...]:
    """Return the terms of an objective; raises InputError that says what is allowed.

    Args:
        text: terms joined by ``and``.
        option: where it was given, for messages.
        with_figures: figures of the whole run are allowed, too (``FIGURES``).
    """
    parts = re.split(r"\band\b", text, flags=re.IGNORECASE)
    return tuple(_term(part, option, with_figures=with_figures) for part in parts)


def _term(text: str, option: str, *, with_figures: bool) -> Term:
    figure = _FIGURE.fullmatch(text) if with_figures else None
    if figure is not None:
        return _figure(figure[1].lower(), figure[2], figure[3], option)
    if (named := _NAMED.fullmatch(text)) is not None:
        pool = f"{named[1]}." if named[1] else ""
        text = f"{named[3]}({pool}{named[2].replace(' ', '_')}) {named[4]}"
    found = _TERM.match(text)
    if found is None:
        raise InputError(f"{option}: found {text.strip()!r}; {_GRAMMAR}")
    statistic, metric = found[1].lower(), found[3].lower()
    metric = SHORT.get(metric, metric)
    if not _is_statistic(statistic):
        raise InputError(f"{option}: found statistic {statistic!r}; {_GRAMMAR}")
    if metric not in METRICS:
        raise InputError(f"{option}: found metric {metric!r}; {_GRAMMAR}")
    limit = _limit(found[5], metric, option)
    term = Term(statistic, metric, found[4] == "<", limit, found[2] or "")
    if term.limit < 0 or (term.strict and term.limit == 0):
        raise InputError(f"{option}: {text.strip()!r} can never be met: nothing is below 0")
    return term


def _is_statistic(text: str) -> bool:
    percentile = _PERCENTILE.fullmatch(text)
    return text in ("mean", "max") or (percentile is not None and float(percentile[1]) <= 100.0)


def _figure(name: str, sign: str, limit: str, option: str) -> Term:
    """Return the term of a figure of the whole run."""
    if name not in FIGURES:
        of_jobs = _GRAMMAR.removeprefix("allowed: ")
        raise InputError(f"{option}: figure {not_among(name, FIGURES)}; or of jobs: {of_jobs}")
    term = Term("", name, sign in "<>", 0.0, above=sign.startswith(">"))
    return msgspec.structs.replace(term, limit=_limit(limit, name, option))


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
        if term.pool and term.pool not in allowed:
            raise InputError(f"{option}: {term.name}: pool {not_among(term.pool, allowed)}")


def measure(records: RunRecords, window: Window, term: Term, pools: Sequence[Pool] = ()) -> float:
    """Return the term's statistic in a run; 0 if no job has such a value. See ``measured``."""
    value = measured(records, window, term, pools)
    return 0.0 if value is None else value


def measured(
    records: RunRecords, window: Window, term: Term, pools: Sequence[Pool] = ()
) -> float | None:
    """Return the term's statistic in a run (percentiles: type 7); None if no job has a value.

    A job that was never served, or was given up, counts as infinity, and so does a matrix with such
    a job; cancelled ones are ignored.

    Args:
        records: of the run.
        window: the phase that counts.
        term: of jobs, not of the whole run.
        pools: the farm's, for terms of one of them (``check_pools``).
    """
    jobs, lost = (
        _of_pool(table, term.pool, pools) for table in records.within(window.start, window.end)
    )
    given_up = jobs.cause.where(Cause.UNRUNNABLE)
    if term.metric == "matrix_response_time":
        never_whole = jobs.taken(given_up).names_of_matrices() | lost.names_of_matrices()
        values, never = jobs.matrix_response_times(never_whole), len(never_whole)
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
    pool = next((pool for pool in pools if pool.name == name), None)
    if pool is None:
        is_asked = [str(platform) == name for platform in jobs.platform.values]
    else:
        is_asked = [pool.platform.can_run(platform) for platform in jobs.platform.values]
    return jobs.taken(np.isin(jobs.platform.numbers, np.flatnonzero(is_asked)))


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
