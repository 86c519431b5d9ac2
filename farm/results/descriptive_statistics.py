"""Percentiles, all by the same rule: linear interpolation between closest ranks.

The p-quantile of n sorted values x[0] … x[n-1] lies at rank h = (n - 1)·p and is
x[⌊h⌋] + (h - ⌊h⌋)·(x[⌊h⌋+1] - x[⌊h⌋]): type 7 of Hyndman and Fan, "Sample Quantiles in
Statistical Packages" (1996); NumPy's default.
"""

from __future__ import annotations

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
    return float(np.quantile(np.asarray(values, dtype=np.float64), p, method="linear"))


def spread_of(values: Sequence[float] | Floats) -> Spread:
    """Return the spread of finite values."""
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        return Spread(count=0)
    with np.errstate(over="ignore"):  # squares beyond all floats: no deviation is shown
        std = float(data.std())
    p50, p95, p99 = np.quantile(data, (0.5, 0.95, 0.99), method="linear")
    return Spread(
        count=int(data.size),
        mean=float(data.mean()),
        std=std,
        p50=float(p50),
        p95=float(p95),
        p99=float(p99),
        max=float(data.max()),
    )
