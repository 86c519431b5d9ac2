"""How much the load on a builder slows its jobs down.

A law measures the load per resource. ``cpu`` counts the heavy jobs (or all threads against the
cores), ``memory`` the memory-heavy jobs; each resource has its own table.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import msgspec

from farm.core.model import Job

Combine = Literal["product", "max"]


class Load(msgspec.Struct, frozen=True):
    """What runs on one builder: counts of jobs, and their total number of threads."""

    jobs: int = 0
    heavy: int = 0
    memory_heavy: int = 0
    threads: int = 0


class SlowdownTable(msgspec.Struct, frozen=True, tag="table"):
    """A factor for each number of heavy jobs; beyond its end the table continues by its last step.

    ``factors[k]`` is the slowdown with ``k`` heavy jobs: at least 1, never falling.
    """

    factors: tuple[float, ...]

    def slowdown(self, count: int) -> float:
        """Return the factor with ``count`` heavy jobs on the builder."""
        beyond = count - (len(self.factors) - 1)
        if beyond <= 0:
            return self.factors[count]
        step = self.factors[-1] - self.factors[-2] if len(self.factors) > 1 else 0.0
        return self.factors[-1] + beyond * step


class LinearSlowdown(msgspec.Struct, frozen=True, tag="linear"):
    """No slowdown up to ``threshold`` heavy jobs, then ``slope`` more for each additional one.

    The thesis's measurements are threshold 1, slope 0.4.
    """

    threshold: float
    slope: float

    def slowdown(self, count: int) -> float:
        """Return the factor with ``count`` heavy jobs on the builder."""
        return 1.0 + self.slope * max(0.0, count - self.threshold)


class ThreadSlowdown(msgspec.Struct, frozen=True, tag="threads"):
    """Cores shared fairly by all threads of all jobs: max(1, threads ÷ cores).

    Light jobs count too. A heavy job counts as at least ``heavy_threads`` threads (0: as its own
    number only), so a workload that only marks jobs as heavy needs no thread counts.
    """

    cores: float
    heavy_threads: int = 0

    def slowdown(self, count: int) -> float:
        """Return the factor with ``count`` threads on the builder."""
        return max(1.0, count / self.cores)


ResourceLaw = SlowdownTable | LinearSlowdown | ThreadSlowdown


class ContentionLaw(msgspec.Struct, frozen=True, omit_defaults=True):
    """The slowdown of every job on a builder as a function of the builder's load.

    ``cpu`` depends on the heavy jobs (or all threads), ``memory`` on the memory-heavy jobs; a
    job may count for both. None: the resource slows no job. Each resource slows every running
    job, heavy or not: all need the processor, and all share one bus.

    The resources are independent, so by default their factors multiply: a job that gets half the
    processor and a bus twice as slow advances at a quarter of its speed. (The thesis, §6.4.3,
    names the memory bus as a second resource but leaves the law open.) ``max`` is the other
    usual model: only the worst bottleneck counts.
    """

    cpu: ResourceLaw | None = None
    memory: SlowdownTable | LinearSlowdown | None = None
    combine: Combine = "product"

    def slowdown(self, load: Load) -> float:
        """Return the factor (at least 1) by which every job under this load is slowed."""
        cpu = self.cpu_slowdown(load)
        bus = self.memory.slowdown(load.memory_heavy) if self.memory else 1.0
        return cpu * bus if self.combine == "product" else max(cpu, bus)

    def cpu_slowdown(self, load: Load) -> float:
        """Return the processor's part of the factor."""
        if self.cpu is None:
            return 1.0
        threads = isinstance(self.cpu, ThreadSlowdown)
        return self.cpu.slowdown(load.threads if threads else load.heavy)

    def threads_of(self, threads: int, *, heavy: bool) -> int:
        """Return how many threads a job counts as under this law."""
        if heavy and isinstance(self.cpu, ThreadSlowdown):
            return max(threads, self.cpu.heavy_threads)
        return threads

    def load_of(self, jobs: Collection[Job]) -> Load:
        """Return the load of jobs that run on one builder under this law."""
        heavy, on_bus = sum(job.heavy for job in jobs), sum(job.memory_heavy for job in jobs)
        threads = sum(self.threads_of(job.threads, heavy=job.heavy) for job in jobs)
        return Load(len(jobs), heavy, on_bus, threads)


#: page 16 of the thesis: 1, 1, 1.4, 1.8, 2.2, continued linearly
THESIS_TABLE = SlowdownTable((1.0, 1.0, 1.4, 1.8, 2.2))

NO_CONTENTION = ContentionLaw()


class LoadLimits(msgspec.Struct, frozen=True):
    """Two thresholds with a gap between them, so that a builder does not flip between states.

    From ``overloaded_at`` up a builder takes light jobs only, until its load is back at
    ``room_at`` or below (the thesis, 7.1).
    """

    overloaded_at: float
    room_at: float

    def overloaded(self, load: float, *, was: bool) -> bool:
        """Return whether a builder with this load is overloaded, given whether it was before."""
        return is_overloaded(load, was, self.overloaded_at, self.room_at)


def is_overloaded(load: float, was: bool, overloaded_at: float, room_at: float) -> bool:
    """Return whether a builder is overloaded, in numbers alone: ``farm.sim.fast`` compiles it."""
    return load > room_at if was else load >= overloaded_at
