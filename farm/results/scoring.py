"""The accuracy of dispatch estimates: every ``estimate-made`` against the following dispatch.

The truth is the job's first dispatch; errors are estimate - truth in seconds, so a positive bias
means that jobs were dispatched earlier than estimated (a pessimistic estimate). Jobs that were
dispatched at the instant of their submission needed no estimate: they are counted separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from farm.core.commands import EndJob, StartJob
from farm.core.events import EstimateMade
from farm.results.json_names import json_name
from farm.results.log.reader import Entry
from farm.results.summary.percentiles import Floats

LEVELS = tuple(number / 10 for number in range(1, 10))
QUEUE_LENGTHS = (1, 11, 51, 201, 1001)
HORIZONS = (0.0, 60.0, 300.0, 1800.0, 7200.0)


class Bin(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """The estimates of jobs in one bin: from ``low`` up, below ``high``."""

    low: float
    #: None: unbounded
    high: float | None
    count: int
    bias_time: float
    median_absolute_error_time: float
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
    estimated = np.array([guess.estimated for guess in guesses])
    true = np.array([guess.true for guess in guesses])
    errors = estimated - true
    some = len(guesses) > 0
    return Score(
        rules=tally.rules,
        run_times=tally.run_times,
        given=tally.given,
        without=tally.without,
        at_once=tally.at_once,
        undispatched=tally.undispatched,
        scored=len(guesses),
        bias_time=float(errors.mean()) if some else None,
        mean_absolute_error_time=float(np.abs(errors).mean()) if some else None,
        median_absolute_error_time=float(np.median(np.abs(errors))) if some else None,
        root_mean_square_error_time=float(np.sqrt((errors**2).mean())) if some else None,
        relative_error=_relative(errors, true),
        within_p90=_within(guesses, 8),
        by_queue_length=_bins(guesses, [float(guess.waiting) for guess in guesses], QUEUE_LENGTHS),
        by_horizon=_bins(guesses, estimated.tolist(), HORIZONS),
        calibration=_calibration(guesses),
    )


def _relative(errors: Floats, true: Floats) -> float | None:
    total = float(true.sum())
    return float(np.abs(errors).sum()) / total if total > 0 else None


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
    true = np.array([guess.true for guess in inside])
    errors = np.array([guess.estimated for guess in inside]) - true
    return Bin(
        low=low,
        high=high,
        count=len(inside),
        bias_time=float(errors.mean()),
        median_absolute_error_time=float(np.median(np.abs(errors))),
        relative_error=_relative(errors, true),
        within_p90=_within(inside, 8),
    )
