"""The provisioner in virtual time: the same algorithms, called at their intervals.

An algorithm is called at the ticks at which its plan may differ from the last one. It declares
until when it cannot (``Algorithm.stays_until``), or until the next event.
"""

from __future__ import annotations

from collections.abc import Callable
from math import floor
from typing import Any

from farm.core import events
from farm.core.declarations import own_declaration
from farm.core.events import Event
from farm.core.pools.algorithm import AnyAlgorithm, Memory, PoolSnapshot, first_plan_at
from farm.core.pools.observer import PoolObserver
from farm.emulation.agenda import EARLY_TICK, TICK, Agenda, Due
from farm.plugins.guards import GuardedAlgorithm

_FOREVER = float("inf")


class SimulatedProvisioner:
    """Plans for one pool; the scheduler carries out the plans.

    Ticks of several at one instant come by ``place``.
    """

    def __init__(
        self, pool: str, algorithm: AnyAlgorithm, observer: PoolObserver, place: int = 0
    ) -> None:
        self._pool = pool
        self._algorithm = algorithm
        self._observer = observer
        self._place = place
        self._interval = float(algorithm.interval)
        self._first_plan_at = float(first_plan_at(algorithm))
        self._rank = EARLY_TICK if algorithm.before_time_outs else TICK
        #: without its own ``stays_until`` the algorithm is called at every tick
        self._stays_until: Callable[[PoolSnapshot, Any], float] = _any_may_differ
        if own_declaration(algorithm, "stays_until") is not None:
            self._stays_until = algorithm.stays_until
        self._memory = algorithm.start()
        self._desired: int | None = None
        self._ticked_at = 0.0
        #: the next tick that is taken; None: none, unless something happens
        self._next: Due | None = None

    def begin(
        self,
        agenda: Agenda,
        report: Callable[[Event], None],
        resting: list[SimulatedProvisioner],
    ) -> None:
        """Plan first when it is time, then at every interval; report each new plan.

        While ticks are skipped it is in ``resting``: the world then calls ``wake`` after each
        event.
        """
        self._agenda, self._report, self._resting = agenda, report, resting
        # a farm that is forked has had its first plan
        had = max(0, (agenda.now - self._first_plan_at) // self._interval + 1)
        self._expect(self._first_plan_at + had * self._interval)

    def wake(self, at: float, rank: int, place: int) -> None:
        """Handle that something happened: the first tick after it is no longer skipped."""
        if self._next is not None:
            self._next.action = None
        tick = first_tick(self._ticked_at, self._interval, at)
        if tick == at and (rank, place) > (self._rank, self._place):
            tick += self._interval  # at this instant the tick would have come before
        self._expect(tick)

    def _expect(self, tick: float) -> None:
        self._next = self._agenda.put(tick, self._rank, self._place, self._tick)

    def _tick(self, at: float) -> None:
        if self in self._resting:
            self._resting.remove(self)
        self._ticked_at = at
        snapshot = self._observer.look(at)
        plan, self._memory = self._algorithm.plan(snapshot, self._memory)
        if isinstance(self._algorithm, GuardedAlgorithm):
            self._algorithm.refuse_more_failures()
        if plan.desired == self._desired and not plan.start and not plan.stop:
            self._rest(self._stays_until(snapshot, self._memory))
            return
        self._desired = plan.desired
        self._expect(at + self._interval)
        self._report(
            events.PoolPlanned(
                at,
                self._pool,
                plan.desired,
                snapshot.booting + plan.start,
                snapshot.joined,
                snapshot.waiting_jobs,
                plan.start,
                plan.stop,
            )
        )

    def _rest(self, until: float) -> None:
        """Skip the ticks before that instant, unless something happens."""
        next_tick = self._ticked_at + self._interval
        if until <= next_tick:
            self._expect(next_tick)
            return
        self._resting.append(self)
        self._next = None
        if until < _FOREVER:
            self._expect(first_tick(self._ticked_at, self._interval, until))


def _any_may_differ(snapshot: PoolSnapshot, _: Memory) -> float:
    return snapshot.at


def first_tick(ticked_at: float, interval: float, wanted: float) -> float:
    """Return the first tick after the one at ``ticked_at`` that is not before ``wanted``.

    ``farm.sim.fast`` compiles it.
    """
    tick = ticked_at + interval
    if interval == floor(interval) and tick == floor(tick) and tick < wanted:
        tick += floor((wanted - tick) / interval) * interval  # exact, as sums of integers are
    while tick < wanted:  # other sums round: add up in the same order as the ticks
        tick += interval
    return tick
