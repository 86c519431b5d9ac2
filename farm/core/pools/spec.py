"""The specification of a pool: the properties of its builders, and their number."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from farm.core.contention.laws import ContentionLaw, LoadLimits
from farm.core.model import Builder

MAX_STARTS = 1000
"""Builders that one plan may start; its provisioner plans the rest again (``pools.keeper``)."""


class Behaviour(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How builders of one kind behave; spans are in farm seconds."""

    #: requested -> joined
    boot_time: float = 0.0
    #: dispatched -> started; the slot is held
    pickup_time: float = 0.0
    #: by fair-share key: how much later a job starts on a slot whose last job had another one
    switch_times: dict[str, float] = {}
    #: how long a slot is cleaned after each job
    inter_job_time: float = 0.0
    #: asked to leave -> gone
    shutdown_time: float = 0.0
    #: how co-running jobs slow each other down; None: they do not
    law: ContentionLaw | None = None
    #: limits by which builders report that they are near overload (slowdown); None: they do not
    load_limits: LoadLimits | None = None
    #: ``module:name`` of a user's behaviour; empty: the behaviour described here
    behaviour: str = ""


class PoolSpec(Behaviour, frozen=True, kw_only=True):
    """The builders of one kind."""

    name: str
    processors: tuple[str, ...] = ()
    virtualized: bool = True
    slots: int = 1
    #: processors that a live builder's burning jobs may use; None: all of its host's
    cores: int | None = None
    #: the size of a fixed pool; the initial size of a provisioned one
    builders: int = 0
    #: the most builders that a provisioned pool may have, in any state; None: any number
    max: int | None = None
    #: seconds from Monday 00:00 to farm time 0, for its provisioner
    starts: float = 0.0
    #: None: an idle builder stays
    idle_timeout: float | None = None
    #: how many attempts a builder takes in its life, then it is retired; None: any number
    uses: int | None = None
    #: service time = the job's ÷ speed
    speed: float = 1.0
    #: whether the n-th builder of the pool never takes a job after booting; None: no builder does
    fails_to_boot: Callable[[int], bool] | None = None
    #: how much longer the n-th builder boots, farm seconds; None: no builder does
    boot_delay: Callable[[int], float] | None = None
    #: distortion of what its provisioner sees: late or wrong
    has_signals: bool = False
    #: a stopped builder is lost with its running jobs, not drained
    kills: bool = False
    #: how long after joining the n-th builder is lost, farm seconds; None: no builder is
    lifetime: Callable[[int], float] | None = None
    #: instants at which the pool loses its oldest builder
    lost_at: tuple[float, ...] = ()
    #: True: a provisioning algorithm decides the number of builders
    provisioned: bool = False
    #: the user's behaviour drives its own loop: its builders claim work
    claims: bool = False
    labels: dict[str, str] = {}

    @property
    def loses(self) -> bool:
        """Whether its builders may leave by themselves: idle, used up or lost ones."""
        leaving = (self.idle_timeout, self.uses, self.lifetime)
        return bool(self.lost_at) or any(one is not None for one in leaving)

    def number_of(self, builder: str) -> int | None:
        """Return which of the pool's builders this is; None: it has another name than these."""
        name, _, number = builder.rpartition("-")
        if name != self.name or not number.isdecimal() or f"{int(number)}" != number:
            return None
        return int(number)

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
            uses=self.uses,
            takes_jobs=not broken,
            boot_delay=0.0 if self.boot_delay is None else self.boot_delay(number),
            lifetime=None if self.lifetime is None else self.lifetime(number),
            cleans=self.inter_job_time > 0 or bool(self.behaviour),
            claims=self.claims and not broken,
            labels=self.labels,
        )
