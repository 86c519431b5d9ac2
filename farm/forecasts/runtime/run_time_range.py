"""How long a job runs in eight cases of ten: from P10 to P90 of what its run time is drawn from.

What runs now counts as longer than it has run so far: of a young farm the long jobs have not ended.
A range by few runs is wider than theirs, as the next one may lie beyond all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from farm.columns import Floats
from farm.core.model import Builder, Job
from farm.forecasts.runtime.interface import RunTimeRange, speed_of
from farm.forecasts.runtime.quantiles import RuntimeDistribution, RunTimeSpread, sort_of
from farm.forecasts.runtime.survival import Running, Survival
from farm.forecasts.runtime.young_kinds import YoungKinds

#: the quantiles of a range
LEVELS = (0.1, 0.9)
#: running attempts that are looked at: a large farm has more than an answer may take time for
MAX_RUNNING = 200
NORMAL = NormalDist()


class RunningAttempt(NamedTuple):
    """An attempt that has not ended: since when, and how long by now (s)."""

    job: Job
    builder: Builder
    began_at: float
    elapsed: float


def range_of(
    learned: RuntimeDistribution,
    job: Job,
    builder: Builder | None = None,
    *,
    elapsed: float = 0.0,
    running: Sequence[RunningAttempt] = (),
    at: float = 0.0,
) -> RunTimeRange | None:
    """Return between which times a job runs; None: too few runs are known.

    Args:
        learned: what is known of run times.
        job: which one.
        builder: where; None: while it waits.
        elapsed: how long it has run there; the range is then of the rest.
        running: attempts, of which those with the job's history count.
        at: the present instant.
    """
    spread = learned.spread(job, builder)
    if spread is None or spread.time <= 0:
        return None
    unit = spread.time / speed_of(builder)
    if spread.history.is_certain:
        rest = max(0.0, unit * float(spread.factors[0]) - elapsed)
        return RunTimeRange(rest, rest)
    alike = [
        one for one in running[:MAX_RUNNING] if sort_of(one.job) == sort_of(job) or not spread.name
    ]
    survival, time = _with_running(learned, spread, job, alike, at)
    unit = time / speed_of(builder)
    if not 0 < unit < math.inf:
        return None
    bounds = _bounds(survival, elapsed / unit, spread.common)
    if bounds is None:
        return None
    low, high = (max(0.0, unit * bound - elapsed) for bound in bounds)
    return RunTimeRange(float(low), float(high)) if high < math.inf else None


def _with_running(
    learned: RuntimeDistribution,
    spread: RunTimeSpread,
    job: Job,
    attempts: Sequence[RunningAttempt],
    at: float,
) -> tuple[Survival, float]:
    """Return the distribution of the factors, and the time that they are of."""
    rows = [
        (found.estimate, max(0.0, one.elapsed) * speed_of(one.builder), one.began_at, one.job)
        for one in attempts
        if (found := learned.spread(one.job, one.builder)) is not None
        and found.history is spread.history
        and found.time > 0
    ]
    estimates, work, began = (np.array([row[n] for row in rows], float) for n in range(3))
    running = Running(at, estimates, work, began, [sort_of(row[3]) for row in rows])
    history = spread.history
    if isinstance(history, YoungKinds):
        young = history.with_running(running) if rows else history
        time, _ = young.time_of(sort_of(job))
        return young.survival(running), time
    line = history.line(of_runs=spread.of_runs)
    if rows:
        line = history.line_with(running, of_runs=spread.of_runs)
    return history.survival(line, running), line.time_of(spread.estimate)


def _bounds(survival: Survival, bound: float, common: float) -> Floats | None:
    """Return the factors at ``LEVELS`` of those that are longer than a bound; None: there is none.

    Of n known factors the i-th is the quantile i/(n + 1), and beyond the last they go on as a
    normal distribution of their logarithms does. ``common``: the standard deviation of the error
    that all factors have in common, in logarithms.
    """
    order = survival.ended.argsort(kind="stable")
    ended = np.maximum(survival.ended[order], 1e-12)
    weights = survival.weights[order]
    longer = ended > bound
    if not longer.any():
        beyond = survival.longer_than(bound, np.array(LEVELS))
        return None if beyond is None else np.asarray(beyond)
    logs, mass = np.log(ended[longer]), weights[longer]
    count, whole = len(logs), float(mass.sum()) + survival.beyond
    places = mass.cumsum() / max(whole, 1e-300) * count / (count + 1)
    middle = float(mass @ logs) / max(float(mass.sum()), 1e-300)
    away = logs - middle
    deviation = math.sqrt(float(mass @ away**2) / max(float(mass.sum()), 1e-300))
    deviation *= math.sqrt(count / max(count - 1, 1))
    found = np.interp(LEVELS, places, logs)
    for n, level in enumerate(LEVELS):
        end = places[0] if level < places[0] else places[-1]
        if (level < places[0] and not bound) or level > places[-1]:
            found[n] += deviation * (_normal(level) - _normal(float(end)))
    if (
        survival.beyond > 0.0
        and (tail := survival.longer_than(bound, np.array(LEVELS))) is not None
    ):
        # those that run have outlived these: the tail says how long they take
        is_beyond = np.array(LEVELS) > places[-1]
        found = np.where(is_beyond, np.maximum(found, np.log(np.maximum(tail, 1e-12))), found)
    if not bound:
        half = np.abs(found - np.interp(0.5, places, logs))
        wider = np.hypot(half, NORMAL.inv_cdf(LEVELS[-1]) * common) - half
        found += np.array([-1.0, 1.0]) * wider
    return np.asarray(np.exp(np.minimum(found, 700.0)))


def _normal(level: float) -> float:
    return NORMAL.inv_cdf(min(max(level, 1e-6), 1.0 - 1e-6))
