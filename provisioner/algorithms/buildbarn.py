"""A high quantile of the recent demand (Buildbarn's bb-autoscaler)."""

from __future__ import annotations

import math

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from provisioner.algorithms.sizing import Count, PositiveSeconds, Seconds, Share, Sizing


class Demand(Memory, frozen=True):
    """The jobs in the system at recent plans: (instant, waiting + running)."""

    samples: tuple[tuple[float, int], ...] = ()


class Buildbarn(Sizing[Demand], frozen=True, kw_only=True):
    """bb-autoscaler with its documented query.

    q        = quantile_over_time(quantile, jobs in the system [window]), 0.95 over 4 h
    builders = clamp((ceil(q) + slots - 1) div slots, min, max)

    Jobs in the system are those scheduled and not yet done: waiting and running. The quantile
    interpolates linearly between samples, as Prometheus does. A job of the system's cron table
    runs it; ``interval`` is also the sampling step. It shrinks slowly, by its window, and drains
    builders.
    """

    remembers = Demand
    max: Count
    quantile: Share = 0.95
    window: PositiveSeconds = 14400.0
    interval: Seconds = 60.0

    def plan(self, snapshot: PoolSnapshot, memory: Demand) -> tuple[ScalingPlan, Demand]:
        """Plan for the quantile of the demand inside the window."""
        oldest = snapshot.at - self.window
        now = snapshot.waiting_jobs + snapshot.running_jobs + snapshot.draining_jobs
        kept = tuple(sample for sample in memory.samples if sample[0] > oldest)
        samples = (*kept, (snapshot.at, now))
        demand = quantile([float(jobs) for _, jobs in samples], self.quantile)
        wanted = (math.ceil(demand) + snapshot.slots - 1) // snapshot.slots
        why = f"{demand:g} jobs at quantile {self.quantile:g}"
        return self.towards(snapshot, wanted, why), Demand(samples)


def quantile(values: list[float], share: float) -> float:
    """Return the share-quantile with linear interpolation between order statistics."""
    ordered = sorted(values)
    rank = share * (len(ordered) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)
