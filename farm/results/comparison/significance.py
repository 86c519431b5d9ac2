"""Whether a difference between two runs is significant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import msgspec
import numpy as np
import numpy.typing as npt

from farm.columns import Floats, Numbers

CONFIDENCE = 0.95
RESAMPLES = 1000
FEW_DAYS = 5
"""Days from which days are resampled; jobs in blocks before."""
BINS = 500
SMALLEST_SAMPLE = 10
"""No interval is computed for fewer values than this."""


class Interval(msgspec.Struct, frozen=True):
    """A confidence interval (95 %) of a difference of means, and its method."""

    low: float
    high: float
    method: str

    @property
    def holds_zero(self) -> bool:
        """Whether the difference may be noise."""
        return self.low <= 0.0 <= self.high

    def widened(self, difference: float, comparisons: int) -> Interval:
        """Return it for several comparisons together (Bonferroni, by the normal distribution)."""
        level, normal = (1 - CONFIDENCE) / 2, NormalDist()
        factor = normal.inv_cdf(level / comparisons) / normal.inv_cdf(level)
        ends = [difference + (end - difference) * factor for end in (self.low, self.high)]
        return self if comparisons == 1 else Interval(ends[0], ends[1], self.method)


def ends_of(interval: Interval | None) -> tuple[float | None, float | None]:
    """Return the ends of an interval, None for those of none."""
    return (None, None) if interval is None else (interval.low, interval.high)


def paired_interval(differences: Floats, rng: np.random.Generator) -> Interval | None:
    """Return the interval of the mean of paired differences, which are in order of arrival.

    Neighbours in a queue wait for the same jobs, so their differences are correlated; a bootstrap
    of single jobs would give far too narrow an interval. Blocks of about √n successive jobs are
    drawn instead (circular block bootstrap, Politis and Romano 1992). None for too few values.
    """
    count = len(differences)
    if count < SMALLEST_SAMPLE:
        return None
    length = max(1, round(math.sqrt(count)))
    blocks = -(-count // length)
    around = np.concatenate([differences, differences[: length - 1]])
    sums = np.concatenate([[0.0], np.cumsum(around)])
    block_means = (sums[length:] - sums[:-length]) / length
    starts = rng.integers(0, count, size=(RESAMPLES, blocks))
    return _most_of(block_means[starts].mean(axis=1), "paired block bootstrap")


def _most_of(differences: Floats, method: str) -> Interval:
    """Return the interval that has all of the resampled differences but for its tails."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(differences, (tail, 1 - tail)).tolist()
    return Interval(low, high, method)


def resampled_interval(
    base: Floats, other: Floats, day: Numbers, level: float | None, rng: np.random.Generator
) -> Interval | None:
    """Return the interval of the difference of a mean or quantile of paired values.

    Args:
        base, other: the values of the same jobs in two runs; NaN: a job has none.
        day: the day on which each job arrived. Days are drawn with replacement, the same for both
            runs; of fewer than ``FEW_DAYS`` blocks of about √n successive jobs, as jobs of one
            queue wait for each other.
        level: the quantile, 0 to 1; None: the mean.
        rng: draws the days.

    A quantile is taken from a histogram of ``BINS`` ranks near it. None for too few values.
    """
    there = ~np.isnan(base + other)
    base, other, day = base[there], other[there], day[there]
    count = len(base)
    if count < SMALLEST_SAMPLE:
        return None
    _, block = np.unique(day, return_inverse=True)
    method = f"{block[-1] + 1} resampled days"
    if block[-1] + 1 < FEW_DAYS:
        length = max(1, round(math.sqrt(count)))
        block = np.arange(count) // length
        method = f"resampled blocks of {length} successive jobs"
    blocks = int(block.max()) + 1
    drawn = rng.multinomial(blocks, np.full(blocks, 1 / blocks), size=RESAMPLES).astype(np.float64)
    one, two = (_resampled(values, block, blocks, drawn, level) for values in (base, other))
    return _most_of(two - one, method)


def _resampled(
    values: Floats, block: Numbers, blocks: int, drawn: Floats, level: float | None
) -> Floats:
    """Return the statistic of each resample: how often each block was drawn."""
    numbers = drawn @ np.bincount(block, minlength=blocks)
    if level is None:
        return np.asarray(drawn @ np.bincount(block, values, blocks) / numbers)
    ordered = np.sort(values)
    ranks = np.array([0.0, *(level + np.linspace(-0.15, 0.15, BINS)).clip(0.0, 1.0), 1.0])
    edges = np.unique(ordered[np.round(np.sort(ranks) * (len(ordered) - 1)).astype(np.int64)])
    of = np.searchsorted(edges, values)
    cells = np.bincount(block * len(edges) + of, minlength=blocks * len(edges))
    sums = np.cumsum(drawn @ cells.reshape(blocks, len(edges)), axis=1)
    return np.asarray(edges[(sums >= level * numbers[:, np.newaxis]).argmax(axis=1)])


def welch_interval(one: Floats, other: Floats) -> Interval | None:
    """Return the interval of mean(other) - mean(one) of independent samples (Welch 1947).

    None for too few values. The values of one run are assumed to be independent, which queueing
    jobs are not: it is a lower bound of the uncertainty.
    """
    if min(len(one), len(other)) < SMALLEST_SAMPLE:
        return None
    return difference_of(one, other).interval("Welch")


