"""The baseline check: recorded waits against simulated ones, on jobs that the twin has not seen.

A farm that is to answer "would it wait less with …?" must first wait as it did. Each figure has an
interval from resampled stretches of time (blocks, as waits that follow each other are alike:
Künsch, "The Jackknife and the Bootstrap for General Stationary Observations", 1989).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from farm.columns import Floats
from farm.core.fields import json_name
from farm.results.formatting import readable_span

LONG, MANY = 60.0, 100
"""A pool is loaded if this number of jobs waited for longer than this (s)."""
MEAN_SHARE, P95_SHARE, JOB_SHARE = 0.05, 0.10, 0.03
"""Errors of a pool's mean and p95, and error per job as a share of its mean wait, up to which its
twin is believable."""
SECONDS, P95_SECONDS = 5.0, 10.0
"""Errors that are allowed however short the waits: of the mean and per job, and of the p95 (s)."""
CHAOTIC = 2.0
"""Times these errors up to which the range of repetitions counts, where no losses are drawn."""
IDLE: Final = SECONDS / MEAN_SHARE
"""Mean wait below which the allowed seconds are more than the allowed share."""
BLOCKS, DRAWS = 40, 400
AT_ONCE = 1_000_000
"""Waits that are resampled in one step."""


class ResampledFigure(msgspec.Struct, frozen=True):
    """A figure with the range in which 95 % of its resampled values lie."""

    value: float
    low: float
    high: float

    @property
    def range(self) -> tuple[float, float]:
        """Its ends."""
        return self.low, self.high

    def has(self, value: float) -> bool:
        """Return whether a value is in the range."""
        return self.low <= value <= self.high


class Check(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """How well simulated waits meet recorded ones, in seconds; an error is simulated - recorded."""

    jobs: int
    recorded_mean: float
    simulated_mean: float
    recorded_p50: float
    simulated_p50: float
    recorded_p95: float
    simulated_p95: float
    #: of the mean, the p50 and the p95: simulated ÷ recorded - 1
    mean_error: ResampledFigure
    p50_error: ResampledFigure
    p95_error: ResampledFigure
    #: mean of the errors, and of their absolute values
    bias: ResampledFigure
    error_per_job: ResampledFigure
    #: none where all waits are the same
    correlation: ResampledFigure | None
    #: share of jobs whose simulated wait is within these of the recorded one
    within_1m: ResampledFigure
    within_10m: ResampledFigure
    loaded: bool
    #: simulated mean and p95 over repetitions of the twin, seconds; None: one is all
    drawn_mean: ResampledFigure | None = None
    drawn_p95: ResampledFigure | None = None
    #: how many these are
    repetitions: int = 1
    #: they differ by what is drawn in the farm itself, its losses
    is_random: bool = False
    #: how far from this simulation they are, job by job, and the furthest of them, seconds
    drawn_per_job: ResampledFigure | None = None

    @property
    def share_per_job(self) -> float:
        """Error per job as a share of the mean wait."""
        return self.error_per_job.value / max(1e-9, self.recorded_mean)

    @property
    def allowed_of_mean(self) -> float:
        """The error of the mean up to which the twin is believable, seconds."""
        return max(SECONDS, MEAN_SHARE * self.recorded_mean)

    @property
    def allowed_of_p95(self) -> float:
        """The same of the p95."""
        return max(P95_SECONDS, P95_SHARE * self.recorded_p95)

    @property
    def allowed_per_job(self) -> float:
        """The mean error of each job, either way, up to which each waits as recorded, seconds."""
        return max(SECONDS, JOB_SHARE * self.recorded_mean)

    @property
    def job_by_job(self) -> bool:
        """Whether each job waits as it did, but for a little."""
        return self.error_per_job.value <= self.allowed_per_job

    @property
    def spread(self) -> tuple[float, float]:
        """How far repetitions are from this simulation: their mean and p95, seconds."""
        if self.drawn_mean is None or self.drawn_p95 is None:
            return 0.0, 0.0
        return (
            max(abs(one - self.simulated_mean) for one in self.drawn_mean.range),
            max(abs(one - self.simulated_p95) for one in self.drawn_p95.range),
        )

    @property
    def like_a_repetition(self) -> bool:
        """Whether the farm is as far from its twin, job by job, as the twin from itself.

        Of as many repetitions as were played one is further off than all the others by chance.
        """
        if self.drawn_per_job is None:
            return False
        return self.error_per_job.value <= self.drawn_per_job.high + self.allowed_per_job

    @property
    def mean_and_p95_hold(self) -> bool:
        """Whether mean and p95 are the farm's, or what they might have been.

        The grade "on average" (``verdict``) asks for more: nothing else may speak against the twin.
        """
        if self._is_within(1.0):
            return True
        if self.drawn_mean is None or self.drawn_p95 is None:
            return False
        if not (self.is_random or self._is_within(CHAOTIC)):
            return False
        # the records are a draw, too
        return self.drawn_mean.has(self.recorded_mean) and self.drawn_p95.has(self.recorded_p95)

    def _is_within(self, times: float) -> bool:
        """Return whether mean and p95 are off by this many times what is allowed at most."""
        mean_off, p95_off = self._off
        return mean_off <= times * self.allowed_of_mean and p95_off <= times * self.allowed_of_p95

    @property
    def _off(self) -> tuple[float, float]:
        return (
            abs(self.simulated_mean - self.recorded_mean),
            abs(self.simulated_p95 - self.recorded_p95),
        )

    @property
    def share_off(self) -> float:
        """The largest of the errors of mean, p95 and each job, as a share of what was recorded.

        Of a pool whose jobs hardly wait, of the waits from which shares count.
        """
        mean_off, p95_off = self._off
        mean = max(self.recorded_mean, IDLE)
        return max(
            mean_off / mean,
            p95_off / max(self.recorded_p95, IDLE),
            self.error_per_job.value / mean,
        )

    def misses(self) -> Iterator[str]:
        """Yield which errors are larger than allowed, each with its limit."""
        mean_off, p95_off = self._off
        if mean_off > self.allowed_of_mean:
            yield _miss("the mean is off by", mean_off, SECONDS, MEAN_SHARE, self.recorded_mean)
        if p95_off > self.allowed_of_p95:
            yield _miss("the p95 is off by", p95_off, P95_SECONDS, P95_SHARE, self.recorded_p95)
        if not (self.job_by_job or self.like_a_repetition):
            off = self.error_per_job.value
            yield _miss("the error per job is", off, SECONDS, JOB_SHARE, self.recorded_mean)


def _miss(what: str, off: float, seconds: float, share: float, recorded: float) -> str:
    """Return that an error is larger than ``seconds`` and than a share of what was recorded."""
    limit = f"{100 * share:.0f} % of {readable_span(recorded)}"
    if seconds > share * recorded:
        limit = readable_span(seconds)
    return f"{what} {readable_span(off)}, allowed: {limit}"


class HourCheck(msgspec.Struct, frozen=True, rename=json_name):
    """The waits of the jobs that arrived in an hour of the day (0 to 23)."""

    hour: int
    check: Check


def check(recorded: Floats, simulated: Floats) -> Check:
    """Hold simulated waits against recorded ones, job by job, in order of arrival (seconds)."""
    p50, p95 = np.quantile(recorded, (0.5, 0.95)).tolist()
    own_p50, own_p95 = np.quantile(simulated, (0.5, 0.95)).tolist()
    found = _figures(recorded[None, :], simulated[None, :])[0].tolist()
    drawn = _resampled(recorded, simulated)
    intervals = [_interval(value, some) for value, some in zip(found, drawn.T, strict=True)]
    mean, middle, late, bias, per_job, correlation, within_1m, within_10m = intervals
    return Check(
        jobs=len(recorded),
        recorded_mean=float(recorded.mean()),
        simulated_mean=float(simulated.mean()),
        recorded_p50=p50,
        simulated_p50=own_p50,
        recorded_p95=p95,
        simulated_p95=own_p95,
        mean_error=mean,
        p50_error=middle,
        p95_error=late,
        bias=bias,
        error_per_job=per_job,
        correlation=None if np.isnan(correlation.value) else correlation,
        within_1m=within_1m,
        within_10m=within_10m,
        loaded=bool((recorded > LONG).sum() >= MANY),
    )


def check_of_draws(
    recorded: Floats, draws: Sequence[Floats], place: int, *, is_random: bool = False
) -> Check:
    """Hold one of several simulations against the records, with the range of them all."""
    means = np.array([one.mean() for one in draws])
    p95s = np.array([np.quantile(one, 0.95) for one in draws])
    own = draws[place]
    apart = [float(np.abs(one - own).mean()) for one in (*draws[:place], *draws[place + 1 :])]
    return msgspec.structs.replace(
        check(recorded, own),
        drawn_mean=_interval(float(means.mean()), means),
        drawn_p95=_interval(float(p95s.mean()), p95s),
        drawn_per_job=ResampledFigure(float(np.mean(apart)), min(apart), max(apart)),
        repetitions=len(draws),
        is_random=is_random,
    )


def median_place(draws: Sequence[Floats]) -> int:
    """Return which of several simulations has the median mean."""
    return int(np.argsort([one.mean() for one in draws])[len(draws) // 2])


def _figures(recorded: Floats, simulated: Floats) -> Floats:
    """Return the figures that have an interval, in the order of ``Check``; a row is a sample."""
    errors = simulated - recorded
    apart = np.abs(errors)
    waits = recorded.mean(axis=1), *np.quantile(recorded, (0.5, 0.95), axis=1)
    own = simulated.mean(axis=1), *np.quantile(simulated, (0.5, 0.95), axis=1)
    rows = [_ratio(one, other) for one, other in zip(own, waits, strict=True)]
    rows += [errors.mean(axis=1), apart.mean(axis=1), _correlation(recorded, simulated)]
    rows += [(apart <= most).mean(axis=1) for most in (60.0, 600.0)]
    return np.stack(rows, axis=1)


def _correlation(recorded: Floats, simulated: Floats) -> Floats:
    """Return Pearson's of each row; nan where all are the same."""
    one = recorded - recorded.mean(axis=1, keepdims=True)
    other = simulated - simulated.mean(axis=1, keepdims=True)
    spread = np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = np.where(spread > 0, (one * other).sum(axis=1) / spread, np.nan)
    return found


