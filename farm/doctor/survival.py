"""Waits of which some were broken off: the product-limit estimator."""

from __future__ import annotations

import numpy as np

from farm.results.descriptive_statistics import quantile
from farm.results.table.columns import Floats


def wait_quantile(waits: Floats, broken_off: Floats, p: float) -> float | None:
    """Return the p-quantile of waits, seconds, of which some are only known to be longer.

    ``waits`` ended with a start, ``broken_off`` before one. Without the latter it is the quantile
    of all other figures (type 7); None: too many were broken off to tell. Kaplan and Meier,
    "Nonparametric Estimation from Incomplete Observations" (1958).
    """
    if not len(broken_off):
        return quantile(waits, p) if len(waits) else None
    times = np.concatenate((waits, broken_off))
    started = np.repeat((True, False), (len(waits), len(broken_off)))
    # at one instant, starts come before those that were broken off
    order = np.lexsort((~started, times))
    at_risk = np.arange(len(times), 0, -1)
    surviving = np.cumprod(np.where(started[order], 1.0 - 1.0 / at_risk, 1.0))
    passed = np.flatnonzero((surviving <= 1.0 - p + 1e-12) & started[order])
    return float(times[order][passed[0]]) if len(passed) else None
