"""The provisioner in virtual time: the same algorithms, asked at their interval."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from farm.core import events
from farm.core.events import Event
from farm.core.pools.algorithm import Algorithm
from farm.core.pools.observer import PoolObserver
from farm.core.pools.retirement import builders_to_stop
from farm.core.scheduler import Scheduler
from farm.emulation.agenda import TICK
from farm.sim.agenda import Agenda

PATIENCE = 7 * 86_400.0
"""Farm seconds without a running or booting builder after which waiting jobs are given up."""


class SimulatedProvisioner:
    """Sizes one pool: looks, plans, requests and drains."""

    def __init__(
        self,
        pool: str,
        algorithm: Algorithm[Any],
        observer: PoolObserver,
        scheduler: Scheduler,
        request: Callable[[str], str],
    ) -> None:
        self._pool = pool
        self._algorithm = algorithm
        self._observer = observer
        self._scheduler = scheduler
        self._request = request
        self._memory = algorithm.start()
        self._desired: int | None = None
        self._agenda: Agenda | None = None
        self._at_once: deque[Event] = deque()
        self._active_at = 0.0

    def begin(self, agenda: Agenda, at_once: deque[Event]) -> None:
        """Plan for the first time one interval from now."""
        self._agenda = agenda
        self._at_once = at_once
        agenda.add(self._algorithm.interval, TICK, 0, self)

    def due(self, serial: int, at: float) -> Event | None:  # noqa: ARG002 - as every entry's
        """Plan, and make it so; return the plan if it is news."""
        snapshot = self._observer.look(at)
        plan, self._memory = self._algorithm.plan(snapshot, self._memory)
        if snapshot.running_jobs or snapshot.booting or not snapshot.waiting_jobs:
            self._active_at = at
        if self._agenda is not None and at - self._active_at < PATIENCE:
            self._agenda.add(at + self._algorithm.interval, TICK, 0, self)
        if plan.desired == self._desired and not plan.start and not plan.stop:
            return None
        self._desired = plan.desired
        for _ in range(plan.start):
            self._request(self._pool)
        if plan.stop:
            for name in builders_to_stop(self._scheduler.builders.values(), self._pool, plan.stop):
                self._at_once.append(events.DrainRequested(at, name, retire=True))
        return events.PoolPlanned(
            at,
            self._pool,
            plan.desired,
            snapshot.booting + plan.start,
            snapshot.joined,
            snapshot.waiting_jobs,
        )
