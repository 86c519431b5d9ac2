"""The accuracy of a run's estimates; errors are estimate - truth in seconds.

Dispatches: every ``estimate-made`` against the job's first dispatch, so a positive bias means that
jobs were dispatched earlier than estimated (a pessimistic estimate). Jobs that were dispatched at
the instant of their submission needed no estimate: they are counted separately.

Run times, by the rung of the estimator's ladder: the run is replayed for an estimator without
history, which estimates at each dispatch, for that builder, and learns from each end, as on the
farm.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from farm.core.commands import EndJob, StartJob
from farm.core.events import BuilderJoined, EstimateMade, JobFinished, JobStarted
from farm.core.fields import json_name
from farm.core.model import Builder, Job
from farm.forecasts.runtime.interface import RuntimeEstimator
from farm.results.formatting import readable_percent, spoken_span
from farm.units import many

if TYPE_CHECKING:
    from farm.results.log.reader import Entry

Numbers = NDArray[Any]

LEVELS = tuple(number / 10 for number in range(1, 10))
P90 = LEVELS.index(0.9)
#: tolerance: a certain estimate is met exactly except for rounding
ROUNDING = 1e-6
QUEUE_LENGTHS = (1, 11, 51, 201, 1001)
HORIZONS = (0.0, 60.0, 300.0, 1800.0, 7200.0)
ERRORS = ("bias_time", "mean_absolute_error_time", "median_absolute_error_time", "relative_error")
MINUTE = 60.0
MIN_BIAS_SHARE = 0.5
"""Share of the mean absolute error from which the bias is worth a word."""


def _errors(estimated: Numbers, true: Numbers) -> dict[str, float | None]:
    """Return the measures of the errors by their names; None where there is nothing to measure."""
    if not len(true):
        return dict.fromkeys(ERRORS)
    errors = estimated - true
    absolute, total = np.abs(errors), float(true.sum())
    relative = float(absolute.sum()) / total if total > 0 else None
    of_all = (float(errors.mean()), float(absolute.mean()), float(np.median(absolute)))
    return dict(zip(ERRORS, (*of_all, relative), strict=True))


class Accuracy(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """How right some estimates were; times in seconds, None where there was nothing to measure."""

    bias_time: float | None
    mean_absolute_error_time: float | None
    median_absolute_error_time: float | None
    #: sum of absolute errors ÷ sum of true waits
    relative_error: float | None
    # shares of the jobs whose error was at most 1 minute and 10 minutes
    within_minute: float | None
    within_ten_minutes: float | None
    #: estimates with quantiles; and shares of their jobs that were dispatched between the 0.1- and
    #: the 0.9-quantile (aim: 0.8), and by each of the two
    intervals: int
    within_p10_p90: float | None
    within_p10: float | None
    within_p90: float | None


class Bin(Accuracy, frozen=True, kw_only=True):
    """The estimates of jobs in one bin: from ``low`` up, below ``high``."""

    low: float
    #: None: unbounded
    high: float | None
    count: int


class PlatformScore(Accuracy, frozen=True, kw_only=True):
    """The estimates of one platform's jobs."""

    platform: str
    scored: int


class Level(msgspec.Struct, frozen=True):
    """A quantile and how often it held."""

    level: float
    #: share of the jobs that were dispatched by the quantile
    observed: float


class Score(Accuracy, frozen=True, kw_only=True):
    """The accuracy of one estimator."""

    rules: str
    run_times: str
    #: estimates given
    given: int
    #: of those: no estimate, dispatched immediately, never dispatched in this run
    without: int
    at_once: int
    undispatched: int
    #: the rest: jobs that had an estimate and waited
    scored: int
    root_mean_square_error_time: float | None
    by_platform: tuple[PlatformScore, ...]
    by_queue_length: tuple[Bin, ...]
    by_horizon: tuple[Bin, ...]
    calibration: tuple[Level, ...]

    @property
    def name(self) -> str:
        """The estimator's name: its rules, and the source of its run times."""
        return f"{self.rules} + {self.run_times}" if self.run_times else self.rules


