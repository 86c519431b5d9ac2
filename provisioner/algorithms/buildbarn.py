"""A high quantile of the recent demand (Buildbarn's bb-autoscaler)."""

from __future__ import annotations

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from farm.core.pools.formulas import buildbarn
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
    formula = "buildbarn"
    max: Count
    quantile: Share = 0.95
    window: PositiveSeconds = 14400.0
    interval: Seconds = 60.0

    def plan(self, snapshot: PoolSnapshot, memory: Demand) -> tuple[ScalingPlan, Demand]:
        """Plan for the quantile of the demand inside the window."""
        oldest, now = snapshot.at - self.window, buildbarn.jobs_of(snapshot)
        kept = tuple(sample for sample in memory.samples if sample[0] > oldest)
        samples = (*kept, (snapshot.at, now))
        ordered = sorted(jobs for _, jobs in samples)
        desired, start, stop, demand = buildbarn.plan(snapshot, self, ordered, 0, len(ordered))
        why = f"{demand:g} jobs at quantile {self.quantile:g}"
        return ScalingPlan(desired, start, stop, why), Demand(samples)
