"""Prepared containers, each a host with room for one builder, which are started and stopped.

The provisioner needs only the permissions to list, start and stop (``docker compose up --no-start
--scale`` makes them), so it can be given a proxy instead of the Engine's socket. What it does
follows from the list and from what the hosts announced; it remembers only which it asked to
stop, and which failed. A provisioner that starts again continues from the list.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Annotated

import msgspec
import typer

from farm.live.wire.pool_report import HostRecord, PoolReport
from provisioner.backends.backend import Backend, Pause, builders_to_host
from provisioner.backends.docker import ROLE
from provisioner.backends.prepared_api import Box, ContainerError, PreparedApi

log = logging.getLogger("farm.provisioner")

#: an idle container that is not needed is stopped after it (real seconds)
SPARE_TIME = 10.0
#: one that ran this long has recovered; one asked to stop that still runs is asked again
STEADY_TIME = 60.0
#: containers that are stopped at a time (each call lasts until its container has ended)
STOPS_AT_ONCE = 16


class PreparedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where containers are started, if they are listed elsewhere.

    Attributes:
        docker_write_host: address of the Engine for starts and stops, if different.
    """

    docker_write_host: Annotated[str | None, typer.Option(envvar="FARM_DOCKER_WRITE_HOST")] = None


class ContainerMemory:
    """What is remembered of a container between checks; instants are real seconds."""

    def __init__(self) -> None:
        self.pause = Pause(first=1.0, longest=300.0)
        #: it ran at the last check, or was started since; from when
        self.ran = False
        self.ran_since = 0.0
        #: when its host was last seen among the farm's
        self.heard_at = 0.0
        #: since when it has been idle
        self.idle_since: float | None = None
        #: when it was asked to stop
        self.asked_to_stop_at: float | None = None
        #: what was wrong with it
        self.trouble = ""

    def runs(self, now: float) -> None:
        """It is started, or seen to run for the first time."""
        self.ran, self.ran_since, self.heard_at, self.asked_to_stop_at = True, now, now, None

    def is_stopping(self, now: float) -> bool:
        """Whether it was asked to recently."""
        return self.asked_to_stop_at is not None and now - self.asked_to_stop_at < STEADY_TIME


def share_out(need: Mapping[str, int], boxes: Iterable[Box]) -> tuple[list[Box], dict[str, int]]:
    """Give each pool as many of the containers as it needs, its own before those of any pool.

    Returns the containers that are needed, of those given in their order, and how many builders
    of which pool are left without.
    """
    free = list(boxes)
    needed: list[Box] = []
    left = dict(need)
    for own in (True, False):
        for pool in sorted(left):
            fitting = [box for box in free if box.pool == (pool if own else "")]
            chosen = fitting[: max(0, left[pool])]
            needed.extend(chosen)
            free = [box for box in free if box not in chosen]
            left[pool] -= len(chosen)
    return needed, {pool: count for pool, count in left.items() if count > 0}