@lru_cache(maxsize=256)  # comparisons of as many replications ask for the same ones
def student_quantile(p: float, freedom: float) -> float:
    """Return the p-quantile (p >= 0.5) of Student's t with these degrees of freedom.

    By Newton's method, whose steps from below never pass it: the distribution bends down.
    """
    root, power = 0.0, -(freedom + 1) / 2
    scale = math.exp(math.lgamma(-power) - math.lgamma(freedom / 2)) / math.sqrt(math.pi * freedom)
    for _ in range(200):
        density = scale * math.pow(1 + root * root / freedom, power)
        step = (p - _student_cdf(root, freedom)) / density
        root += step
        if abs(step) <= 1e-13 * root:
            break
    return root


def _student_cdf(t: float, freedom: float) -> float:
    """Return P(T <= t), t >= 0, by the incomplete beta function (Abramowitz and Stegun 26.7.1)."""
    a, b, whole = freedom / 2, 0.5, freedom + t * t
    x, rest = freedom / whole, t * t / whole
    if rest == 0.0:
        return 0.5
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(scale + a * math.log(x) + b * math.log(rest))
    if x < (a + 1) / (a + b + 2):
        return 1 - front * _fraction(x, a, b) / a / 2
    return 0.5 + front * _fraction(rest, b, a) / b / 2


def _fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function (26.5.8), by Lentz."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, 10_000):
        n = a + 2 * m
        even = m * (b - m) * x / ((n - 1) * n)
        odd = -(a + m) * (a + b + m) * x / (n * (n + 1))
        d, c = 1 / (1 + even * d), 1 + even / c
        found *= c * d
        d, c = 1 / (1 + odd * d), 1 + odd / c
        found *= (change := c * d)
        if abs(change - 1) < 1e-15:
            break
    return found


class Mean(msgspec.Struct, frozen=True):
    """The mean of independent replications, its standard error and degrees of freedom.

    ``error`` is None for a single replication: its noise is unknown.
    """

    value: float
    error: float | None
    freedom: float

    @property
    def p(self) -> float | None:
        """The two-sided p-value of a mean of zero (Student's t)."""
        if self.error is None:
            return None
        if self.error == 0.0:
            return 1.0 if self.value == 0.0 else 0.0
        return max(0.0, 2 * (1 - _student_cdf(abs(self.value) / self.error, self.freedom)))

    def interval(self, method: str, confidence: float = CONFIDENCE) -> Interval | None:
        """Return the confidence interval."""
        if self.error is None:
            return None
        half = student_quantile(0.5 + confidence / 2, self.freedom) * self.error
        return Interval(self.value - half, self.value + half, method)


def mean_of(values: Floats) -> Mean:
    """Return the mean of one or more values, or of paired differences."""
    return means_of(values[np.newaxis])[0]


def means_of(rows: Floats) -> list[Mean]:
    """Return the mean of each row of values, to the last bit as of each alone.

    Equal values have themselves as their mean, and no deviation: a sum of them may be rounded.
    """
    count, alike = rows.shape[1], rows.max(axis=1) == rows.min(axis=1)
    means: list[float] = np.where(alike, rows[:, 0], np.mean(rows, axis=1)).tolist()
    if count == 1:
        return [Mean(mean, None, 0) for mean in means]
    deviations: list[float] = np.where(alike, 0.0, np.std(rows, axis=1, ddof=1)).tolist()
    pairs = zip(means, deviations, strict=True)
    return [Mean(mean, deviation / math.sqrt(count), count - 1) for mean, deviation in pairs]


def difference_of(one: Floats, other: Floats) -> Mean:
    """Return mean(other) - mean(one) of independent replications (Welch 1947)."""
    first, second = mean_of(one), mean_of(other)
    value = second.value - first.value
    if first.error is None or second.error is None:
        return Mean(value, None, 0)
    parts = [first.error**2, second.error**2]
    spread = parts[0] ** 2 / first.freedom + parts[1] ** 2 / second.freedom
    return Mean(value, math.sqrt(sum(parts)), sum(parts) ** 2 / spread if spread else 1.0)


def holm_levels(p_values: Sequence[float]) -> list[float]:
    """Return the confidence level for each of several comparisons (Holm 1979).

    An interval of that level excludes zero exactly where Holm's step-down test rejects, so the
    probability of any wrong verdict is at most 1 - CONFIDENCE.
    """
    levels = [0.0] * len(p_values)
    left, stopped = len(p_values), False
    for place in sorted(range(len(p_values)), key=lambda place: p_values[place]):
        level = (1 - CONFIDENCE) / left
        levels[place] = 1 - level
        stopped = stopped or p_values[place] > level
        if not stopped:
            left -= 1
    return levels


def inverted_share(ranks: npt.NDArray[np.int64]) -> float:
    """Return the share of pairs in the opposite order (Kendall's distance, 0 to 1).

    ``ranks`` is a permutation of 0 … n-1. Pairs are counted bit by bit from the top, all pairs of
    a bit together: O(n log² n) with NumPy's sorts, seconds for a million.
    """
    count = len(ranks)
    if count < 2:
        return 0.0
    order = np.asarray(ranks, dtype=np.int64)
    inversions = 0
    for bit in reversed(range(int(count - 1).bit_length())):
        # order is grouped by the bits above this one, each group in its original order
        group = order >> (bit + 1)
        ones = (order >> bit) & 1
        before = np.cumsum(ones) - ones
        first = np.searchsorted(group, group, side="left")
        inversions += int(np.sum((before - before[first])[ones == 0]))
        order = order[np.argsort(order >> bit, kind="stable")]
    return inversions / (count * (count - 1) / 2)
