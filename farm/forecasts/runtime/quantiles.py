"""The distribution of estimation errors, from which rollouts draw run times.

Besides an estimator this keeps, per kind, what the last attempts took and what had been estimated
before. A run time is the time that such an estimate stands for, times one of the observed factors
around it, so any estimator becomes a distribution: the oracle's is certain, the declared times'
shows how well submitters know their jobs. Long attempts end late: those that run must count as
well (``survival``). There is no random generator here: rollouts draw.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from farm.core.model import Builder, Job, Outcome
from farm.core.rules import EndedAttempt
from farm.forecasts.runtime.interface import (
    Basis,
    JsonValues,
    Progress,
    RuntimeEstimator,
    check_owner,
    converted,
    is_time,
    latest,
    speed_of,
)

#: ratios are limited to this range: beyond it an estimate means nothing
SMALLEST, LARGEST = 1e-6, 1e6
#: work is limited to this range, seconds
LONGEST = 1e12
#: attempts remembered per kind, and the minimum number to draw from
KEPT, ENOUGH = 200, 5
#: of Newton's method
MOST_STEPS = 20
#: values that continue a distribution beyond what has been seen
TAIL = 10
#: of the longest values, those from which a tail is guessed, at least; and Pareto's index of one
#: that is heavy, at least: were it smaller, a guess would outweigh all that is known
LONG, LEAST_INDEX = 5, 3.0
#: when attempts began of which that is not known: before farm time 0
BEFORE = -1.0
#: of a history, as it is dumped
PARTS = ("ratios", "work", "began", "ended")


Floats = NDArray[np.float64]


class Tail(NamedTuple):
    """What may come beyond the last value that ended."""

    last: float
    #: of an exponential tail: by how much others are longer
    mean: float
    #: of Pareto's tail, its index; 0: it is exponential
    exponent: float

    def beyond(self, value: float, shares: Floats) -> Floats:
        """Return the quantiles of what is larger than a value of the tail."""
        if self.exponent:
            return np.asarray(value * (1.0 - shares) ** (-1.0 / self.exponent))
        return value - self.mean * np.log1p(-shares)


class Quantiles:
    """Values with weights, and their quantile function, linear between two values.

    With equal weights it has the smallest value at 0, the largest at 1, and the others equally far
    apart (Hyndman and Fan's type 7).

    Args:
        values: at least one.
        weights: of the values, in the same order, 0 or more; None: equal ones.
        tail: how the values go on that are a guess; None: they end with the last one.
    """

    __slots__ = ("_places", "_tail", "_values")

    def __init__(
        self,
        values: Sequence[float] | Floats,
        weights: Floats | None = None,
        tail: Tail | None = None,
    ) -> None:
        self._tail = tail
        kept = np.array(values)
        order = kept.argsort(kind="stable")
        self._values: Floats = kept[order]
        if weights is None:
            self._places: Floats = np.linspace(0.0, 1.0, len(kept))
            return
        mass = weights[order] / weights.sum()
        middles = mass.cumsum() - mass / 2
        self._places = (middles - middles[0]) / max(middles[-1] - middles[0], 1e-300)

    def at(self, shares: Floats) -> Floats:
        """Return the quantiles at several places from 0 to 1."""
        quantiles: Floats = np.interp(shares, self._places, self._values)
        return quantiles

    def share_up_to(self, value: float) -> float:
        """Return the u at which the quantile has this value: the inverse of ``at``."""
        if value >= self._values[-1]:
            return 1.0
        return float(np.interp(value, self._values, self._places))

    def longer_than(self, value: float, shares: Floats) -> Floats | None:
        """Return the quantiles of what is larger than a value; None: nothing is."""
        if self._tail is not None and value >= self._tail.last:
            return self._tail.beyond(value, shares)
        gone = self.share_up_to(value)
        return None if gone >= 1.0 else np.maximum(self.at(gone + (1.0 - gone) * shares), value)


class Survival(NamedTuple):
    """The weights of ended values, in their order; the rest, ``beyond``, is that of the tail."""

    weights: Floats
    beyond: float
    tail: Tail

    @property
    def longer(self) -> Floats:
        """``TAIL`` equally likely values beyond the last one; none if nothing is there."""
        points = (np.arange(TAIL if self.beyond > 0 else 0) + 0.5) / TAIL
        return self.tail.beyond(self.tail.last, points)

    def quantiles(self, ended: Floats) -> Quantiles:
        """Return the distribution of those values and their tail."""
        longer = self.longer
        if not len(longer):
            return Quantiles(ended, self.weights)
        weights = np.concatenate([self.weights, np.full(TAIL, self.beyond / TAIL)])
        return Quantiles(np.concatenate([ended, longer]), weights, self.tail)


def survival(
    ended: Floats, entered: Floats, unfinished: Floats, unfinished_entered: Floats
) -> Survival:
    """Return how likely values are, of which some have only been seen to be larger than a bound.

    It is Kaplan and Meier's product-limit estimate (JASA 53, 1958) with delayed entry: a value that
    was seen only from ``entered`` on says nothing of smaller ones. Beyond the largest that ended it
    is continued exponentially (Brown, Hollander and Korwar 1974), or as Pareto's distribution where
    that is likelier by what the longest fifth took.

    Args:
        ended: the values that are known; at least one.
        entered: by value, from where on it was seen.
        unfinished: bounds of the others.
        unfinished_entered: from where on those were seen.
    """
    order = ended.argsort(kind="stable")
    values = ended[order]
    entries = np.sort(np.concatenate([entered, unfinished_entered]))
    left = np.arange(len(values)) + np.searchsorted(np.sort(unfinished), values, side="left")
    at_risk = np.maximum(np.searchsorted(entries, values, side="right") - left, 1)
    surviving = np.cumprod(1.0 - 1.0 / at_risk)
    if not surviving[:-1].all():
        # nothing else was seen there: larger values would be lost
        surviving = np.cumprod(1.0 - 1.0 / (at_risk + (np.arange(len(values), 0, -1) > 1)))
    weights = np.empty(len(values))
    weights[order] = -np.diff(surviving, prepend=1.0)
    beyond, last = float(surviving[-1]), float(values[-1])
    mean = last / -math.log(beyond) if 0.0 < beyond < 1.0 else last
    index = _pareto_index(
        values,
        np.concatenate([ended, unfinished]),
        np.concatenate([entered, unfinished_entered]),
    )
    return Survival(weights, beyond, Tail(last, mean, index))


def _pareto_index(values: Floats, seen: Floats, entered: Floats) -> float:
    """Return that of the longest values, or 0 where an exponential tail is likelier.

    Both by maximum likelihood (Hill, Annals of Statistics 3, 1975, where all have ended): as many
    as have ended, divided by what was seen of all, or of their logarithms, beyond the threshold.

    Args:
        values: those that ended, sorted.
        seen: how far each was seen, the unfinished ones as well.
        entered: from where on.
    """
    count = max(LONG, len(values) // 5)
    if len(values) <= count or (least := float(values[-count - 1])) <= 0:
        return 0.0
    longest, since = values[values > least], np.maximum(entered, least)
    seen, since = seen[seen > since], since[seen > since]
    with np.errstate(over="ignore"):
        spans, logarithms = (
            float(one.sum()) for one in (seen - since, np.log(seen) - np.log(since))
        )
    # a value may be infinite: a ratio to an estimate of next to nothing
    if not len(longest) or not (0 < spans < math.inf and 0 < logarithms < math.inf):
        return 0.0
    index = len(longest) / logarithms
    mean = math.log(index) + math.log(spans) - math.log(len(longest))
    gained = len(longest) * mean - float(np.log(longest).sum())
    return max(index, LEAST_INDEX) if gained > 0 else 0.0


class _History:
    """What attempts took alone and what had been estimated, in the order in which they ended.

    A straight line through the logarithms expresses how reliable estimates are:
    run time = e^a · estimate^b · an observed factor, 1 on average. An estimate that is right except
    for its scale has b = 1; one that knows no more than the kind has b = 0, and the factors are
    then the kind's run times themselves. Ratios alone would count an estimate's own error twice: a
    large estimate is more often too large. A queue waits for a sum of run times, so the line is
    that of Poisson's likelihood, by which the sums are right; least squares of logarithms misses a
    quarter of a heavy tail (Santos Silva and Tenreyro, The log of gravity, 2006).
    """

    __slots__ = ("_factors", "_line", "began", "ended", "is_certain", "ratios", "work")

    def __init__(self) -> None:
        # instants of farm time
        self.began: list[float] = []
        self.ended: list[float] = []
        self.ratios: list[float] = []
        #: seconds at speed 1
        self.work: list[float] = []
        self._line: tuple[float, float] | None = None
        self._factors: list[float] = []
        #: all attempts took what was estimated, times one factor; known after ``spread``
        self.is_certain = True

    def add(self, began_at: float, ended_at: float, ratio: float, work: float) -> None:
        """Add an attempt, and forget the first one if there are too many."""
        self.began.append(began_at)
        self.ended.append(ended_at)
        self.ratios.append(ratio)
        self.work.append(work)
        if len(self.work) > KEPT:
            for kept in (self.began, self.ended, self.ratios, self.work):
                del kept[0]
        self._line = None

    def spread(self, estimate: float) -> tuple[float, list[float]]:
        """Return a time and its factors, for a job with this estimate (at speed 1)."""
        if self._line is None:
            self._line = self._fit()
        scale, exponent = self._line
        estimate = min(estimate, LONGEST)
        if exponent == 1.0:
            return estimate * scale, self._factors
        return scale * max(estimate, SMALLEST) ** exponent, self._factors

    def _fit(self) -> tuple[float, float]:
        """Fit the line and keep the factors around it; return e^a and b."""
        ratios, work = self.ratios, self.work
        self.is_certain = max(ratios) - min(ratios) <= 1e-9 * max(ratios)
        if self.is_certain:
            self._factors = ratios
            return 1.0, 1.0
        # tiny values count as zero: one job of no length must not turn the line
        least = max(statistics.median(work) / 100, SMALLEST)
        took = np.maximum(work, least)
        x = np.log(np.maximum(np.array(work) / np.array(ratios), least))
        b = _slope(x, took)
        powers = np.exp(b * x)
        scale = float(took.sum() / powers.sum())
        factors = took / (scale * powers)
        self._factors = (factors / factors.mean()).tolist()
        return scale, b


def _slope(x: Floats, took: Floats) -> float:
    """Return b, 0 to 1.5, where the mean of x weighted by e^(b x) is that weighted by run times."""
    if float(x.var()) * len(x) <= 1e-12:
        return 1.0
    x = x - x.max()
    wanted, b = float(took @ x) / float(took.sum()), 1.0
    for _ in range(MOST_STEPS):
        weights = np.exp(b * x)
        weights /= weights.sum()
        mean = float(weights @ x)
        variance = float(weights @ (x - mean) ** 2)
        step = (wanted - mean) / max(variance, 1e-12)
        before, b = b, min(max(b + min(max(step, -0.5), 0.5), 0.0), 1.5)
        if abs(b - before) < 1e-6:
            break
    return b


def sort_of(job: Job) -> str:
    """Return which jobs have one history: those of a kind, and its heavy ones apart.

    A job that is heavy is known to be, and is longer or shorter than the others of its kind.
    """
    return f"{job.kind}\x1fheavy" if job.heavy else job.kind


class Spread(NamedTuple):
    """A time at speed 1 (s) and the observed factors around it, by the end of their attempts."""

    time: float
    factors: list[float]
    history: _History

    @property
    def entered(self) -> Floats:
        """From where on each factor was seen: an attempt of before the first end, only then."""
        shares = seen_from(np.array(self.history.began), np.array(self.history.ended), self.since)
        return np.array(self.factors) * shares

    @property
    def since(self) -> float:
        """Since when all attempts that ended are among the factors."""
        return self.history.ended[0] if len(self.factors) == KEPT else -math.inf


def seen_from(began_at: Floats, ended_at: Floats, since: float) -> Floats:
    """Return which part of each attempt had passed at the instant ``since``, 0 to 1."""
    lengths = np.maximum(ended_at - began_at, 1e-9)
    return np.clip((max(since, BEFORE) - began_at) / lengths, 0.0, 1.0)


class RuntimeDistribution(RuntimeEstimator):
    """A runtime estimator together with the distribution of its jobs' true run times.

    It is a runtime estimator itself and replaces the one that it wraps. A draw is the run time of
    jobs with such an estimate, by a line through the logarithms of both, times an observed factor.
    A kind with fewer than ``ENOUGH`` attempts is drawn from those of all kinds whose estimates came
    from past runs as this one's did, or did not: one is far better known than the other. If all of
    them are too few, the estimate is taken as certain.
    """

    learns = True

    def __init__(self, estimator: RuntimeEstimator) -> None:
        self.estimator = estimator
        self.name = estimator.name
        #: of all kinds: where the estimate came from past runs, and where it did not
        self._known, self._unknown = _History(), _History()
        self._kinds: dict[str, _History] = {}

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the wrapped estimate in seconds."""
        return self.estimator.estimate(job, builder)

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Learn from an attempt that had the builder for itself, at an unknown time."""
        self._record(EndedAttempt(job, builder, BEFORE, BEFORE, outcome), elapsed)
        self.estimator.learn(job, builder, elapsed, outcome)

    def learn_attempt(self, ended: EndedAttempt) -> None:
        """Record the error of the estimate for this builder; then let the estimator learn.

        What is recorded is the work: in a rollout its neighbours slow a job down again.
        """
        elapsed = ended.ended_at - ended.began_at
        self._record(ended, elapsed if ended.work is None else ended.work)
        self.estimator.learn(ended.job, ended.builder, elapsed, ended.outcome)

    def _record(self, ended: EndedAttempt, alone: float) -> None:
        job, builder = ended.job, ended.builder
        if ended.outcome != "succeeded" or not is_time(alone):
            return
        estimate = self.estimator.estimate(job, builder)
        if estimate > 0:
            ratio = min(max(alone / estimate, SMALLEST), LARGEST)
            work = min(alone * speed_of(builder), LONGEST)
            kind = latest(self._kinds, sort_of(job), _History())
            for history in (self._of_all(job, builder), kind):
                history.add(ended.began_at, ended.ended_at, ratio, work)

    def _of_all(self, job: Job, builder: Builder | None) -> _History:
        return self._known if self.estimator.basis(job, builder).samples else self._unknown

    def basis(self, job: Job, builder: Builder | None = None) -> Basis:
        """Return the basis of the wrapped estimate."""
        return self.estimator.basis(job, builder)

    def size_sent(self, job: Job, builder: Builder) -> float | None:
        """Return the size that the wrapped estimator lets a builder be sent."""
        return self.estimator.size_sent(job, builder)

    def remaining(
        self, job: Job, builder: Builder, elapsed: float, progress: Progress | None = None
    ) -> float:
        """Return the wrapped estimate of a running job's remaining time in seconds."""
        return self.estimator.remaining(job, builder, elapsed, progress)

    def spread(self, job: Job, builder: Builder | None = None) -> Spread | None:
        """Return what a job's run time is drawn from; None: the estimate is certain.

        ``builder``: the estimate for this one counts, without one that of a waiting job.
        """
        kind, of_all = self._kinds.get(sort_of(job)), self._of_all(job, builder)
        other = self._known if of_all is self._unknown else self._unknown
        enough = (one for one in (kind, of_all, other) if one and len(one.ratios) >= ENOUGH)
        if (history := next(enough, None)) is None:
            return None
        estimate = self.estimator.estimate(job, builder) * speed_of(builder)
        time, factors = history.spread(estimate)
        return Spread(time, factors, history) if is_time(time) else None

    def known_of(self, kind: str) -> int:
        """Return how many run times of a kind are remembered."""
        history = self._kinds.get(kind)
        return 0 if history is None else len(history.work)

    def forget_times(self) -> None:
        """Count all that was learned so far as before the farm's beginning."""
        for history in (self._known, self._unknown, *self._kinds.values()):
            history.began = [BEFORE] * len(history.began)
            history.ended = list(history.began)

    def dump(self) -> JsonValues:
        """Return the estimator's statistics and the history as plain JSON values.

        The history is in the order in which attempts ended.
        """
        found: JsonValues = {"estimator": self.name, "statistics": self.estimator.dump()}
        for name in PARTS:
            found[name] = list(getattr(self._unknown, name))
            found[f"{name}_known"] = list(getattr(self._known, name))
            by_kind = {kind: list(getattr(kept, name)) for kind, kept in self._kinds.items()}
            found[f"{name}_by_kind"] = by_kind
        return found

    def load(self, state: JsonValues) -> None:
        """Restore both; StateError if the dump is invalid.

        A dump of the wrapped estimator alone is valid too: the history is then empty.
        """
        check_owner(state, self.name)
        parts = [converted(state, name, list[float]) for name in PARTS]
        known = [converted(state, f"{name}_known", list[float]) for name in PARTS]
        by_kind = [converted(state, f"{name}_by_kind", dict[str, list[float]]) for name in PARTS]
        self.estimator.load(state.get("statistics", state))
        self._known, self._unknown = _loaded(*known), _loaded(*parts)
        self._kinds = {
            kind: _loaded(*(part.get(kind, []) for part in by_kind)) for kind in by_kind[0]
        }


def _loaded(
    ratios: list[float], work: list[float], began: list[float], ended: list[float]
) -> _History:
    """Return a history of dumped values; those that mean nothing are left out."""
    history = _History()
    dated = len(began) == len(ended) == len(ratios)
    for n, (ratio, value) in enumerate(zip(ratios, work, strict=False)):
        if SMALLEST <= ratio <= LARGEST and 0.0 <= value <= LONGEST:
            began_at, ended_at = (began[n], ended[n]) if dated else (BEFORE, BEFORE)
            history.add(began_at, ended_at, ratio, value)
    return history