class _Guesses(NamedTuple):
    """Estimates and the truth, one row each, as spans since the estimate was requested, seconds."""

    estimated: Numbers
    true: Numbers
    #: jobs that waited
    waiting: Numbers
    #: a column for each of ``LEVELS``; NaN: none were given
    quantiles: Numbers
    platforms: Numbers

    def where(self, inside: NDArray[np.bool_]) -> _Guesses:
        return _Guesses(*(column[inside] for column in self))

    def kept(self) -> list[float]:
        """Return the share that was dispatched by each quantile; none if there are no quantiles."""
        some = self.where(~np.isnan(self.quantiles[:, 0]))
        if not len(some.true):
            return []
        shares: list[float] = _by(some.true[:, None], some.quantiles).mean(axis=0).tolist()
        return shares

    def accuracy(self) -> dict[str, Any]:
        """Return the fields of ``Accuracy``."""
        some = self.where(~np.isnan(self.quantiles[:, 0]))
        low, high = (_by(some.true, some.quantiles[:, place]) for place in (0, P90))
        # met exactly at the lower end is within
        from_low = some.true >= some.quantiles[:, 0] - ROUNDING
        errors = np.abs(self.estimated - self.true)
        return {
            **_errors(self.estimated, self.true),
            "within_minute": _share(errors <= MINUTE),
            "within_ten_minutes": _share(errors <= 10 * MINUTE),
            "intervals": len(some.true),
            "within_p10_p90": _share(from_low & high),
            "within_p10": _share(low),
            "within_p90": _share(high),
        }


def _by(true: Numbers, quantiles: Numbers) -> Numbers:
    return true <= quantiles + ROUNDING


def _share(held: Numbers) -> float | None:
    return float(held.mean()) if len(held) else None


def score(entries: Iterable[Entry]) -> list[Score]:
    """Return a score for each estimator (rules, run times), in order of appearance."""
    estimates: defaultdict[tuple[str, str], list[EstimateMade]] = defaultdict(list)
    dispatched: dict[str, tuple[float, Job]] = {}
    for entry in entries:
        event = entry.event
        if type(event) is EstimateMade:
            estimates[event.rules, event.run_times].append(event)
        for command in entry.commands:
            if type(command) is StartJob:
                dispatched.setdefault(command.job.id, (event.at, command.job))
            elif type(command) is EndJob and command.dispatched_at is not None:
                # a job that was served by another's execution
                dispatched.setdefault(command.job.id, (command.dispatched_at, command.job))
    return [_score(made, dispatched) for made in estimates.values()]


def answer_of(scores: Sequence[Score]) -> str:
    """Say how good the estimates of a run are; of several estimators, the one closest to the truth.

    Why the others are worse the tables tell; that they are is said here, too.
    """
    scored = [one for one in scores if one.scored]
    if not scored:
        return "no job of this run that waited has an estimate, so none can be scored"
    best = min(scored, key=_relative_error)
    share = ""
    if best.relative_error is not None:
        share = f", {readable_percent(best.relative_error)} of the wait"
    text = (
        f"the estimates of {many(best.scored, 'job')} that waited are off by "
        f"{spoken_span(best.mean_absolute_error_time or 0.0)} on average{share}{_bias_of(best)}"
    )
    if best.within_p10_p90 is not None:
        held = readable_percent(best.within_p10_p90)
        text += f"; {held} of the intervals P10 - P90 held, which should be 80 %"
    others = len(scored) - 1
    if others:
        text += f"; this is {best.name}, and {many(others, 'other estimator')} came less near"
    return text


def _relative_error(score: Score) -> float:
    return math.inf if score.relative_error is None else score.relative_error


def _bias_of(score: Score) -> str:
    """Say in which direction estimates err, where that is much of how far they do."""
    bias, error = score.bias_time, score.mean_absolute_error_time
    if not bias or not error or abs(bias) < MIN_BIAS_SHARE * error:
        return ""
    return ", for the most part too late" if bias > 0 else ", for the most part too early"


def _score(made: Sequence[EstimateMade], dispatched: Mapping[str, tuple[float, Job]]) -> Score:
    later = [one for one in made if one.waiting or one.dispatch_at != one.at]
    estimated = [one for one in later if one.dispatch_at is not None]
    scored = [one for one in estimated if one.job in dispatched]
    guesses = _guesses(scored, dispatched)
    squares = np.square(guesses.estimated - guesses.true)
    return Score(
        rules=made[0].rules,
        run_times=made[0].run_times,
        given=len(made),
        without=len(later) - len(estimated),
        at_once=len(made) - len(later),
        undispatched=len(estimated) - len(scored),
        scored=len(scored),
        root_mean_square_error_time=math.sqrt(squares.mean()) if scored else None,
        by_platform=tuple(
            PlatformScore(platform=platform, scored=len(of_it.true), **of_it.accuracy())
            for platform in np.unique(guesses.platforms).tolist()
            for of_it in [guesses.where(guesses.platforms == platform)]
        ),
        by_queue_length=_bins(guesses, guesses.waiting, QUEUE_LENGTHS),
        by_horizon=_bins(guesses, guesses.estimated, HORIZONS),
        calibration=tuple(map(Level, LEVELS, guesses.kept())),
        **guesses.accuracy(),
    )


