"""As many builders as the same hour of earlier days needed (predictive scaling)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import msgspec

from farm.core.pools.algorithm import HOUR, Memory, PoolSnapshot, ScalingPlan
from provisioner.algorithms.sizing import (
    Count,
    Factor,
    PositiveSeconds,
    Seconds,
    Sizing,
    builders_for,
    plan_for_size,
    rounded_up,
)

DAY = 24 * HOUR
Rate = Annotated[float, msgspec.Meta(gt=0, le=1)]
UNKNOWN = -1.0
"""Demand of a part of the period that has not been seen yet."""


class Curve(Memory, frozen=True):
    """The demand of each part of the period, slots; the part that lasts, and its sum so far."""

    learned: tuple[float, ...] = ()
    part: int = -1
    total: float = 0.0
    looks: int = 0


class Predictive(Sizing[Curve], frozen=True, kw_only=True):
    """Keep the builders that the learned curve of demand requires; grow beyond it for a queue.

    Demand is the number of jobs waiting and running. The period (a day) has parts of ``step``; at
    the end of each, its mean demand is averaged with that of earlier periods:

        learned = learned + rate * (mean - learned)        (the first time: mean)
        wanted  = max(running + waiting, headroom * the most learned from now until ahead)

    Jobs on draining builders, such as those that run the last jobs of their ``uses``, are learned
    too; they have their builders, so what is learned requires that many fewer. A part without
    history requires no builders, so the first period is scaled by demand alone.
    ``ahead`` should be the boot time at least. Only idle builders are stopped. ``min`` stay.
    """

    remembers = Curve
    formula = "predictive"

    max: Count
    period: PositiveSeconds = DAY
    step: PositiveSeconds = 900.0
    ahead: Seconds = 900.0
    rate: Rate = 0.5
    headroom: Factor = 1.0
    interval: Seconds = 15.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step > self.period:
            raise ValueError(f"step: found {self.step:g}, above period {self.period:g}")

    def plan(self, snapshot: PoolSnapshot, memory: Curve) -> tuple[ScalingPlan, Curve]:
        """Learn from the present, and plan for it and what is ahead."""
        demand = snapshot.waiting_jobs + snapshot.running_jobs
        part = part_at(snapshot.at, self)
        memory = self._learned(memory, part, demand + snapshot.draining_jobs)
        desired, start, stop, forecast = plan_in_numbers(snapshot, self, memory.learned, 0)
        return ScalingPlan(desired, start, stop, f"{demand} jobs, {forecast:.1f} expected"), memory

    def _learned(self, memory: Curve, part: int, demand: int) -> Curve:
        parts = parts_of(self)
        if len(memory.learned) != parts:  # other parts than those of a memory that was restored
            memory = Curve((UNKNOWN,) * parts)
        learned = memory.learned
        if part == memory.part:
            return Curve(learned, part, memory.total + demand, memory.looks + 1)
        if memory.looks:
            mean, old = memory.total / memory.looks, learned[memory.part]
            new = learned_demand(old, mean, self)
            learned = (*learned[: memory.part], new, *learned[memory.part + 1 :])
        return Curve(learned, part, float(demand), 1)


def parts_of(options: Predictive) -> int:
    """Return how many parts the period has."""
    return rounded_up(options.period / options.step)


def part_at(at: float, options: Predictive) -> int:
    """Return the part of the period of an instant."""
    return min(math.floor(at % options.period / options.step), parts_of(options) - 1)


def learned_demand(known: float, mean: float, options: Predictive) -> float:
    """Return the demand of a part after a period in which it was ``mean``."""
    return mean if known < 0.0 else known + options.rate * (mean - known)


def plan_in_numbers(
    snapshot: PoolSnapshot, options: Predictive, curve: Sequence[float], begin: int
) -> tuple[int, int, int, float]:
    """Return builders desired, to be started and to be stopped, and the demand that is expected.

    ``curve`` has the learned demand by part of the period, from ``begin`` on.
    """
    forecast = 0.0
    for number in range(1 + rounded_up(options.ahead / options.step)):
        part = part_at(snapshot.at + min(number * options.step, options.ahead), options)
        forecast = max(forecast, curve[begin + part])
    demand = snapshot.waiting_jobs + snapshot.running_jobs
    expected = options.headroom * forecast - snapshot.draining_jobs
    wanted = builders_for(max(demand * 1.0, expected), snapshot)
    desired, start, stop = plan_for_size(snapshot, options, wanted, snapshot.idle)
    return desired, start, stop, forecast
