"""A high quantile of the recent demand (Buildbarn's bb-autoscaler)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from provisioner.algorithms.sizing import (
    Count,
    PositiveSeconds,
    Seconds,
    Share,
    Sizing,
    plan_for_size,
)


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
        oldest = snapshot.at - self.window
        kept = tuple(sample for sample in memory.samples if sample[0] > oldest)
        samples = (*kept, (snapshot.at, jobs_in_system(snapshot)))
        ordered = sorted(jobs for _, jobs in samples)
        desired, start, stop, demand = plan_in_numbers(snapshot, self, ordered, 0, len(ordered))
        why = f"{demand:g} jobs at quantile {self.quantile:g}"
        return ScalingPlan(desired, start, stop, why), Demand(samples)


def jobs_in_system(snapshot: PoolSnapshot) -> int:
    """Return the jobs that are scheduled and not yet done."""
    return snapshot.waiting_jobs + snapshot.running_jobs + snapshot.draining_jobs


def quantile(ordered: Sequence[float], begin: int, count: int, share: float) -> float:
    """Return a quantile of ``count`` numbers from ``begin`` on, the smallest first.

    It interpolates linearly between order statistics, as Prometheus' ``quantile_over_time``.
    """
    rank = share * (count - 1)
    low = math.floor(rank)
    below, above = ordered[begin + low], ordered[begin + min(low + 1, count - 1)]
    return below + (above - below) * (rank - low)


def plan_in_numbers(
    snapshot: PoolSnapshot, options: Buildbarn, ordered: Sequence[float], begin: int, count: int
) -> tuple[int, int, int, float]:
    """Return builders desired, to be started and to be stopped, and the quantile of the demand.

    ``ordered`` has ``count`` numbers of jobs from ``begin`` on, the smallest first.
    """
    demand = quantile(ordered, begin, count, options.quantile)
    wanted = (math.ceil(demand) + snapshot.slots - 1) // snapshot.slots
    desired, start, stop = plan_for_size(snapshot, options, wanted, snapshot.joined)
    return desired, start, stop, demand
