"""A simulated pool: what its builders are like, and how many of them there are to be."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from farm.core.contention import ContentionLaw


class SimulatedPool(msgspec.Struct, frozen=True, kw_only=True):
    """The builders of one kind; every span in farm seconds."""

    name: str
    processors: tuple[str, ...] = ()
    virtualized: bool = True
    slots: int = 1
    #: how many builders a fixed pool is kept at; a provisioned pool starts with this many
    builders: int = 0
    #: requested -> joined
    boot_time: float = 0.0
    #: None: an idle builder stays
    idle_timeout: float | None = None
    inter_job_time: float = 0.0
    shutdown_time: float = 0.0
    speed: float = 1.0
    #: whether the n-th builder of the pool boots and then never takes a job
    fails_to_boot: Callable[[int], bool] | None = None
    #: None: co-running jobs do not slow each other down
    contention: ContentionLaw | None = None
    #: True: something else (a provisioning algorithm) decides on the number of builders
    provisioned: bool = False
    labels: dict[str, str] = {}
