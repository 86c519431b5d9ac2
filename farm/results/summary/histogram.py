"""The spread of more values than can be held, from their counts in narrow bins.

Every bin is as wide as 1/512 of the power of two below it, as in HdrHistogram: the bits of a float
above the last 43 of its mantissa are the number of its bin. A percentile is the middle of a bin,
which is at most 1/1024 away from any value in it.
"""

from __future__ import annotations

import math

import numpy as np

from farm.columns import Floats, Numbers, which
from farm.results.descriptive_statistics import Spread

#: bits of the mantissa that belong to the number of a bin
PRECISION = 9
#: how far a percentile is from the exact one, at most, as a share of that one: 0.00098
RELATIVE_ERROR = 0.5 / (1 << PRECISION)
#: smaller values count as 0: a float below 2⁻¹⁰²² has fewer digits
SMALLEST = float(np.finfo(np.float64).smallest_normal)
_SHIFT = np.finfo(np.float64).nmant - PRECISION


class Histogram:
    """Counts of finite values that are not negative; memory grows with their range alone.

    A range of nine powers of ten takes 15,000 bins. Mean and standard deviation are of the values
    themselves, their sums taken piece by piece (Chan, Golub and LeVeque, "Updating Formulae and a
    Pairwise Algorithm for Computing Sample Variances", 1979).
    """

    def __init__(self) -> None:
        self.count = 0
        self._zeros = 0
        self._mean = 0.0
        #: the sum of squared deviations from the mean
        self._squares = 0.0
        self._min, self._max = math.inf, -math.inf
        #: the number of the first bin that is counted
        self._first = 0
        self._counts: Numbers = np.zeros(0, np.int64)

    def take(self, values: Floats) -> None:
        """Count more values."""
        if not len(values):
            return
        mean = float(np.add.reduce(values)) / len(values)
        deviations = values - mean
        with np.errstate(over="ignore"):  # squares beyond all floats: no deviation is shown
            squares = float(np.add.reduce(deviations * deviations))
        self._add_moments(len(values), mean, squares)
        self._min = min(self._min, float(values.min()))
        self._max = max(self._max, float(values.max()))

        positive = np.ascontiguousarray(values[which(values >= SMALLEST)], np.float64)
        self._zeros += len(values) - len(positive)
        if len(positive):
            bins = positive.view(np.int64) >> _SHIFT
            first = int(bins.min())
            self._add_counts(first, np.bincount(bins - first))

    def merge(self, other: Histogram) -> None:
        """Count the values of another histogram too."""
        if not other.count:
            return
        self._add_moments(other.count, other._mean, other._squares)
        self._min = min(self._min, other._min)
        self._max = max(self._max, other._max)
        self._zeros += other._zeros
        self._add_counts(other._first, other._counts)

    def spread(self) -> Spread:
        """Return the spread of the values, its percentiles within ``RELATIVE_ERROR``."""
        if not self.count:
            return Spread(count=0)
        std = math.sqrt(self._squares / self.count)
        p50, p95, p99 = map(self.quantile, (0.5, 0.95, 0.99))
        return Spread(self.count, self._mean, std, p50, p95, p99, self._max)

    def _add_moments(self, count: int, mean: float, squares: float) -> None:
        if not self.count:
            self.count = count
            self._mean = mean
            self._squares = squares
            return
        whole = self.count + count
        distance = mean - self._mean
        self._mean += distance * (count / whole)
        self._squares += squares + distance * distance * (self.count * (count / whole))
        self.count = whole

    def _add_counts(self, first: int, counts: Numbers) -> None:
        """Add the counts of bins from ``first`` on."""
        if not len(counts):
            return
        if not len(self._counts):
            self._first = first
        begin = min(self._first, first)
        end = max(self._first + len(self._counts), first + len(counts))
        if end - begin > len(self._counts):
            wider = np.zeros(end - begin, np.int64)
            wider[self._first - begin :][: len(self._counts)] = self._counts
            self._first, self._counts = begin, wider
        self._counts[first - self._first :][: len(counts)] += counts

    def quantile(self, p: float) -> float:
        """Return the p-quantile by the rule of ``descriptive_statistics``, between two bins.

        There must be a value.
        """
        rank = (self.count - 1) * p
        low, high = self._value(int(rank)), self._value(min(int(rank) + 1, self.count - 1))
        return low + (high - low) * (rank - int(rank))

    def _value(self, place: int) -> float:
        """Return about the value at a place in the order of all values, from 0 on."""
        if place < self._zeros:
            return 0.0
        bin_number = int(np.searchsorted(np.cumsum(self._counts), place - self._zeros, "right"))
        edges = np.array([0, 1]) + self._first + bin_number
        begin, end = map(float, (edges << _SHIFT).view(np.float64))
        return min(self._max, max(self._min, begin / 2 + end / 2))
