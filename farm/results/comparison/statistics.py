"""Whether a difference between two runs is more than noise."""

from __future__ import annotations

import math
from statistics import NormalDist

import msgspec
import numpy as np
import numpy.typing as npt

from farm.results.summary.percentiles import Floats

CONFIDENCE = 0.95
RESAMPLES = 1000
SMALLEST_SAMPLE = 10
"""Fewer values than this are not judged: no interval is given."""


class Interval(msgspec.Struct, frozen=True):
    """A confidence interval (95 %) of a difference of means, and how it was found."""

    low: float
    high: float
    method: str

    @property
    def holds_zero(self) -> bool:
        """Whether the difference may be noise."""
        return self.low <= 0.0 <= self.high


def paired_interval(differences: Floats, rng: np.random.Generator) -> Interval | None:
    """Return the interval of a mean of paired differences, given in order of arrival.

    Neighbours in a queue wait for the same jobs, so their differences go together; a bootstrap
    of single jobs would be far too sure of itself. Whole blocks of about √n successive jobs are
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
    means = block_means[starts].mean(axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return Interval(float(low), float(high), "paired block bootstrap")


def welch_interval(one: Floats, other: Floats) -> Interval | None:
    """Return the interval of mean(other) - mean(one) of independent samples (Welch 1947).

    None for too few values. It takes the values of one run for independent, which queueing jobs
    are not: read it as a lower bound of the uncertainty.
    """
    if min(len(one), len(other)) < SMALLEST_SAMPLE:
        return None
    parts = [float(np.var(v, ddof=1)) / len(v) for v in (one, other)]
    difference = float(np.mean(other) - np.mean(one))
    error = math.sqrt(sum(parts))
    if error == 0.0:
        return Interval(difference, difference, "Welch")
    spread = sum(part * part / (len(v) - 1) for part, v in zip(parts, (one, other), strict=True))
    half = _student(sum(parts) ** 2 / spread) * error
    return Interval(difference - half, difference + half, "Welch")


def _student(freedom: float) -> float:
    """Return Student's two-sided 95 % point: Cornish and Fisher's expansion about the normal's."""
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def inverted_share(ranks: npt.NDArray[np.int64]) -> float:
    """Return the share of pairs that stand in the other order (Kendall's distance, 0 to 1).

    ``ranks`` is a permutation of 0 … n-1. Counted bit by bit from the top, all pairs of a bit at
    once: O(n log² n) with NumPy's sorts, seconds for a million.
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
