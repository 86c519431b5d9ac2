"""Service-level objectives: ``p95(waiting_time) < 5m and mean(stretch) <= 3``.

An objective is one or several terms joined by ``and``; a term compares a statistic (mean p50 p90
p95 p99 max) of a metric (waiting_time response_time stretch matrix_response_time) over the jobs of
a run with a limit: a span of time, or for stretch a number. ``p95(linux.waiting_time)`` is of the
jobs that the pool linux can run.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence

import msgspec
import numpy as np

from farm.core.errors import InputError, not_among
from farm.core.model import Cause
from farm.results.descriptive_statistics import quantile
from farm.results.summary.builder_time import Window
from farm.results.table.columns import Floats
from farm.results.table.job_columns import Jobs
from farm.results.table.records import RunRecords
from farm.scenario import Pool
from farm.units import format_roughly, parse_time

STATISTICS = ("mean", "p50", "p90", "p95", "p99", "max")
METRICS = ("waiting_time", "response_time", "stretch", "matrix_response_time")
SHORT = {"wait": "waiting_time", "waiting": "waiting_time", "response": "response_time"}

_TERM = re.compile(
    r"\s*([a-z0-9]+)\s*\(\s*(?:(\S+)\.)?([a-z_]+)\s*\)\s*(<=|<)\s*(\S.*?)\s*\Z", re.IGNORECASE
)
#: the same quantity as sweeps and comparisons name it: waiting_time.p95, waiting time p95
_NAMED = re.compile(r"\s*(?:(\S+)\.)?([a-z]+(?:[_ ][a-z]+)*)[. ]([a-z0-9]+)\s*(<.*)", re.IGNORECASE)
_GRAMMAR = (
    "allowed: STATISTIC([POOL.]METRIC) < LIMIT, several joined by and, such as "
    f"p95(waiting_time) < 5m; statistics: {' '.join(STATISTICS)}; metrics: {' '.join(METRICS)}"
)


class Term(msgspec.Struct, frozen=True):
    """One comparison; ``limit`` in seconds, for stretch a plain number.

    ``pool``: of the jobs that this pool can run; empty: of all.
    """

    statistic: str
    metric: str
    strict: bool
    limit: float
    pool: str = ""

    def is_met_by(self, value: float) -> bool:
        """Return whether this value meets the objective (infinity never does)."""
        return value < self.limit or (not self.strict and value == self.limit)

    @property
    def name(self) -> str:
        """The measured quantity: ``p95(waiting_time)``."""
        return f"{self.statistic}({self.pool}{'.' * bool(self.pool)}{self.metric})"

    def show(self, value: float) -> str:
        """Return a value of this term's metric as readable text."""
        if not math.isfinite(value):
            return "never"
        return f"{value:.3g}" if self.metric == "stretch" else format_roughly(value)

    def __str__(self) -> str:
        return f"{self.name} {'<' if self.strict else '<='} {self.show(self.limit)}"


def parse_objective(text: str, option: str = "--slo") -> tuple[Term, ...]:
    """Return the terms of an objective; raises InputError that says what is allowed."""
    return tuple(_term(part, option) for part in re.split(r"\band\b", text, flags=re.IGNORECASE))


def _term(text: str, option: str) -> Term:
    if (named := _NAMED.fullmatch(text)) is not None:
        pool = f"{named[1]}." if named[1] else ""
        text = f"{named[3]}({pool}{named[2].replace(' ', '_')}) {named[4]}"
    found = _TERM.match(text)
    if found is None:
        raise InputError(f"{option}: found {text.strip()!r}; {_GRAMMAR}")
    statistic, metric = found[1].lower(), found[3].lower()
    metric = SHORT.get(metric, metric)
    if statistic not in STATISTICS:
        raise InputError(f"{option}: found statistic {statistic!r}; {_GRAMMAR}")
    if metric not in METRICS:
        raise InputError(f"{option}: found metric {metric!r}; {_GRAMMAR}")
    limit = _limit(found[5], metric, option)
    term = Term(statistic, metric, found[4] == "<", limit, found[2] or "")
    if term.limit < 0 or (term.strict and term.limit == 0):
        raise InputError(f"{option}: {text.strip()!r} can never be met: nothing is below 0")
    return term


def _limit(text: str, metric: str, option: str) -> float:
    try:
        if metric != "stretch":
            return parse_time(text)
        limit = float(text)
    except ValueError as error:
        why = str(error) if metric != "stretch" else f"found {text!r}; allowed: a number"
        raise InputError(f"{option}: limit of {metric}: {why}") from None
    if not math.isfinite(limit):
        raise InputError(f"{option}: limit of {metric}: found {text!r}; allowed: a finite number")
    return limit


def check_pools(terms: Sequence[Term], pools: Sequence[Pool], option: str = "--slo") -> None:
    """Raise InputError for a term of a pool that is none of these."""
    names = [pool.name for pool in pools]
    for term in terms:
        if term.pool and term.pool not in names:
            raise InputError(f"{option}: {term.name}: pool {not_among(term.pool, names)}")


def measure(records: RunRecords, window: Window, term: Term, pools: Sequence[Pool] = ()) -> float:
    """Return the term's statistic in a run (percentiles: type 7).

    ``pools``: the farm's, for terms of one of them (``check_pools``). A job that was never served,
    or was given up, counts as infinity, and so does a matrix with such a job; cancelled ones are
    ignored.
    """
    jobs, lost = (
        _of_pool(one, term.pool, pools) for one in records.within(window.start, window.end)
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
    """Return the jobs that a pool can run; without a name all."""
    if not name:
        return jobs
    platform = next(pool.platform for pool in pools if pool.name == name)
    can_run = [n for n, of in enumerate(jobs.platform.values) if platform.can_run(of)]
    return jobs.taken(np.isin(jobs.platform.numbers, can_run))


def _statistic(values: Floats, statistic: str) -> float:
    if not len(values):
        return 0.0
    if statistic == "mean":
        return math.fsum(values.tolist()) / len(values)
    if statistic == "max":
        return float(values.max())
    level = int(statistic[1:]) / 100
    if np.quantile(values, level, method="higher") == math.inf:
        return math.inf
    # the value beyond has no weight, but infinity times 0 would be NaN
    return quantile(np.minimum(values, sys.float_info.max), level)
