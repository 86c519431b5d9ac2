"""The baseline check: recorded waits against simulated ones, on jobs that the twin has not seen.

A farm that is to answer "would it wait less with …?" must first wait as it did. Each figure has an
interval from resampled stretches of time (blocks, as waits that follow each other are alike:
Künsch, "The Jackknife and the Bootstrap for General Stationary Observations", 1989).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt

from farm.core.fields import json_name
from farm.results.table.columns import Floats

LONG, MANY = 60.0, 100
"""A pool is loaded if this number of jobs waited for longer than this (s)."""
IDLE = 30.0
"""Mean wait below which errors are judged in seconds, not as shares."""
MEAN_SHARE, P95_SHARE = 0.10, 0.20
"""Errors of a loaded pool's mean and p95 up to which its twin is believable."""
SECONDS = 5.0
"""The same of an idle pool's mean, seconds."""
BLOCKS, DRAWS = 40, 400


class Interval(msgspec.Struct, frozen=True):
    """A figure with the range in which 95 % of its resampled values lie."""

    value: float
    low: float
    high: float


class Check(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """How well simulated waits meet recorded ones, in seconds; an error is simulated - recorded."""

    jobs: int
    recorded_mean: float
    simulated_mean: float
    recorded_p50: float
    simulated_p50: float
    recorded_p95: float
    simulated_p95: float
    #: of the mean and of the p95: simulated ÷ recorded - 1
    mean_error: Interval
    p95_error: Interval
    #: mean of the errors, and of their absolute values
    bias: Interval
    error_per_job: Interval
    correlation: float | None
    #: share of jobs whose simulated wait is within these of the recorded one
    within_1m: float
    within_10m: float
    loaded: bool

    @property
    def believable(self) -> bool:
        """Whether the twin waits as the farm did."""
        if self.recorded_mean < IDLE:
            return abs(self.simulated_mean - self.recorded_mean) <= SECONDS
        return abs(self.mean_error.value) <= MEAN_SHARE and abs(self.p95_error.value) <= P95_SHARE


class HourCheck(msgspec.Struct, frozen=True, rename=json_name):
    """Mean waits of the jobs that arrived in an hour of the day (0 to 23), seconds."""

    hour: int
    jobs: int
    recorded_mean: float
    simulated_mean: float


def check(recorded: Floats, simulated: Floats) -> Check:
    """Hold simulated waits against recorded ones, job by job, in order of arrival (seconds)."""
    errors = simulated - recorded
    constant = recorded.std() == 0 or simulated.std() == 0
    p50, p95 = np.quantile(recorded, (0.5, 0.95))
    own_p50, own_p95 = np.quantile(simulated, (0.5, 0.95))

    def resampled(figure: Callable[[npt.NDArray[np.intp]], float]) -> Interval:
        return _interval(len(recorded), figure)

    return Check(
        jobs=len(recorded),
        recorded_mean=float(recorded.mean()),
        simulated_mean=float(simulated.mean()),
        recorded_p50=float(p50),
        simulated_p50=float(own_p50),
        recorded_p95=float(p95),
        simulated_p95=float(own_p95),
        mean_error=resampled(lambda some: _ratio(simulated[some].mean(), recorded[some].mean())),
        p95_error=resampled(lambda some: _ratio(_p95(simulated[some]), _p95(recorded[some]))),
        bias=resampled(lambda some: float(errors[some].mean())),
        error_per_job=resampled(lambda some: float(np.abs(errors[some]).mean())),
        correlation=None if constant else float(np.corrcoef(recorded, simulated)[0, 1]),
        within_1m=float((np.abs(errors) <= 60).mean()),
        within_10m=float((np.abs(errors) <= 600).mean()),
        loaded=bool((recorded > LONG).sum() >= MANY),
    )


def _p95(waits: Floats) -> float:
    return float(np.quantile(waits, 0.95))


def _ratio(simulated: float, recorded: float) -> float:
    if recorded > 0:
        return float(simulated / recorded - 1)
    return 0.0 if simulated == 0 else float("inf")


def _interval(jobs: int, figure: Callable[[npt.NDArray[np.intp]], float]) -> Interval:
    """Return a figure of the jobs, and its range over resampled blocks of consecutive ones."""
    length = max(1, jobs // BLOCKS)
    begins = np.arange(0, jobs, length)
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(DRAWS):
        firsts = rng.choice(begins, len(begins))
        some = (firsts[:, None] + np.arange(length)).ravel()
        drawn.append(figure(some[some < jobs]))
    finite = [one for one in drawn if np.isfinite(one)] or [0.0]
    low, high = np.quantile(finite, (0.025, 0.975))
    return Interval(figure(np.arange(jobs)), float(low), float(high))


def by_hour(at: Floats, recorded: Floats, simulated: Floats) -> list[HourCheck]:
    """Return the mean waits by hour of the day; ``at``: seconds of the day's clock, any day."""
    hours = (at // 3600 % 24).astype(int)
    return [
        HourCheck(
            hour,
            int((hours == hour).sum()),
            float(recorded[hours == hour].mean()),
            float(simulated[hours == hour].mean()),
        )
        for hour in np.unique(hours).tolist()
    ]
