"""Waits of which some were broken off: the product-limit estimator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from farm.forecasts.runtime.survival import survival
from farm.records.attempt import Attempt
from farm.results.descriptive_statistics import quantile
from farm.results.table.columns import Floats


class Waits:
    """The waits of attempts, seconds: those that ended with a start, and those broken off.

    ``ends``: until when an attempt without an end waits.
    """

    def __init__(self, attempts: Sequence[Attempt], ends: float) -> None:
        self.ended = _floats(one.waited for one in attempts)
        self.broken_off = _floats(
            (ends if one.finished_at is None else one.finished_at) - one.eligible_at
            for one in attempts
            if one.eligible_at is not None and one.started_at is None
        )
        #: waits that are not known
        self.unknown = sum(one.eligible_at is None for one in attempts)

    def quantile(self, p: float) -> float | None:
        """Return the p-quantile; None: too many were broken off to tell."""
        return wait_quantile(self.ended, self.broken_off, p)


def wait_quantile(waits: Floats, broken_off: Floats, p: float) -> float | None:
    """Return the p-quantile of waits, seconds, of which some are only known to be longer.

    ``waits`` ended with a start, ``broken_off`` before one. Without the latter it is the quantile
    of all other figures (type 7); None: too many were broken off to tell (``survival``).
    """
    if not len(broken_off) or not len(waits):
        return quantile(waits, p) if len(waits) else None
    always = [np.full(len(some), -np.inf) for some in (waits, broken_off)]
    order = waits.argsort(kind="stable")
    started = survival(waits, always[0], broken_off, always[1]).weights[order].cumsum()
    passed = np.flatnonzero(started >= p - 1e-12)
    return float(waits[order][passed[0]]) if len(passed) else None


def _floats(values: Iterable[float | None]) -> Floats:
    return np.array([one for one in values if one is not None], np.float64)
