"""The interface of provisioning algorithms, which decide how many builders a pool should have.

A world takes a ``PoolSnapshot``, an algorithm returns a ``ScalingPlan``, and the world carries it
out. What an algorithm remembers between plans (windows, cooldowns) is a value too: it is passed in
with the snapshot and returned with the plan. So the same algorithm sizes simulated and real
pools, and a provisioner that restarts continues where it stopped.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

HOUR = 3600.0


class PoolSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pool at one instant, in builders, slots and jobs; times are farm seconds.

    Every builder is in exactly one of the five states counted here. A builder that booted but never
    takes a job counts as idle.

    >>> pool = farm.PoolSnapshot(pool="linux", at=0.0, idle=1, busy=3, waiting_jobs=5)
    >>> pool.joined
    4
    """

    pool: str
    at: float
    #: seconds from Monday 00:00 to farm time 0
    starts: float = 0.0
    #: slots per builder
    slots: int = 1

    #: joined, take jobs, run none
    idle: int = 0
    #: joined, take jobs, at least one slot runs one or is being cleaned (others may be free)
    busy: int = 0
    #: requested, not joined yet
    booting: int = 0
    #: finishing their jobs, taking no more
    draining: int = 0
    #: empty and shutting down
    stopping: int = 0

    #: waiting jobs that this pool could run (a job that fits several pools counts in each)
    waiting_jobs: int = 0
    #: jobs that this pool could run once others have ended, or have left their group; they do not
    #: wait yet. Counted for algorithms that look closely
    blocked_jobs: int = 0
    #: jobs on idle and busy builders
    running_jobs: int = 0
    #: jobs on draining builders: their slots will not become free
    draining_jobs: int = 0
    #: slots of busy builders that are being cleaned: their jobs have ended
    cleaning_slots: int = 0
    #: how long the oldest waiting job has waited
    oldest_wait_time: float = 0.0

    #: estimated service time of all waiting jobs together, seconds on a builder of this pool
    waiting_work: float = 0.0
    #: seconds until a slot of the pool is free; 0 if one is; None if unknown
    next_slot_time: float | None = None

    @property
    def joined(self) -> int:
        """Builders that take jobs."""
        return self.idle + self.busy

    @property
    def present(self) -> int:
        """Builders that take jobs or soon will."""
        return self.joined + self.booting

    @property
    def total(self) -> int:
        """Builders in any state, as a quota counts them."""
        return self.present + self.draining + self.stopping

    @property
    def free_slots(self) -> int:
        """Slots of joined builders that can take a job at once."""
        return max(0, self.joined * self.slots - self.running_jobs - self.cleaning_slots)

    @property
    def hour(self) -> float:
        """Hour of the day, from 0 up to but not including 24."""
        return (self.starts + self.at) / HOUR % 24


class ScalingPlan(msgspec.Struct, frozen=True):
    """What to do with a pool now.

    ``desired`` is always within the pool's limits. ``start`` builders are to be requested. ``stop``
    builders are to be drained and retired: idle ones first, then those with the fewest jobs; a
    building builder finishes what it runs.
    """

    desired: int
    start: int = 0
    stop: int = 0
    why: str = ""


class Memory(msgspec.Struct, frozen=True):
    """What an algorithm remembers between two plans; by default, nothing."""


M = TypeVar("M", bound=Memory)


def next_multiple(interval: float, at: float) -> float:
    """Return the first instant after ``at`` at which plans are made."""
    return (at // interval + 1) * interval


class Algorithm(Protocol[M]):
    """Decides how many builders a pool should have: a pure function of snapshot and memory."""

    @property
    def min(self) -> int:
        """Fewest builders that the pool should have."""

    @property
    def max(self) -> int:
        """Most builders that the pool may have, in any state."""

    @property
    def interval(self) -> float:
        """Seconds between two plans."""

    @property
    def first_plan(self) -> float | None:
        """Farm time of the first plan; None: an interval after the farm's start."""

    @property
    def looks_closely(self) -> bool:
        """Whether it needs the snapshot's estimates of work and time, which are costly."""

    @property
    def before_time_outs(self) -> bool:
        """Whether a plan made at the instant of an idle time-out still counts that builder."""

    def start(self) -> M:
        """Return the initial memory."""

    def plan(self, snapshot: PoolSnapshot, memory: M) -> tuple[ScalingPlan, M]:
        """Return what to do now, and the memory for the next plan."""

    def stays_until(self, snapshot: PoolSnapshot, memory: M, /) -> float:
        """Return the instant from which the plan may change without any event.

        It is called after a plan that changed nothing, with the memory of that plan. Plans before
        that instant may be skipped: they would change nothing either, and later ones would be the
        same with ``memory`` as with theirs. ``snapshot.at``: any plan may differ; infinity: only
        an event changes it. The snapshot's counts change only by events; its times
        (``oldest_wait_time``, ``next_slot_time``, ``hour``) by themselves.
        """


AnyAlgorithm = Algorithm[Any]
"""An algorithm, whatever it remembers."""


def within(algorithm: AnyAlgorithm, least: int | None, most: int | None) -> AnyAlgorithm:
    """Return the algorithm with other limits (None: its own), if it can have others."""
    change = getattr(algorithm, "within", None)
    return algorithm if change is None else change(least, most)


class InForce(NamedTuple):
    """The limits that an algorithm has now, and the times for which they were chosen."""

    least: int
    most: int
    #: as the scenario writes it, such as ``mon-fri 08:00-18:00``; empty: at all times
    period: str = ""


def in_force(algorithm: AnyAlgorithm, snapshot: PoolSnapshot) -> InForce:
    """Return which limits hold at the snapshot's instant."""
    find = getattr(algorithm, "in_force", None)
    return InForce(algorithm.min, algorithm.max) if find is None else find(snapshot)


def first_plan_at(algorithm: AnyAlgorithm) -> float:
    """Return the farm time of an algorithm's first plan."""
    return algorithm.interval if algorithm.first_plan is None else algorithm.first_plan


def save_memory(memory: Memory) -> bytes:
    """Return the memory as JSON, to survive a restart."""
    return msgspec.json.encode(memory)


def restore_memory(algorithm: AnyAlgorithm, saved: bytes | None) -> Memory:
    """Return the saved memory, or a new one if there is none or another algorithm wrote it."""
    fresh: Memory = algorithm.start()
    if saved is None:
        return fresh
    try:
        return msgspec.json.decode(saved, type=type(fresh))
    except msgspec.DecodeError:
        return fresh
