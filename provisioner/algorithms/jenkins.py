"""The queue's excess over what is free or on its way, smoothed (Jenkins NodeProvisioner)."""

from __future__ import annotations

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from farm.core.pools.formulas import jenkins
from provisioner.algorithms.sizing import NEVER, Count, Seconds, Share, Sizing


class LoadStatistics(Memory, frozen=True):
    """Exponential moving averages, in slots (executors), and when the first was taken."""

    began_at: float = NEVER
    waiting: float = 0.0
    available: float = 0.0
    planned: float = 0.0


class Jenkins(Sizing[LoadStatistics], frozen=True, kw_only=True):
    """NodeProvisioner's strategy: conservative both ways, so known as sluggish.

    available = max(snapshot, average) of free slots; only below ``margin`` is anything started,
        or when no slot exists at all
    excess    = min(queue, its average) - max(planned, its average)
    m         = margin + (margin0 - margin) * margin_decay^slots
    start     = floor(excess + m) slots if excess > 1 - m

    Each plan moves an average by (1 - ``decay``) of the way to the present value. Planned slots
    are those of booting builders (the original's connecting ones are among them). Nothing happens
    during ``initial_delay``. No builder is stopped: idle time-outs do that. ``min`` builders are
    always kept.
    """

    remembers = LoadStatistics
    formula = "jenkins"
    max: Count
    margin: Share = 0.1
    margin0: Share = 0.5
    margin_decay: Share = 0.5
    decay: Share = 0.9
    initial_delay: Seconds = 100.0
    interval: Seconds = 10.0

    def plan(
        self, snapshot: PoolSnapshot, memory: LoadStatistics
    ) -> tuple[ScalingPlan, LoadStatistics]:
        """Update the averages and ask for the excess."""
        averages = memory.waiting, memory.available, memory.planned
        desired, start, stop, began_at, waiting, available, planned = jenkins.plan(
            snapshot, self, memory.began_at, *averages
        )
        memory = LoadStatistics(began_at, waiting, available, planned)
        return ScalingPlan(desired, start, stop, f"{waiting:.1f} jobs wait, on average"), memory
