"""Percentiles, all by the same rule: linear interpolation between closest ranks.

The p-quantile of n sorted values x[0] … x[n-1] lies at rank h = (n - 1)·p and is
x[⌊h⌋] + (h - ⌊h⌋)·(x[⌊h⌋+1] - x[⌊h⌋]): type 7 of Hyndman and Fan, "Sample Quantiles in
Statistical Packages" (1996); NumPy's default.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from farm.results.table.columns import Floats


class Spread(msgspec.Struct, frozen=True):
    """The distribution of a quantity; without values every number but ``count`` is None.

    ``std`` is the population's standard deviation (divided by n, not n - 1).
    """

    count: int
    mean: float | None = None
    std: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


def quantile(values: Sequence[float] | Floats, p: float) -> float:
    """Return the p-quantile (0 ≤ p ≤ 1) of one or more values, type 7. Raises ValueError."""
    if len(values) == 0:
        raise ValueError("no values have no quantile")
    return _at(np.sort(np.asarray(values, dtype=np.float64)), p)


def _at(ascending: Floats, p: float) -> float:
    """Return the p-quantile of sorted values; rounded from the nearer one, as NumPy does."""
    rank = (len(ascending) - 1) * p
    place = min(int(rank), len(ascending) - 1)
    low, high = float(ascending[place]), float(ascending[min(place + 1, len(ascending) - 1)])
    weight = rank - place
    return low + (high - low) * weight if weight < 0.5 else high - (high - low) * (1 - weight)


def spread_of(values: Sequence[float] | Floats) -> Spread:
    """Return the spread of finite values."""
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        return Spread(count=0)
    mean = float(np.add.reduce(data) / data.size)
    with np.errstate(over="ignore"):  # squares beyond all floats: no deviation is shown
        deviations = data - mean
        std = math.sqrt(np.add.reduce(deviations * deviations) / data.size)
    ascending = np.sort(data)
    p50, p95, p99 = (_at(ascending, p) for p in (0.5, 0.95, 0.99))
    return Spread(int(data.size), mean, std, p50, p95, p99, float(ascending[-1]))
