"""How long waiting jobs will wait, as a distribution: P50, P90 and mean over the rollouts."""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np

from farm.columns import Floats


class Rollouts(msgspec.Struct, frozen=True, eq=False, dict=True):
    """When each job of interest is dispatched, rollout by rollout.

    ``dispatch_at`` is farm time, a row per rollout and a column per job; infinity: not at all.
    """

    at: float
    jobs: tuple[str, ...]
    dispatch_at: Floats

    @property
    def waits(self) -> Floats:
        """Seconds from the snapshot's instant to the dispatch."""
        return self.dispatch_at - self.at

    @cached_property
    def _sorted(self) -> Floats:
        return np.sort(self.waits, axis=0)

    def wait_quantile(self, p: float) -> Floats:
        """Return, for each job, the p-quantile of its wait in seconds (may be infinite).

        Of n rollouts and the truth each is as likely to be the i-th, so the i-th of the rollouts is
        the quantile i/(n + 1), as far as that goes (type 6: Hyndman and Fan, Sample quantiles in
        statistical packages, 1996). Results describe what has happened, and go by type 7
        (``farm.results.descriptive_statistics``).
        """
        rank = min(max((len(self._sorted) + 1) * p - 1, 0.0), len(self._sorted) - 1)
        low = int(rank)
        high = min(low + 1, len(self._sorted) - 1)
        below, above = self._sorted[low], self._sorted[high]
        share = rank - low
        if not share:
            return np.asarray(below)
        with np.errstate(invalid="ignore"):
            between = below + (above - below) * share
        return np.asarray(np.where(np.isfinite(above), between, above))

    @property
    def mean_wait(self) -> Floats:
        """For each job the mean of its wait, seconds."""
        mean: Floats = self.waits.mean(axis=0)
        return mean
