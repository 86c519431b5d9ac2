"""The provisioner in virtual time: the same algorithms, asked at their interval."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from farm.core import events
from farm.core.events import Event
from farm.core.pools.algorithm import Algorithm
from farm.core.pools.observer import PoolObserver
from farm.emulation.agenda import EARLY_TICK, TICK, Agenda


class SimulatedProvisioner:
    """Sizes one pool: looks and plans; the scheduler makes it so."""

    def __init__(self, pool: str, algorithm: Algorithm[Any], observer: PoolObserver) -> None:
        self._pool = pool
        self._algorithm = algorithm
        self._observer = observer
        self._memory = algorithm.start()
        self._desired: int | None = None

    def begin(self, agenda: Agenda, report: Callable[[Event], None]) -> None:
        """Plan at every multiple of the interval that is to come; report each plan that is news."""
        interval = self._algorithm.interval
        rank = EARLY_TICK if self._algorithm.before_time_outs else TICK

        def tick(at: float) -> None:
            plan = self._plan(at)
            agenda.put(at + interval, rank, 0, tick)
            if plan is not None:
                report(plan)

        agenda.put((agenda.now // interval + 1) * interval, rank, 0, tick)

    def _plan(self, at: float) -> Event | None:
        """Return the plan if it is news."""
        snapshot = self._observer.look(at)
        plan, self._memory = self._algorithm.plan(snapshot, self._memory)
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
