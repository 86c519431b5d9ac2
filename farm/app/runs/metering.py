"""Metrics of a running farm, served if a port is given."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Self

from farm.core.driver import Observer
from farm.core.pools.spec import PoolSpec
from farm.core.scheduler import Scheduler
from farm.live.host_processes import HostProcesses
from farm.live.redis.server_watch import ServerWatch
from farm.live.wire.pool_report import FarmStatus
from farm.live.world import LiveWorld
from farm.metrics.exporter import MetricsPlace, MetricsServer
from farm.metrics.farm_metrics import FarmMetrics
from farm.metrics.series import Readings
from farm.metrics.targets import scheduler_target

log = logging.getLogger("farm.scheduler")

Progress = Callable[[FarmStatus], None]


class Metering:
    """What a live run has to do for its metrics; serves them while its ``with`` block lasts."""

    def __init__(
        self,
        scheduler: Scheduler,
        pools: Sequence[PoolSpec],
        speed: float,
        place: MetricsPlace,
        *,
        stays: bool = False,
    ) -> None:
        self.metrics: FarmMetrics | None = None
        self.observers: tuple[Observer, ...] = ()
        self._server: MetricsServer | None = None
        self._watch: ServerWatch | None = None
        self._stack = contextlib.ExitStack()
        self._stays = stays
        if place.wanted:
            desired = {pool.name: pool.builders for pool in pools if not pool.provisioned}
            self.metrics = FarmMetrics(
                scheduler, speed=speed, desired=desired, pools=pools, in_steps=True, stays=stays
            )
            self.observers = (self.metrics.observe,)
            self._server = place.server(self._readings, scheduler_target)

    def __enter__(self) -> Self:
        if self._server is not None:
            self._stack.enter_context(self._server)
            log.info("metrics at %s", self._server.url)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def meet(self, world: LiveWorld, hosts: HostProcesses) -> None:
        """Have an eye on the Redis server that the farm, now up, is on.

        Of one that stays up, which may have had another scheduler, the counts are continued.
        """
        if self.metrics is None:
            return
        world.add_step(self.metrics.step)
        if self._stays:
            status = world.status()
            self.metrics.adopt(status.at, status.ended)
        url, prefix = hosts.settings.redis_url, hosts.settings.prefix
        if url is not None:
            watch = ServerWatch(url, prefix, met=lambda: world.trouble)
            self._watch = self._stack.enter_context(watch)

    def lead(self, *, in_charge: bool) -> None:
        """The scheduler is in charge, or stands by."""
        if self.metrics is not None:
            self.metrics.lead(in_charge=in_charge)

    def progress(self, show: Progress | None = None) -> Progress | None:
        """Return the receivers of a run's progress: the metrics, and this display."""
        metrics = self.metrics
        if metrics is None:
            return show

        def publish(status: FarmStatus) -> None:
            metrics.publish(
                status.at,
                hosts=status.hosts,
                delay=status.worst_delay,
                unplaced=status.unplaced,
                is_logged=None if status.log_trouble is None else not status.log_trouble,
            )
            if show is not None:
                show(status)

        return publish

    def _readings(self) -> Readings:
        """Return the farm's metrics and its server's; called by the threads that serve them."""
        found = {} if self.metrics is None else self.metrics.readings()
        return found if self._watch is None else {**found, **self._watch.readings()}
