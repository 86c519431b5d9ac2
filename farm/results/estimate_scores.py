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
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from farm.core.commands import EndJob, StartJob
from farm.core.events import BuilderJoined, EstimateMade, JobFinished, JobStarted
from farm.core.json_names import json_name
from farm.core.model import Builder, Job
from farm.forecasts.runtime.interface import RuntimeEstimator
from farm.results.log.reader import Entry

LEVELS = tuple(number / 10 for number in range(1, 10))
QUEUE_LENGTHS = (1, 11, 51, 201, 1001)
HORIZONS = (0.0, 60.0, 300.0, 1800.0, 7200.0)
ERRORS = (
    "bias_time",
    "mean_absolute_error_time",
    "median_absolute_error_time",
    "relative_error",
)


def _errors(estimated: Sequence[float], true: Sequence[float]) -> dict[str, float | None]:
    """Return the measures of the errors by their names; None where there is nothing to measure."""
    if not len(true):
        return dict.fromkeys(ERRORS)
    errors = np.array(estimated) - np.array(true)
    absolute, total = np.abs(errors), float(np.sum(true))
    relative = float(absolute.sum()) / total if total > 0 else None
    of_all = (float(errors.mean()), float(absolute.mean()), float(np.median(absolute)))
    return dict(zip(ERRORS, (*of_all, relative), strict=True))


class Bin(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """The estimates of jobs in one bin: from ``low`` up, below ``high``."""

    low: float
    #: None: unbounded
    high: float | None
    count: int
    bias_time: float | None
    mean_absolute_error_time: float | None
    median_absolute_error_time: float | None
    #: sum of absolute errors ÷ sum of true waits
    relative_error: float | None
    #: share of the jobs that were dispatched by the estimate's 0.9-quantile
    within_p90: float | None


class Level(msgspec.Struct, frozen=True):
    """A quantile and how often it held."""

    level: float
    #: share of the jobs that were dispatched by the quantile
    observed: float


class Score(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """The accuracy of one estimator; times in seconds, None where there was nothing to measure."""

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
    bias_time: float | None
    mean_absolute_error_time: float | None
    median_absolute_error_time: float | None
    root_mean_square_error_time: float | None
    relative_error: float | None
    within_p90: float | None
    by_queue_length: tuple[Bin, ...]
    by_horizon: tuple[Bin, ...]
    calibration: tuple[Level, ...]

    @property
    def name(self) -> str:
        """The estimator's name: its rules, and the source of its run times."""
        return f"{self.rules} + {self.run_times}" if self.run_times else self.rules


class Guess(msgspec.Struct, frozen=True, gc=False):
    """One estimate and the truth, as spans since it was made, seconds."""

    estimated: float
    true: float
    waiting: int
    quantiles: tuple[float, ...] = ()


class _Tally(msgspec.Struct):
    rules: str
    run_times: str
    given: int = 0
    without: int = 0
    at_once: int = 0
    undispatched: int = 0
    guesses: list[Guess] = msgspec.field(default_factory=list)


def score(entries: Iterable[Entry]) -> list[Score]:
    """Return a score for each estimator (rules, run times), in order of appearance."""
    return [_score(tally) for tally in tallies(entries)]


def tallies(entries: Iterable[Entry]) -> list[_Tally]:
    """Pair every estimate of a run with the truth, estimator by estimator."""
    estimates: list[EstimateMade] = []
    dispatched: dict[str, float] = {}
    for entry in entries:
        event = entry.event
        if type(event) is EstimateMade:
            estimates.append(event)
        for command in entry.commands:
            if type(command) is StartJob:
                dispatched.setdefault(command.job.id, event.at)
            elif type(command) is EndJob and command.dispatched_at is not None:
                # a job that was served by another's execution
                dispatched.setdefault(command.job.id, command.dispatched_at)
    found: dict[tuple[str, str], _Tally] = {}
    for made in estimates:
        key = (made.rules, made.run_times)
        _count(found.setdefault(key, _Tally(*key)), made, dispatched.get(made.job))
    return list(found.values())


def _count(tally: _Tally, made: EstimateMade, truth: float | None) -> None:
    tally.given += 1
    if made.waiting == 0 and made.dispatch_at == made.at:
        tally.at_once += 1
    elif made.dispatch_at is None:
        tally.without += 1
    elif truth is None:
        tally.undispatched += 1
    else:
        asked_at = made.at if made.asked_at is None else made.asked_at
        quantiles = tuple(at - asked_at for at in made.quantiles_at)
        tally.guesses.append(
            Guess(made.dispatch_at - asked_at, truth - asked_at, made.waiting, quantiles)
        )


def _score(tally: _Tally) -> Score:
    guesses = tally.guesses
    estimated, true = [one.estimated for one in guesses], [one.true for one in guesses]
    squares = np.square(np.array(estimated) - np.array(true))
    return Score(
        rules=tally.rules,
        run_times=tally.run_times,
        given=tally.given,
        without=tally.without,
        at_once=tally.at_once,
        undispatched=tally.undispatched,
        scored=len(guesses),
        root_mean_square_error_time=math.sqrt(squares.mean()) if guesses else None,
        within_p90=_within(guesses, 8),
        by_queue_length=_bins(guesses, [float(guess.waiting) for guess in guesses], QUEUE_LENGTHS),
        by_horizon=_bins(guesses, estimated, HORIZONS),
        calibration=_calibration(guesses),
        **_errors(estimated, true),
    )


def _within(guesses: Sequence[Guess], place: int) -> float | None:
    """Return the share that was dispatched by the quantile at this index of ``LEVELS``."""
    told = [guess for guess in guesses if guess.quantiles]
    if not told:
        return None
    # tolerance: a certain estimate is met exactly except for rounding
    return sum(g.true <= g.quantiles[place] + 1e-6 for g in told) / len(told)


def _calibration(guesses: Sequence[Guess]) -> tuple[Level, ...]:
    found = []
    for place, level in enumerate(LEVELS):
        observed = _within(guesses, place)
        if observed is not None:
            found.append(Level(level, observed))
    return tuple(found)


def _bins(
    guesses: Sequence[Guess], values: Sequence[float], lows: Sequence[float]
) -> tuple[Bin, ...]:
    highs: list[float | None] = [*lows[1:], None]
    found = []
    for low, high in zip(lows, highs, strict=True):
        inside = [
            guess
            for guess, value in zip(guesses, values, strict=True)
            if low <= value and (high is None or value < high)
        ]
        if inside:
            found.append(_bin(inside, low, high))
    return tuple(found)


def _bin(inside: Sequence[Guess], low: float, high: float | None) -> Bin:
    return Bin(
        low=low,
        high=high,
        count=len(inside),
        within_p90=_within(inside, 8),
        **_errors([guess.estimated for guess in inside], [guess.true for guess in inside]),
    )


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
    """Return a score for each rung, most jobs first; only successful jobs count."""
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
                rung, estimate = (
                    estimator.basis(job, builder).rung,
                    estimator.estimate(job, builder),
                )
                attempts[job.id, command.attempt] = _Attempt(job, builder, rung, estimate)
    scores = [_rung_score(estimator.name, rung, found) for rung, found in pairs.items()]
    return sorted(scores, key=lambda one: -one.jobs)


def _of(event: JobStarted | JobFinished) -> tuple[str, int]:
    return event.job, event.attempt


def _rung_score(estimator: str, rung: str, found: list[tuple[float, float]]) -> RungScore:
    estimated, took = zip(*found, strict=True)
    return RungScore(estimator=estimator, rung=rung, jobs=len(found), **_errors(estimated, took))
