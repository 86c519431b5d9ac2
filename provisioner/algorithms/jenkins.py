"""The queue's excess over what is free or on its way, smoothed (Jenkins NodeProvisioner)."""

from __future__ import annotations

import math

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from provisioner.algorithms.sizing import Count, Seconds, Share, Sizing, builders_for


class LoadStatistics(Memory, frozen=True):
    """Exponential moving averages, in slots (executors), and when the first was taken."""

    began_at: float | None = None
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
        planned = snapshot.booting * snapshot.slots
        memory = LoadStatistics(
            snapshot.at if memory.began_at is None else memory.began_at,
            self._moved(memory.waiting, snapshot.waiting_jobs),
            self._moved(memory.available, snapshot.free_slots),
            self._moved(memory.planned, planned),
        )
        slots = self.slots_to_start(snapshot, memory)
        if snapshot.at - (memory.began_at or 0.0) < self.initial_delay:
            slots = 0
        wanted = snapshot.present + builders_for(slots, snapshot)
        return self.towards(snapshot, wanted, f"{slots} slots in excess", stop="none"), memory

    def slots_to_start(self, snapshot: PoolSnapshot, averages: LoadStatistics) -> int:
        """Return the excess workload in whole slots."""
        total = snapshot.joined * snapshot.slots
        planned = snapshot.booting * snapshot.slots
        nothing_at_all = total + planned == 0
        if max(snapshot.free_slots, averages.available) >= self.margin and not nothing_at_all:
            return 0
        queue = min(snapshot.waiting_jobs, averages.waiting)
        if nothing_at_all and snapshot.waiting_jobs:
            # the original requests one at once when there is none at all
            queue = max(queue, 1.0)
        excess = queue - max(planned, averages.planned)
        m = self.margin + (self.margin0 - self.margin) * self.margin_decay**total
        return math.floor(excess + m) if excess > 1 - m else 0

    def _moved(self, average: float, present: float) -> float:
        return average * self.decay + present * (1 - self.decay)