def _guesses(made: Sequence[EstimateMade], dispatched: Mapping[str, tuple[float, Job]]) -> _Guesses:
    none = (math.nan,) * len(LEVELS)
    asked_at = np.array([one.at if one.asked_at is None else one.asked_at for one in made])
    quantiles_at = np.array([one.quantiles_at or none for one in made]).reshape(-1, len(LEVELS))
    return _Guesses(
        np.array([one.dispatch_at for one in made], float) - asked_at,
        np.array([dispatched[one.job][0] for one in made]) - asked_at,
        np.array([one.waiting for one in made]),
        quantiles_at - asked_at[:, None],
        np.array([str(dispatched[one.job][1].platform) for one in made]),
    )


def _bins(guesses: _Guesses, values: Numbers, lows: Sequence[float]) -> tuple[Bin, ...]:
    places = np.searchsorted(lows, values, side="right")
    highs = [*lows[1:], None]
    return tuple(
        Bin(low=lows[n - 1], high=highs[n - 1], count=len(inside.true), **inside.accuracy())
        for n in np.unique(places[places > 0]).tolist()
        for inside in [guesses.where(places == n)]
    )


ALL_RUNGS = "all"
"""In the place of a rung's name: the score of an estimator over all jobs."""


class RungScore(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """The accuracy of one rung of an estimator, over the jobs for which it gave the estimate."""

    estimator: str
    rung: str
    jobs: int
    bias_time: float | None
    mean_absolute_error_time: float | None
    median_absolute_error_time: float | None
    #: sum of absolute errors ÷ sum of run times; None if all took no time
    relative_error: float | None


class _Attempt(msgspec.Struct):
    job: Job
    builder: Builder
    rung: str
    estimate: float
    started_at: float | None = None


def score_rungs(entries: Iterable[Entry], estimator: RuntimeEstimator) -> list[RungScore]:
    """Return the score over all jobs, then one for each rung, most jobs first.

    Only successful jobs count.
    """
    builders: dict[str, Builder] = {}
    attempts: dict[tuple[str, int], _Attempt] = {}
    pairs: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for entry in entries:
        event = entry.event
        if isinstance(event, BuilderJoined):
            builders[event.builder.id] = event.builder
        elif isinstance(event, JobStarted) and (found := attempts.get(_of(event))) is not None:
            found.started_at = event.at
        elif isinstance(event, JobFinished) and (found := attempts.pop(_of(event), None)):
            took = event.at - (event.at if found.started_at is None else found.started_at)
            if event.outcome == "succeeded":
                pairs[found.rung].append((found.estimate, took))
            if event.outcome != "cancelled":
                estimator.learn(found.job, found.builder, took, event.outcome)
        for command in entry.commands:
            if isinstance(command, StartJob):
                job, builder = command.job, builders[command.builder]
                rung, time = estimator.basis(job, builder).rung, estimator.estimate(job, builder)
                attempts[job.id, command.attempt] = _Attempt(job, builder, rung, time)
    scores = [_rung_score(estimator.name, rung, found) for rung, found in pairs.items()]
    scores.sort(key=lambda one: -one.jobs)
    if not scores:
        return []
    all_pairs = [pair for found in pairs.values() for pair in found]
    return [_rung_score(estimator.name, ALL_RUNGS, all_pairs), *scores]


def _rung_score(estimator: str, rung: str, pairs: list[tuple[float, float]]) -> RungScore:
    """Return the score of estimates, each with the run time that it was of."""
    errors = _errors(*np.array(pairs).T)
    return RungScore(estimator=estimator, rung=rung, jobs=len(pairs), **errors)


def _of(event: JobStarted | JobFinished) -> tuple[str, int]:
    return event.job, event.attempt