class PreparedBackend(Backend):
    """Starts prepared containers while builders wait for a host; stops idle ones.

    Args:
        api: lists, starts and stops them.
        come_up: real seconds in which a started container must announce its host.
        clock: real seconds.
    """

    def __init__(
        self,
        api: PreparedApi,
        *,
        come_up: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._come_up = come_up
        self._clock = clock
        self._known: dict[str, ContainerMemory] = {}
        self._threads = ThreadPoolExecutor(STOPS_AT_ONCE, thread_name_prefix="farm-stop")
        self._stops: dict[str, Future[None]] = {}

    def tend(
        self, reports: Mapping[str, PoolReport], hosts: Mapping[str, HostRecord]
    ) -> Mapping[str, str]:
        """Start what is missing, stop what is not needed; raises BackendError."""
        now = self._clock()
        self._hear_of_stops()
        boxes = self._api.list()
        self._known = {box.name: self._known.get(box.name) or ContainerMemory() for box in boxes}
        for box in boxes:
            self._look_at(box, hosts.get(box.host), now)
        usable = [box for box in boxes if self._is_usable(box, hosts.get(box.host), now)]
        # those that play a builder are needed first, then those that run
        usable.sort(key=lambda box: (not _plays(hosts.get(box.host)), box.host not in hosts))
        need = builders_to_host(reports)
        needed, short = share_out(need, usable)
        started = self._start_for(short, boxes, now)
        _, short = share_out(need, usable + started)
        for box in usable:
            since = self._known[box.name].idle_since
            if box not in needed and since is not None and now - since >= SPARE_TIME:
                log.info("stopping prepared container %s: it is not needed", box.name)
                self._stop(box, now)
        return {pool: self._why(pool, count, boxes) for pool, count in short.items()}

    def close(self) -> None:
        """Leave them running: the next provisioner continues with them."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._api.close()

    def _look_at(self, box: Box, host: HostRecord | None, now: float) -> None:
        """Update what is known of a container."""
        known = self._known[box.name]
        if not box.running:
            if known.ran and known.asked_to_stop_at is None:
                self._failed(box, f"ended by itself ({box.status})", now)
            known.ran, known.asked_to_stop_at, known.idle_since = False, None, None
            return
        if not known.ran:
            known.runs(now)
        if host is not None:
            known.heard_at = now
            if now - known.ran_since > STEADY_TIME:
                known.pause.well()
        elif now - known.heard_at > self._come_up and not known.is_stopping(now):
            self._failed(box, f"did not announce its host within {self._come_up:g}s", now)
            self._stop(box, now)
        is_idle = host is not None and not _plays(host)
        known.idle_since = (known.idle_since or now) if is_idle else None

    def _is_usable(self, box: Box, host: HostRecord | None, now: float) -> bool:
        is_leaving = host is not None and host.leaving
        return box.running and not is_leaving and not self._known[box.name].is_stopping(now)

    def _start_for(self, short: dict[str, int], boxes: list[Box], now: float) -> list[Box]:
        """Start a container for each builder that has none; return those that were started."""
        stopped = [b for b in boxes if not b.running and self._known[b.name].pause.over(now)]
        stopped.sort(key=lambda box: (self._known[box.name].pause.failures, box.name))
        started = []
        for box in share_out(short, stopped)[0]:
            try:
                self._api.start(box)
            except ContainerError as error:
                self._failed(box, str(error), now)
            else:
                self._known[box.name].runs(now)
                started.append(box)
                log.info("started prepared container %s", box.name)
        return started

    def _stop(self, box: Box, now: float) -> None:
        self._known[box.name].asked_to_stop_at = now
        self._stops[box.name] = self._threads.submit(self._api.stop, box)

    def _hear_of_stops(self) -> None:
        """Forget the finished stops; raises the BackendError of one that was not possible."""
        for name, stop in list(self._stops.items()):
            if stop.done():
                del self._stops[name]
                stop.result()

    def _failed(self, box: Box, trouble: str, now: float) -> None:
        known = self._known[box.name]
        known.trouble = f"{box.name}: {trouble}"
        pause = known.pause.failed(now)
        log.warning("prepared container %s (next try in %gs)", known.trouble, pause)

    def _why(self, pool: str, count: int, boxes: list[Box]) -> str:
        """Return a message on why builders of the pool have no container."""
        who = f"pool {pool}: {count} builder{'s' * (count > 1)} without a prepared container"
        fitting = [box for box in boxes if box.pool in ("", pool)]
        if not fitting:
            labels = f"labels {ROLE}=prepared, {self._api.mark}"
            return f"{who}: there is none ({labels}); docker compose up --no-start makes them"
        failing = [self._known[b.name] for b in fitting if self._known[b.name].pause.failures]
        if failing:
            return f"{who}: of {len(fitting)}, {len(failing)} failed; {failing[0].trouble}"
        return f"{who}: all {len(fitting)} are in use; prepare more (--scale), or lower its max"


def _plays(host: HostRecord | None) -> bool:
    return host is not None and host.builders > 0
