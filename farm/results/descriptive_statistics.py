"""Percentiles of what happened, by one rule: linear interpolation between closest ranks.

The p-quantile of n sorted values x[0] … x[n-1] lies at rank h = (n - 1)·p and is
x[⌊h⌋] + (h - ⌊h⌋)·(x[⌊h⌋+1] - x[⌊h⌋]): type 7 of Hyndman and Fan, "Sample Quantiles in
Statistical Packages" (1996); NumPy's default. Forecasts go by type 6 instead
(``farm.sim.rollouts.wait_quantiles``), as theirs are of a value that is still to come.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from farm.columns import Floats


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
    return _quantiles(np.asarray(values, dtype=np.float64), [p])[0]


def _quantiles(data: Floats, levels: Sequence[float]) -> list[float]:
    """Return quantiles; rounded from the nearer value, as NumPy does.

    They are NumPy's to the last bit, whose own function imports ``numpy.ma``: that takes longer
    than to sum up a small run.
    """
    ranks = [(len(data) - 1) * p for p in levels]
    places = [(int(rank), min(int(rank) + 1, len(data) - 1)) for rank in ranks]
    parted = np.partition(data, sorted({place for pair in places for place in pair}))
    found = []
    for rank, (lower, upper) in zip(ranks, places, strict=True):
        low, high = parted.item(lower), parted.item(upper)
        weight = rank - lower
        near = low + (high - low) * weight
        found.append(near if weight < 0.5 else high - (high - low) * (1 - weight))
    return found


def spread_of(values: Sequence[float] | Floats) -> Spread:
    """Return the spread of finite values.

    Of many values it takes as much memory as they do, once: for their deviations, and then for the
    partition by ranks.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        return Spread(count=0)
    mean = float(np.add.reduce(data) / data.size)
    with np.errstate(over="ignore"):  # squares beyond all floats: no deviation is shown
        std = float(np.std(data))
    p50, p95, p99 = _quantiles(data, (0.5, 0.95, 0.99))
    return Spread(int(data.size), mean, std, p50, p95, p99, float(data.max()))
