"""The accuracy of a run's estimates; errors are estimate - truth in seconds.

Dispatches: every ``estimate-made`` against the job's first dispatch, so a positive bias means that
jobs were dispatched earlier than estimated (a pessimistic estimate). Jobs that were dispatched at
the instant of their submission needed no estimate: they are counted separately.

Beside them stand two forecasts that need no model (``naive_forecasts``), over the same jobs.

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
from farm.results.naive_forecasts import Asked, QueueHistory
from farm.units import format_roughly, many

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
LAST_WAITS, THROUGHPUT = "last-waits", "throughput"
"""The rules of the forecasts that need no model."""
AIM = 0.8
"""The share of jobs that should start between P10 and P90."""
MIN_JOBS = 20
"""Ranges of a part of the jobs from which it is said whether they may be trusted."""
MAX_OFF = 0.05
"""How far from ``AIM`` the share may be, beyond what chance explains (two standard errors)."""
PENALTY = 2.0 / (1.0 - AIM)
"""What a second outside of a range costs in the interval score, in seconds of its width."""


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
    #: sum of absolute errors ÷ sum of true waits; and of the errors with their sign
    relative_error: float | None
    relative_bias: float | None
    # shares of the jobs whose error was at most 1 minute and 10 minutes
    within_minute: float | None
    within_ten_minutes: float | None
    #: estimates with quantiles; and shares of their jobs that were dispatched between the 0.1- and
    #: the 0.9-quantile (aim: 0.8), and by each of the two
    intervals: int
    within_p10_p90: float | None
    within_p10: float | None
    within_p90: float | None
    #: mean length of P10 - P90, and Winkler's score: that length, and ten times by how much a
    #: dispatch was outside; the smaller, the better
    interval_time: float | None
    interval_score_time: float | None


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


class UrgencyScore(Accuracy, frozen=True, kw_only=True):
    """The estimates of the jobs of one level of urgency."""

    level: int
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
    by_level: tuple[UrgencyScore, ...]
    by_queue_length: tuple[Bin, ...]
    by_horizon: tuple[Bin, ...]
    calibration: tuple[Level, ...]
    #: it needs no model: others should come nearer
    naive: bool = False
    #: in one sentence, whether these forecasts may be trusted, and where not
    trust: str = ""

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
    levels: Numbers

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
        width, outside = some.width_and_misses()
        total = float(self.true.sum())
        bias = float((self.estimated - self.true).sum())
        return {
            **_errors(self.estimated, self.true),
            "relative_bias": bias / total if total > 0 else None,
            "within_minute": _share(errors <= MINUTE),
            "within_ten_minutes": _share(errors <= 10 * MINUTE),
            "intervals": len(some.true),
            "within_p10_p90": _share(from_low & high),
            "within_p10": _share(low),
            "within_p90": _share(high),
            "interval_time": _share(width),
            "interval_score_time": _share(width + PENALTY * outside),
        }

    def width_and_misses(self) -> tuple[Numbers, Numbers]:
        """Return how long each range was, and by how much its job was outside of it, seconds."""
        low, high = self.quantiles[:, 0], self.quantiles[:, P90]
        early, late = np.maximum(low - self.true, 0.0), np.maximum(self.true - high, 0.0)
        return high - low, early + late


def _by(true: Numbers, quantiles: Numbers) -> Numbers:
    return true <= quantiles + ROUNDING


def _share(held: Numbers) -> float | None:
    return float(held.mean()) if len(held) else None


def score(entries: Iterable[Entry], *, naive: bool = False) -> list[Score]:
    """Return a score for each estimator (rules, run times), in order of appearance.

    ``naive``: also of the two forecasts without a model, over the same jobs; they come last.
    """
    estimates: defaultdict[tuple[str, str], list[EstimateMade]] = defaultdict(list)
    dispatched: dict[str, tuple[float, Job]] = {}
    history = QueueHistory()
    for entry in entries:
        event = entry.event
        if naive:
            history.take(event, entry.commands)
        if type(event) is EstimateMade:
            estimates[event.rules, event.run_times].append(event)
        for command in entry.commands:
            if type(command) is StartJob:
                dispatched.setdefault(command.job.id, (event.at, command.job))
            elif type(command) is EndJob and command.dispatched_at is not None:
                # a job that was served by another's execution
                dispatched.setdefault(command.job.id, (command.dispatched_at, command.job))
    scores = [_score(made, dispatched) for made in estimates.values()]
    plain: list[Score] = []
    if naive and any(one.scored for one in scores):
        plain = _naive_scores(estimates.values(), dispatched, history)
    best = min((one for one in plain if one.scored), key=_relative_error, default=None)
    return [
        *(msgspec.structs.replace(one, trust=trust_of(one, best)) for one in scores),
        *plain,
    ]


def answer_of(scores: Sequence[Score]) -> str:
    """Say how good the estimates of a run are; of several estimators, the one closest to the truth.

    Why the others are worse the tables tell; that they are is said here, too.
    """
    scored = [one for one in scores if one.scored and not one.naive]
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


def trust_of(score: Score, naive: Score | None) -> str:
    """Say whether forecasts may be trusted, and where not: their ranges, and how near they are.

    ``naive``: the better one of those without a model, None: there is none.
    """
    if score.intervals < MIN_JOBS:
        few = (
            "no range" if not score.intervals else f"a range of only {many(score.intervals, 'job')}"
        )
        text = f"whether they may be trusted is not known: {few} can be compared with what came"
        return text + _nearer(score, naive)
    held = f"{readable_percent(score.within_p10_p90)} of their ranges held"
    parts = [
        *((_horizon(one), one) for one in score.by_horizon),
        *((one.platform, one) for one in score.by_platform if len(score.by_platform) > 1),
        *((f"level {one.level}", one) for one in score.by_level if len(score.by_level) > 1),
    ]
    narrow = [f"{name} ({100 * share:.0f} %)" for name, one in parts if (share := _too_few(one))]
    if _too_few(score):
        text = f"they may not be trusted: {held}, which should be 80 %"
        text += f"; the fewest {', '.join(narrow)}" if narrow else ""
    elif narrow:
        text = f"they may be trusted ({held}), but not {', '.join(narrow)}"
    else:
        text = f"they may be trusted: {held}"
    if _off_aim(score) > 0:
        text += ", so they are wider than they need to be"
    return text + _nearer(score, naive)


def _off_aim(one: Accuracy) -> float:
    """Return by how much more of the ranges held than should, beyond what chance explains."""
    if one.within_p10_p90 is None or one.intervals < MIN_JOBS:
        return 0.0
    chance = 2.0 * math.sqrt(AIM * (1.0 - AIM) / one.intervals)
    off = one.within_p10_p90 - AIM
    return math.copysign(max(0.0, abs(off) - MAX_OFF - chance), off)


def _too_few(one: Accuracy) -> float | None:
    """Return which share of the ranges held, if that is too few; None: they may be trusted."""
    return one.within_p10_p90 if _off_aim(one) < 0 else None


def _horizon(one: Bin) -> str:
    """Return which forecasts a bin has, by how long they said that a job waits."""
    if one.high is None:
        return f"beyond {format_roughly(one.low)}"
    if not one.low:
        return f"below {format_roughly(one.high)}"
    return f"from {format_roughly(one.low)} to {format_roughly(one.high)}"


def _nearer(score: Score, naive: Score | None) -> str:
    """Say which came nearer to the truth: these forecasts, or the better one without a model."""
    if naive is None or score.relative_error is None or naive.relative_error is None:
        return ""
    ours, its = readable_percent(score.relative_error), readable_percent(naive.relative_error)
    if score.relative_error < naive.relative_error:
        return f"; they are off by {ours} of the wait, {NAIVE_WORDS[naive.rules]} by {its}"
    return f"; {NAIVE_WORDS[naive.rules]} came nearer ({its} of the wait, not {ours})"


NAIVE_WORDS = {
    LAST_WAITS: "the median of the last 20 waits",
    THROUGHPUT: "jobs ahead ÷ throughput",
}
"""What the forecasts without a model say a job will wait."""


def _naive_scores(
    estimates: Iterable[Sequence[EstimateMade]],
    dispatched: Mapping[str, tuple[float, Job]],
    history: QueueHistory,
) -> list[Score]:
    """Return the scores of the forecasts without a model, over all jobs that any other is of."""
    asked: dict[str, EstimateMade] = {}
    for made in estimates:
        for one in made:
            if one.job in dispatched and (one.waiting or one.dispatch_at != one.at):
                asked.setdefault(one.job, one)
    groups: defaultdict[str, list[EstimateMade]] = defaultdict(list)
    for one in asked.values():
        platform = str(dispatched[one.job][1].platform)
        history.platforms[platform].queued_at.setdefault(one.job, _asked_at(one))
        groups[platform].append(one)
    waits, by_throughput = [], []
    ordered = [one for group in groups.values() for one in group]
    for platform, group in groups.items():
        at = np.array([_asked_at(one) for one in group])
        found = history.platforms[platform].forecasts(Asked([one.job for one in group], at), LEVELS)
        waits.append(found.last_waits)
        by_throughput.append(found.by_throughput)
    guesses = _guesses(ordered, dispatched)
    quantiles, rates = np.concatenate(waits), np.concatenate(by_throughput)
    medians = quantiles[:, LEVELS.index(0.5)]
    return [
        _naive_score(LAST_WAITS, guesses._replace(estimated=medians, quantiles=quantiles)),
        _naive_score(
            THROUGHPUT,
            guesses._replace(estimated=rates, quantiles=np.full_like(quantiles, np.nan)),
        ),
    ]


def _naive_score(rules: str, guesses: _Guesses) -> Score:
    known = guesses.where(~np.isnan(guesses.estimated))
    return _score_of(
        known,
        rules=rules,
        run_times="",
        given=len(guesses.true),
        without=len(guesses.true) - len(known.true),
        at_once=0,
        undispatched=0,
        naive=True,
    )


def _score(made: Sequence[EstimateMade], dispatched: Mapping[str, tuple[float, Job]]) -> Score:
    later = [one for one in made if one.waiting or one.dispatch_at != one.at]
    estimated = [one for one in later if one.dispatch_at is not None]
    scored = [one for one in estimated if one.job in dispatched]
    return _score_of(
        _guesses(scored, dispatched),
        rules=made[0].rules,
        run_times=made[0].run_times,
        given=len(made),
        without=len(later) - len(estimated),
        at_once=len(made) - len(later),
        undispatched=len(estimated) - len(scored),
    )


def _score_of(guesses: _Guesses, **fields: Any) -> Score:
    """Return the score of some guesses; ``fields``: those that they do not show."""
    squares = np.square(guesses.estimated - guesses.true)
    return Score(
        **fields,
        scored=len(guesses.true),
        root_mean_square_error_time=math.sqrt(squares.mean()) if len(squares) else None,
        by_platform=tuple(
            PlatformScore(platform=platform, scored=len(part.true), **part.accuracy())
            for platform in np.unique(guesses.platforms).tolist()
            for part in [guesses.where(guesses.platforms == platform)]
        ),
        by_level=tuple(
            UrgencyScore(level=level, scored=len(part.true), **part.accuracy())
            for level in np.unique(guesses.levels).tolist()
            for part in [guesses.where(guesses.levels == level)]
        ),
        by_queue_length=_bins(guesses, guesses.waiting, QUEUE_LENGTHS),
        by_horizon=_bins(guesses, guesses.estimated, HORIZONS),
        calibration=tuple(map(Level, LEVELS, guesses.kept())),
        **guesses.accuracy(),
    )


def _asked_at(one: EstimateMade) -> float:
    return one.at if one.asked_at is None else one.asked_at


def _guesses(made: Sequence[EstimateMade], dispatched: Mapping[str, tuple[float, Job]]) -> _Guesses:
    none = (math.nan,) * len(LEVELS)
    asked_at = np.array([_asked_at(one) for one in made])
    quantiles_at = np.array([one.quantiles_at or none for one in made]).reshape(-1, len(LEVELS))
    return _Guesses(
        np.array([one.dispatch_at for one in made], float) - asked_at,
        np.array([dispatched[one.job][0] for one in made]) - asked_at,
        np.array([one.waiting for one in made]),
        quantiles_at - asked_at[:, None],
        np.array([str(dispatched[one.job][1].platform) for one in made]),
        np.array([dispatched[one.job][1].level for one in made], np.int64),
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
