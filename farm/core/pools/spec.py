"""A pool as a world has to set it up: what its builders are like, and how many there are to be."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from farm.core.contention.laws import ContentionLaw
from farm.core.dispatching.load_limits import LoadLimits
from farm.core.model import Builder


class Behaviour(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What builders of one kind do, beside what they offer; every span in farm seconds."""

    #: requested -> joined
    boot_time: float = 0.0
    #: a slot is cleaned for so long after each job
    inter_job_time: float = 0.0
    #: asked to leave -> gone
    shutdown_time: float = 0.0
    #: how co-running jobs slow each other down; None: they do not
    law: ContentionLaw | None = None
    #: builders report when they are near overload (slowdown), by these limits; None: they do not
    load_limits: LoadLimits | None = None
    #: ``module:name`` of a behaviour of the user's own; empty: they do what is said here
    behaviour: str = ""


class PoolSpec(Behaviour, frozen=True, kw_only=True):
    """The builders of one kind."""

    name: str
    processors: tuple[str, ...] = ()
    virtualized: bool = True
    slots: int = 1
    #: processors that a live builder's burning jobs may use; None: all of its host's
    cores: int | None = None
    #: how many builders a fixed pool is kept at; a provisioned pool starts with this many
    builders: int = 0
    #: None: an idle builder stays
    idle_timeout: float | None = None
    #: service time = the job's ÷ speed
    speed: float = 1.0
    #: whether the n-th builder of the pool boots and then never takes a job; None: none does
    fails_to_boot: Callable[[int], bool] | None = None
    #: farm seconds by which the n-th builder boots longer; None: none does
    boot_delay: Callable[[int], float] | None = None
    #: what its provisioner gets may be late or wrong
    has_signals: bool = False
    #: a builder that is stopped is lost with what it runs, not drained
    kills: bool = False
    #: farm seconds after which the n-th builder is lost, counted from its joining; None: none is
    lifetime: Callable[[int], float] | None = None
    #: instants at which the pool loses the builder that has been there longest
    lost_at: tuple[float, ...] = ()
    #: True: a provisioning algorithm decides on the number of builders
    provisioned: bool = False
    labels: dict[str, str] = {}

    @property
    def loses(self) -> bool:
        """Whether its builders go by themselves: idle ones, or lost ones."""
        return self.idle_timeout is not None or self.lifetime is not None or bool(self.lost_at)

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
            boot_delay=0.0 if self.boot_delay is None else self.boot_delay(number),
            lifetime=None if self.lifetime is None else self.lifetime(number),
            cleans=self.inter_job_time > 0 or bool(self.behaviour),
            labels=self.labels,
        )