def _ratio(simulated: Floats, recorded: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = simulated / recorded - 1
    return np.where((recorded == 0) & (simulated == 0), 0.0, found)


def _resampled(recorded: Floats, simulated: Floats) -> Floats:
    """Return the figures of samples made of blocks of consecutive jobs, a row for each."""
    jobs = len(recorded)
    length = max(1, jobs // BLOCKS)
    rng = np.random.default_rng(1)
    at_once = max(1, AT_ONCE // jobs)
    rows = []
    for first in range(0, DRAWS, at_once):
        many = min(at_once, DRAWS - first)
        begins = rng.integers(jobs - length + 1, size=(many, -(-jobs // length), 1))
        some = (begins + np.arange(length)).reshape(many, -1)[:, :jobs]
        rows.append(_figures(recorded[some], simulated[some]))
    return np.concatenate(rows)


def _interval(value: float, drawn: Floats) -> ResampledFigure:
    finite = drawn[np.isfinite(drawn)]
    low, high = np.quantile(finite, (0.025, 0.975)).tolist() if len(finite) else (value, value)
    return ResampledFigure(value, low, high)


def by_hour(at: Floats, recorded: Floats, simulated: Floats) -> list[HourCheck]:
    """Hold waits against each other by hour; ``at``: seconds of the day's clock, any day."""
    hours = (at // 3600 % 24).astype(int)
    return [
        HourCheck(hour, check(recorded[hours == hour], simulated[hours == hour]))
        for hour in np.unique(hours).tolist()
    ]
