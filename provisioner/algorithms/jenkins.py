"""The queue's excess over what is free or on its way, smoothed (Jenkins NodeProvisioner)."""

from __future__ import annotations

import math

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from provisioner.algorithms.sizing import (
    NEVER,
    Count,
    Seconds,
    Share,
    Sizing,
    builders_for,
    plan_for_size,
)


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
        desired, start, stop, began_at, waiting, available, planned = plan_in_numbers(
            snapshot, self, memory.began_at, *averages
        )
        memory = LoadStatistics(began_at, waiting, available, planned)
        return ScalingPlan(desired, start, stop, f"{waiting:.1f} jobs wait, on average"), memory


def moved_average(average: float, present: float, decay: float) -> float:
    """Return an exponential moving average after the present value."""
    return average * decay + present * (1 - decay)


def plan_in_numbers(
    snapshot: PoolSnapshot,
    options: Jenkins,
    began_at: float,
    waiting: float,
    available: float,
    planned: float,
) -> tuple[int, int, int, float, float, float, float]:
    """Return builders desired, to be started and to be stopped, and the next ``LoadStatistics``."""
    if began_at < 0.0:
        began_at = snapshot.at
    waiting = moved_average(waiting, snapshot.waiting_jobs, options.decay)
    available = moved_average(available, snapshot.free_slots, options.decay)
    planned = moved_average(planned, snapshot.booting * snapshot.slots, options.decay)
    slots = 0
    if snapshot.at - began_at >= options.initial_delay:
        slots = slots_to_start(snapshot, options, waiting, available, planned)
    wanted = snapshot.present + builders_for(slots, snapshot)
    desired, start, stop = plan_for_size(snapshot, options, wanted, 0)
    return desired, start, stop, began_at, waiting, available, planned


def slots_to_start(
    snapshot: PoolSnapshot, options: Jenkins, waiting: float, available: float, planned: float
) -> int:
    """Return the excess workload in whole slots."""
    total = snapshot.joined * snapshot.slots
    booting = snapshot.booting * snapshot.slots
    no_slots = total + booting == 0
    if max(snapshot.free_slots * 1.0, available) >= options.margin and not no_slots:
        return 0
    queue = min(snapshot.waiting_jobs * 1.0, waiting)
    if no_slots and snapshot.waiting_jobs:
        # the original requests a slot at once when there is none at all
        queue = max(queue, 1.0)
    excess = queue - max(booting * 1.0, planned)
    margin_range = options.margin0 - options.margin
    m = options.margin + margin_range * math.pow(options.margin_decay, total * 1.0)
    return math.floor(excess + m) if excess > 1 - m else 0
