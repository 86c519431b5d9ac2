"""A pool as a world has to set it up: what its builders are like, and how many there are to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from farm.core.contention.progress import ContentionLaw, contention_law
from farm.core.dispatching.load_limits import LoadLimits
from farm.core.model import Builder


class PoolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The builders of one kind; every span in farm seconds."""

    name: str
    processors: tuple[str, ...] = ()
    virtualized: bool = True
    slots: int = 1
    #: processors that a live builder's burning jobs may use; None: all of its host's
    cores: int | None = None
    #: how many builders a fixed pool is kept at; a provisioned pool starts with this many
    builders: int = 0
    #: requested -> joined
    boot_time: float = 0.0
    #: None: an idle builder stays
    idle_timeout: float | None = None
    #: a slot is cleaned for so long after each job
    inter_job_time: float = 0.0
    #: told to go -> gone
    shutdown_time: float = 0.0
    #: service time = the job's ÷ speed
    speed: float = 1.0
    #: whether the n-th builder of the pool boots and then never takes a job; None: none does
    fails_to_boot: Callable[[int], bool] | None = None
    #: farm seconds after which the n-th builder is lost, counted from its joining; None: none is
    life_time: Callable[[int], float] | None = None
    #: instants at which the pool loses the builder that has been there longest
    lost_at: tuple[float, ...] = ()
    #: as a scenario writes it; None: co-running jobs do not slow each other down
    contention: dict[str, Any] | None = None
    #: builders report when they are near overload (slowdown), by these limits; None: they do not
    load_limits: LoadLimits | None = None
    #: True: a provisioning algorithm decides on the number of builders
    provisioned: bool = False
    labels: dict[str, str] = {}

    @property
    def law(self) -> ContentionLaw | None:
        """How co-running jobs slow each other down; raises InputError naming the key."""
        if self.contention is None:
            return None
        return contention_law(self.contention, f"pools.{self.name}.contention")

    @property
    def loses(self) -> bool:
        """Whether its builders go by themselves: idle ones, or lost ones."""
        return self.idle_timeout is not None or self.life_time is not None or bool(self.lost_at)

    def builder(self, number: int, index: int) -> Builder:
        """Return the pool's n-th builder (from 1), the farm's ``index``-th."""
        broken = self.fails_to_boot is not None and self.fails_to_boot(number)
        return Builder(
            id=f"{self.name}-{number}",
            pool=self.name,
            index=index,
            processors=self.processors,
            virtualized=self.virtualized,
            slots=self.slots,
            cores=self.cores,
            speed=self.speed,
            takes_jobs=not broken,
            life_time=None if self.life_time is None else self.life_time(number),
            cleans=self.inter_job_time > 0,
            labels=self.labels,
        )
