"""A live pool: what its builders are like and how many there are to be; and the fleet of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from farm.core.model import Builder
from farm.live.messages import VERSION, Play


class LivePool(msgspec.Struct, frozen=True, kw_only=True):
    """The builders of one kind; every span in farm seconds."""

    name: str
    processors: tuple[str, ...] = ()
    virtualized: bool = True
    slots: int = 1
    #: how many builders a fixed pool is kept at; a provisioned pool starts with this many
    builders: int = 0
    boot_time: float = 0.0
    #: None: an idle builder stays
    idle_timeout: float | None = None
    inter_job_time: float = 0.0
    shutdown_time: float = 0.0
    speed: float = 1.0
    #: whether the n-th builder of the pool boots and then never takes a job
    fails_to_boot: Callable[[int], bool] | None = None
    #: as the scenario writes it; None: co-running jobs do not slow each other down
    contention: dict[str, Any] | None = None
    #: True: something else (a provisioner) decides on the number of builders
    provisioned: bool = False
    labels: dict[str, str] = {}


class Fleet:
    """Names builders, writes the orders to play them, and keeps fixed pools at their size."""

    def __init__(self, pools: Sequence[LivePool], speed: float) -> None:
        self.pools = {pool.name: pool for pool in pools}
        self._speed = speed
        self._made = 0
        self._made_by_pool = dict.fromkeys(self.pools, 0)
        #: requested builders that no host plays yet
        self.wanted: deque[Play] = deque()
        #: requested and not yet joined, by builder id, with their pools
        self.booting: dict[str, str] = {}

    def request(self, pool_name: str) -> Play:
        """Ask for one more builder of the pool; a host is found for it when there is one."""
        pool = self.pools[pool_name]
        self._made += 1
        number = self._made_by_pool[pool_name] = self._made_by_pool[pool_name] + 1
        broken = pool.fails_to_boot is not None and pool.fails_to_boot(number)
        builder = Builder(
            id=f"{pool_name}-{number}",
            pool=pool_name,
            index=self._made,
            processors=pool.processors,
            virtualized=pool.virtualized,
            slots=pool.slots,
            speed=pool.speed,
            takes_jobs=not broken,
            cleans=pool.inter_job_time > 0,
            labels=pool.labels,
        )
        play = Play(
            v=VERSION,
            builder=builder,
            speed=self._speed,
            boot_time=pool.boot_time,
            inter_job_time=pool.inter_job_time,
            shutdown_time=pool.shutdown_time,
            contention=pool.contention or {},
        )
        self.wanted.append(play)
        self.booting[builder.id] = pool_name
        return play

    @property
    def booting_at_once(self) -> bool:
        """Whether a builder is missing whose pool has no boot time."""
        return any(not self.pools[pool].boot_time for pool in self.booting.values())

    def gone(self, builder: str, pool_name: str) -> Play | None:
        """A builder is no more; return the request for its successor in a fixed pool."""
        self.booting.pop(builder, None)
        pool = self.pools.get(pool_name)
        return self.request(pool_name) if pool is not None and not pool.provisioned else None
