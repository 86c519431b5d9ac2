"""How far estimates are off, as a distribution: run times to draw for rollouts.

Beside an estimator this keeps, per kind, the last ratios of what an attempt took to what the
estimator had said before it. A draw is the present estimate times a quantile of those ratios, so
any estimator becomes a distribution: the oracle's is certain, the declared times' shows how well
submitters know their jobs. Dice stay outside: the caller brings the uniform number.

The quantile at u is piecewise linear over the sorted sample: its least value at u = 0, its largest
at u = 1 (Hyndman and Fan's type 7, numpy's default).
"""

from __future__ import annotations

import bisect
import math

import msgspec

from farm.core.errors import StateError
from farm.core.model import Builder, Job, Outcome
from farm.core.runtime_estimators.interface import (
    JsonValues,
    RuntimeEstimator,
    check_owner,
    is_time,
)

#: ratios are kept within these: beyond, an estimate was no estimate
SMALLEST, LARGEST = 1e-6, 1e6


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
        """Take a value in and, when full, forget the oldest."""
        self._newest.append(value)
        bisect.insort(self._sorted, value)
        if len(self._newest) > self._keep:
            oldest = self._newest.pop(0)
            del self._sorted[bisect.bisect_left(self._sorted, oldest)]

    def values(self) -> list[float]:
        """Return the values kept, oldest first."""
        return list(self._newest)

    def in_order(self) -> list[float]:
        """Return the values kept, smallest first (the list is not a copy: leave it alone)."""
        return self._sorted

    def at(self, u: float) -> float:
        """Return the quantile at u (0 to 1; outside, the nearer end). There must be values."""
        kept = self._sorted
        place = min(max(u, 0.0), 1.0) * (len(kept) - 1)
        below = int(place)
        low, high = kept[below], kept[min(below + 1, len(kept) - 1)]
        # kept within the two: rounding must not make a quantile function fall
        return min(max(low + (high - low) * (place - below), low), high)

    def share_up_to(self, value: float) -> float:
        """Return the u at which the quantile is the value: the inverse of ``at``."""
        kept = self._sorted
        if value < kept[0]:
            return 0.0
        if value >= kept[-1]:
            return 1.0
        above = bisect.bisect_right(kept, value)
        low, high = kept[above - 1], kept[above]
        return (above - 1 + (value - low) / (high - low)) / (len(kept) - 1)


class RuntimeDistribution:
    """A runtime estimator together with the distribution of its errors.

    It is a runtime estimator itself: put in the place of the one that it wraps it learns both.
    A kind with fewer than ``enough`` ratios is drawn from those of all kinds; without ``enough``
    of these either, the estimate is taken as certain.
    """

    learns = True

    def __init__(self, estimator: RuntimeEstimator, *, keep: int = 200, enough: int = 5) -> None:
        self.estimator = estimator
        self.name = estimator.name
        self._keep, self._enough = keep, enough
        self._all = Quantiles(keep)
        self._kinds: dict[str, Quantiles] = {}

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the wrapped estimate in seconds."""
        return self.estimator.estimate(job, builder)

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Note how far the estimate for this builder was off; then let the estimator learn."""
        if outcome == "succeeded" and is_time(elapsed):
            said = self.estimator.estimate(job, builder)
            if said > 0:
                ratio = min(max(elapsed / said, SMALLEST), LARGEST)
                self._all.add(ratio)
                self._kinds.setdefault(job.kind, Quantiles(self._keep)).add(ratio)
        self.estimator.learn(job, builder, elapsed, outcome)

    def remaining(
        self, job: Job, builder: Builder, elapsed: float, fraction_done: float | None = None
    ) -> float:
        """Return the wrapped estimate of a running job's rest in seconds."""
        return self.estimator.remaining(job, builder, elapsed, fraction_done)

    def _ratios(self, job: Job) -> Quantiles | None:
        kind = self._kinds.get(job.kind)
        if kind is not None and len(kind) >= self._enough:
            return kind
        return self._all if len(self._all) >= self._enough else None

    def spread(self, job: Job) -> tuple[float, list[float] | None]:
        """Return what ``draw`` draws from without a builder: the estimate and the sorted ratios.

        None instead of the ratios: the estimate is taken as certain.
        """
        ratios = self._ratios(job)
        return self.estimator.estimate(job), None if ratios is None else ratios.in_order()

    def draw(self, job: Job, u: float, builder: Builder | None = None) -> float:
        """Return the run time in seconds that is not exceeded with probability u (0 to 1)."""
        said = self.estimator.estimate(job, builder)
        ratios = self._ratios(job)
        return said if ratios is None else _finite(said * ratios.at(u), said)

    def draw_remaining(self, job: Job, u: float, builder: Builder, elapsed: float) -> float:
        """Return the same for the rest of a job that has run ``elapsed`` seconds and is not done.

        Only run times longer than that are left to draw from; when it has outrun them all, the
        rest is the estimator's.
        """
        said = self.estimator.estimate(job, builder)
        ratios = self._ratios(job)
        if not is_time(elapsed):
            elapsed = 0.0
        if ratios is None or said <= 0:
            return self.estimator.remaining(job, builder, elapsed)
        gone = ratios.share_up_to(elapsed / said)
        if gone >= 1.0:
            return self.estimator.remaining(job, builder, elapsed)
        u = min(max(u, 0.0), 1.0)
        total = said * ratios.at(gone + (1.0 - gone) * u)
        return _finite(max(total - elapsed, 0.0), said)

    def dump(self) -> JsonValues:
        """Return the estimator's statistics and the ratios, oldest first, as plain JSON values."""
        return {
            "estimator": self.name,
            "statistics": self.estimator.dump(),
            "ratios": self._all.values(),
            "ratios_by_kind": {kind: kept.values() for kind, kept in self._kinds.items()},
        }

    def load(self, state: JsonValues) -> None:
        """Take both back; StateError if they are not such a dump.

        A dump of the wrapped estimator alone will do: then no ratios are known.
        """
        check_owner(state, self.name)
        try:
            every = msgspec.convert(state.get("ratios", []), list[float])
            by_kind = msgspec.convert(state.get("ratios_by_kind", {}), dict[str, list[float]])
        except msgspec.ValidationError as error:
            raise StateError(f"ratios: {error}") from None
        self.estimator.load(state.get("statistics", state))
        self._all = Quantiles(self._keep, _usable(every))
        self._kinds = {k: Quantiles(self._keep, _usable(kept)) for k, kept in by_kind.items()}


def _usable(ratios: list[float]) -> list[float]:
    return [ratio for ratio in ratios if SMALLEST <= ratio <= LARGEST]


def _finite(value: float, otherwise: float) -> float:
    return value if value < math.inf else otherwise
