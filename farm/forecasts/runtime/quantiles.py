"""The distribution of estimation errors, from which rollouts draw run times.

Besides an estimator this keeps, per kind, what the last attempts took and what had been estimated
before. A draw is the time that such an estimate stands for, times a quantile of the observed
factors around it, so any estimator becomes a distribution: the oracle's is certain, the declared
times' shows how well submitters know their jobs. There is no random generator here: the caller
passes the uniform number.

The quantile at u is piecewise linear over the sorted sample: its smallest value at u = 0, its
largest at u = 1 (Hyndman and Fan's type 7, NumPy's default).
"""

from __future__ import annotations

import bisect
import math
import statistics

import numpy as np
from numpy.typing import NDArray

from farm.core.model import Builder, Job, Outcome
from farm.forecasts.runtime.interface import (
    Basis,
    JsonValues,
    Progress,
    RuntimeEstimator,
    check_owner,
    converted,
    is_time,
    speed_of,
)

#: ratios are limited to this range: beyond it an estimate means nothing
SMALLEST, LARGEST = 1e-6, 1e6
#: work is limited to this range, seconds
LONGEST = 1e12
#: attempts remembered per kind, and the minimum number to draw from
KEPT, ENOUGH = 200, 5


Floats = NDArray[np.float64]


class Quantiles:
    """The last ``keep`` values of a stream, with their quantile function."""

    __slots__ = ("_keep", "_newest", "_sorted")

    def __init__(self, keep: int, values: list[float] | None = None) -> None:
        self._keep = keep
        self._newest: list[float] = list(values or [])[-keep:]  # oldest first
        self._sorted = sorted(self._newest)

    def __len__(self) -> int:
        return len(self._newest)

    def add(self, value: float) -> None:
        """Add a value and, if full, forget the oldest."""
        self._newest.append(value)
        bisect.insort(self._sorted, value)
        if len(self._newest) > self._keep:
            oldest = self._newest.pop(0)
            del self._sorted[bisect.bisect_left(self._sorted, oldest)]

    def values(self) -> list[float]:
        """Return the values kept, oldest first."""
        return list(self._newest)

    def ends(self) -> tuple[float, float]:
        """Return the smallest and the largest value; there must be one."""
        return self._sorted[0], self._sorted[-1]

    def at(self, shares: Floats) -> Floats:
        """Return the quantiles at several places from 0 to 1; there must be a value."""
        kept = np.array(self._sorted)
        places = shares * (len(kept) - 1)
        below = places.astype(int)
        low, high = kept[below], kept[np.minimum(below + 1, len(kept) - 1)]
        # limited to the two: rounding must not make a quantile function decrease
        quantiles: Floats = np.clip(low + (high - low) * (places - below), low, high)
        return quantiles

    def share_up_to(self, value: float) -> float:
        """Return the u at which the quantile has this value: the inverse of ``at``."""
        kept = self._sorted
        if value < kept[0]:
            return 0.0
        if value >= kept[-1]:
            return 1.0
        above = bisect.bisect_right(kept, value)
        low, high = kept[above - 1], kept[above]
        return (above - 1 + (value - low) / (high - low)) / (len(kept) - 1)


class _History:
    """What attempts took and what had been estimated: pairs of ratio and work.

    A straight line through the logarithms (least squares) expresses how reliable estimates are:
    run time = e^a · estimate^b · an observed factor. An estimate that is right except for its
    scale has b = 1; one that knows no more than the kind has b = 0, and the factors are then
    the kind's run times themselves. Ratios alone would count an estimate's own error twice: a
    large estimate is more often too large.
    """

    __slots__ = ("_factors", "_line", "ratios", "work")

    def __init__(
        self, keep: int, ratios: list[float] | None = None, work: list[float] | None = None
    ) -> None:
        self.ratios = Quantiles(keep, ratios)
        #: seconds at speed 1, in the same order
        self.work = Quantiles(keep, work)
        self._line: tuple[float, float] | None = None
        self._factors = Quantiles(1)

    def add(self, ratio: float, work: float) -> None:
        self.ratios.add(ratio)
        self.work.add(work)
        self._line = None

    def spread(self, estimate: float) -> tuple[float, Quantiles]:
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
        ratios, work = self.ratios.values(), self.work.values()
        least, largest = self.ratios.ends()
        if len(ratios) != len(work) or largest - least <= 1e-9 * largest:
            self._factors = self.ratios  # certain, or dumped without the work
            return 1.0, 1.0
        # tiny values count as zero: one job of no length must not turn the line
        least = max(statistics.median(work) / 100, SMALLEST)
        y = [math.log(max(value, least)) for value in work]
        x = [math.log(max(w / r, least)) for w, r in zip(work, ratios, strict=True)]
        middle_x, middle_y = math.fsum(x) / len(x), math.fsum(y) / len(y)
        across = math.fsum((value - middle_x) ** 2 for value in x)
        along = math.fsum((u - middle_x) * (v - middle_y) for u, v in zip(x, y, strict=True))
        b = along / across if across > 1e-12 else 1.0
        b = min(max(b, 0.0), 1.5)
        a = middle_y - b * middle_x
        factors = [math.exp(v - a - b * u) for u, v in zip(x, y, strict=True)]
        self._factors = Quantiles(len(factors), factors)
        return math.exp(a), b


