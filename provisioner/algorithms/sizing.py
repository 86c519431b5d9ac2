"""The base of all algorithms: the pool's limits, and plans for a desired size.

The functions at the end are the arithmetic that the algorithms share. They take plain numbers and
the fields of a snapshot and of an algorithm, so the compiled loop of simulations uses the very
same functions (``farm.sim.fast.kernel.algorithms``).
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, cast

import msgspec

from farm.core.pools.algorithm import M, Memory, PoolSnapshot, ScalingPlan

Count = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Factor = Annotated[float, msgspec.Meta(ge=0)]
#: an option in seconds; in a scenario also written 90s, 5m, 1h30m
Seconds = Annotated[float, msgspec.Meta(ge=0, extra={"unit": "s"})]
PositiveSeconds = Annotated[float, msgspec.Meta(gt=0, extra={"unit": "s"})]

Stop = Literal["none", "idle", "any"]

NEVER = -1.0
"""Instant of what has not happened."""
FOREVER = math.inf
EARLY = 1e-3
"""Seconds by which stated instants come early, so that no rounding makes them late."""
MAX_NUMBER = 1e15
"""No number of builders, slots or jobs is larger."""


class Sizing(msgspec.Struct, Generic[M], frozen=True, kw_only=True):
    """Limits of a pool and the pace of its plans; the base of every algorithm.

    Options are checked when the value is made: ValueError, with the option's name first.
    """

    #: needs the snapshot's estimates of work and time
    looks_closely: ClassVar[bool] = False
    #: plans depend on the pool's builders and the time alone
    ignores_jobs: ClassVar[bool] = False
    #: the formula by which the compiled loop plans for it; a declaration holds for its own class
    formula: ClassVar[str] = ""
    #: what it remembers between two plans; its defaults are what it begins with
    remembers: ClassVar[type[Memory]] = Memory

    min: Count = 0
    #: builders in any state, draining and shutting down ones included
    max: Count
    #: between two plans
    interval: Seconds
    #: farm time of the first plan; None: an interval after the start
    first_plan: Seconds | None = None

    def __post_init__(self) -> None:
        if self.max < self.min:
            raise ValueError(f"max: found {self.max}, below min {self.min}; expected at least min")
        for name, seconds in (("interval", self.interval), ("first_plan", self.first_plan)):
            if seconds is not None and not 0 < seconds < math.inf:
                raise ValueError(f"{name}: found {seconds:g}; expected a time above 0")

    # for formulas: a record of NumPy's has methods ``min`` and ``max``
    @property
    def least(self) -> int:
        """``min``."""
        return self.min

    @property
    def most(self) -> int:
        """``max``."""
        return self.max

    @property
    def before_time_outs(self) -> bool:
        """Whether a plan of the instant of an idle time-out still counts that builder."""
        return False

    def start(self) -> M:
        """Return the memory to begin with."""
        return cast("M", self.remembers())

    def plan(self, snapshot: PoolSnapshot, memory: M) -> tuple[ScalingPlan, M]:
        """Return what to do now, and what to remember."""
        raise NotImplementedError

    def within(self, least: int | None, most: int | None) -> Self:
        """Return the same with other limits (None: its own)."""
        least, most = self.min if least is None else least, self.max if most is None else most
        return msgspec.structs.replace(self, min=min(least, most), max=most)

    def stays_until(self, snapshot: PoolSnapshot, memory: M) -> float:
        """Return until when plans stay as this one if nothing happens: any may differ.

        A class that knows better overrides this; its answer does not hold for its subclasses.
        """
        return snapshot.at

    def towards(
        self, snapshot: PoolSnapshot, wanted: float, why: str, *, stop: Stop = "any"
    ) -> ScalingPlan:
        """Plan to have ``wanted`` builders: round up, keep the limits, and return the difference.

        ``stop`` says which builders may be stopped when there are too many.
        """
        stoppable = {"none": 0, "idle": snapshot.idle, "any": snapshot.joined}[stop]
        desired, start, stopped = plan_for_size(snapshot, self, wanted, stoppable)
        return ScalingPlan(desired, start, stopped, why)


class Memoryless(Sizing[Memory], frozen=True, kw_only=True):
    """An algorithm without memory."""

    def plan(self, snapshot: PoolSnapshot, memory: Memory) -> tuple[ScalingPlan, Memory]:
        """Return what to do now."""
        return self.decide(snapshot), memory

    def decide(self, snapshot: PoolSnapshot) -> ScalingPlan:
        """Return what to do now."""
        raise NotImplementedError


def unplanned(kind: type[AnySizing]) -> bool:
    """Return whether a class has no plan of its own."""
    if issubclass(kind, Memoryless) and kind.decide is not Memoryless.decide:
        return False
    return kind.plan in (Sizing.plan, Memoryless.plan)


AnySizing = Sizing[Any]


def rounded_up(number: float) -> int:
    """Return the number rounded up, and ``MAX_NUMBER`` at most."""
    return math.ceil(min(number * 1.0, MAX_NUMBER))


def limited(builders: float, options: AnySizing) -> int:
    """Return a number of builders rounded up to whole ones, within the limits."""
    return math.ceil(min(max(options.least * 1.0, builders), options.most * 1.0))


def builders_for(slots: float, snapshot: PoolSnapshot) -> int:
    """Return how many builders offer at least that many slots."""
    return max(0, rounded_up(slots / snapshot.slots))


def plan_for_size(
    snapshot: PoolSnapshot, options: AnySizing, wanted: float, stoppable: int
) -> tuple[int, int, int]:
    """Return builders desired, to be started and to be stopped, for ``wanted`` builders.

    Builders that boot count as there already; those that drain or shut down still take up room
    under ``max``. At most ``stoppable`` builders are stopped.
    """
    desired = limited(wanted, options)
    missing = desired - snapshot.present
    start = max(0, min(missing, options.most - snapshot.total))
    return desired, start, max(0, min(-missing, stoppable))
