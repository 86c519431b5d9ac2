"""The provisioner in virtual time: the same algorithms, asked at their interval."""

from __future__ import annotations

from typing import Any

from farm.core import events
from farm.core.events import Event
from farm.core.pools.algorithm import Algorithm
from farm.core.pools.observer import PoolObserver
from farm.emulation.agenda import TICK
from farm.sim.agenda import Agenda


class SimulatedProvisioner:
    """Sizes one pool: looks and plans; the scheduler makes it so."""

    def __init__(self, pool: str, algorithm: Algorithm[Any], observer: PoolObserver) -> None:
        self._pool = pool
        self._algorithm = algorithm
        self._observer = observer
        self._memory = algorithm.start()
        self._desired: int | None = None
        self._agenda = Agenda()

    def begin(self, agenda: Agenda) -> None:
        """Plan for the first time one interval from now."""
        self._agenda = agenda
        agenda.add(self._algorithm.interval, TICK, 0, self)

    def due(self, serial: int, at: float) -> Event | None:  # noqa: ARG002 - as every entry's
        """Return the plan if it is news."""
        snapshot = self._observer.look(at)
        plan, self._memory = self._algorithm.plan(snapshot, self._memory)
        self._agenda.add(at + self._algorithm.interval, TICK, 0, self)
        if plan.desired == self._desired and not plan.start and not plan.stop:
            return None
        self._desired = plan.desired
        return events.PoolPlanned(
            at,
            self._pool,
            plan.desired,
            snapshot.booting + plan.start,
            snapshot.joined,
            snapshot.waiting_jobs,
            plan.start,
            plan.stop,
        )