class RuntimeDistribution(RuntimeEstimator):
    """A runtime estimator together with the distribution of its jobs' true run times.

    It is a runtime estimator itself and replaces the one that it wraps. A draw is the run time of
    jobs with such an estimate, by a line through the logarithms of both, times an observed factor.
    A kind with fewer than ``ENOUGH`` attempts is drawn from those of all kinds; if these are too
    few as well, the estimate is taken as certain.
    """

    learns = True

    def __init__(self, estimator: RuntimeEstimator) -> None:
        self.estimator = estimator
        self.name = estimator.name
        self._all = _History(KEPT)
        self._kinds: dict[str, _History] = {}

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the wrapped estimate in seconds."""
        return self.estimator.estimate(job, builder)

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Record the error of the estimate for this builder; then let the estimator learn."""
        if outcome == "succeeded" and is_time(elapsed):
            estimate = self.estimator.estimate(job, builder)
            if estimate > 0:
                ratio = min(max(elapsed / estimate, SMALLEST), LARGEST)
                work = min(elapsed * speed_of(builder), LONGEST)
                self._all.add(ratio, work)
                if job.kind not in self._kinds:
                    self._kinds[job.kind] = _History(KEPT)
                self._kinds[job.kind].add(ratio, work)
        self.estimator.learn(job, builder, elapsed, outcome)

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

    def _spread(self, job: Job, builder: Builder | None) -> tuple[float, Quantiles] | None:
        """Return a time and the factors to draw from; None: the estimate is certain."""
        history = self._kinds.get(job.kind)
        if history is None or len(history.ratios) < ENOUGH:
            history = self._all
        if len(history.ratios) < ENOUGH:
            return None
        speed = speed_of(builder)
        unit, factors = history.spread(self.estimator.estimate(job, builder) * speed)
        time = unit / speed
        return (time, factors) if is_time(time) else None

    def spread(self, job: Job) -> tuple[float, list[float] | None]:
        """Return a time of a job without a builder, and its observed factors, to draw from.

        The factors are in order of observation, oldest first. None: the time, which is the
        estimate, is taken as certain.
        """
        found = self._spread(job, None)
        if found is None:
            return self.estimator.estimate(job), None
        return found[0], found[1].values()

    def draw_remaining(self, job: Job, u: Floats, builder: Builder, elapsed: float) -> Floats:
        """Return, for each u, the rest (s) of a run that is not exceeded with probability u.

        The job has run for ``elapsed`` seconds. Only longer run times are drawn from; if it has
        outrun them all, the estimator's remaining time is returned.
        """
        found = self._spread(job, builder)
        if not is_time(elapsed):
            elapsed = 0.0
        gone = 1.0
        if found is not None and found[0] > 0:
            gone = found[1].share_up_to(elapsed / found[0])
        if found is None or gone >= 1.0:
            return np.full(len(u), self.estimator.remaining(job, builder, elapsed))
        unit, factors = found
        shares = gone + (1.0 - gone) * np.clip(u, 0.0, 1.0)
        rests = np.maximum(unit * factors.at(shares) - elapsed, 0.0)
        return np.where(rests < math.inf, rests, unit)

    def dump(self) -> JsonValues:
        """Return the estimator's statistics and the history, oldest first, as plain JSON values."""
        return {
            "estimator": self.name,
            "statistics": self.estimator.dump(),
            "ratios": self._all.ratios.values(),
            "ratios_by_kind": {kind: kept.ratios.values() for kind, kept in self._kinds.items()},
            "work": self._all.work.values(),
            "work_by_kind": {kind: kept.work.values() for kind, kept in self._kinds.items()},
        }

    def load(self, state: JsonValues) -> None:
        """Restore both; StateError if the dump is invalid.

        A dump of the wrapped estimator alone is valid too: the history is then empty.
        """
        check_owner(state, self.name)
        every = converted(state, "ratios", list[float])
        by_kind = converted(state, "ratios_by_kind", dict[str, list[float]])
        all_work = converted(state, "work", list[float])
        work = converted(state, "work_by_kind", dict[str, list[float]])
        self.estimator.load(state.get("statistics", state))
        self._all = _History(KEPT, _usable(every), _usable_work(all_work))
        self._kinds = {
            kind: _History(KEPT, _usable(kept), _usable_work(work.get(kind, [])))
            for kind, kept in by_kind.items()
        }


def _usable(ratios: list[float]) -> list[float]:
    return [ratio for ratio in ratios if SMALLEST <= ratio <= LARGEST]


def _usable_work(work: list[float]) -> list[float]:
    return [value for value in work if 0.0 <= value <= LONGEST]
