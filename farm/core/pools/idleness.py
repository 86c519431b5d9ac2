"""Idle time-outs: which builders have been idle for longer than their pool allows."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from itertools import count

from farm.core.alarms import Alarms
from farm.core.pools.spec import PoolSpec
from farm.core.state.working_state import BuilderState


class IdleTimers:
    """At most one timer per builder; work in between does not touch it: when due it is extended.

    So the cost is the same whether a builder runs one job or a thousand before it stays idle. A
    builder that is found busy or drained has no timer until it is watched again.
    """

    def __init__(
        self, specs: Iterable[PoolSpec], builders: Mapping[str, BuilderState], alarms: Alarms
    ) -> None:
        self._timeouts = {s.name: s.idle_timeout for s in specs if s.idle_timeout is not None}
        self._builders = builders
        self._alarms = alarms
        self._timers: list[tuple[float, int, int, BuilderState]] = []
        self._serials = count()

    def joined(self, state: BuilderState) -> None:
        """Note whether a builder needs a timer."""
        state.timed = state.builder.pool not in self._timeouts

    def watch(self, state: BuilderState) -> None:
        """Set a timer for an idle builder that has none."""
        state.timed = True
        expires_at = self._expires_at(state)
        timer = (expires_at, state.builder.index, next(self._serials), state)
        heapq.heappush(self._timers, timer)
        self._alarms.ask(expires_at)

    def due(self, at: float) -> list[BuilderState]:
        """Return the builders whose time-out has expired, in order of expiry."""
        found: list[BuilderState] = []
        while (first := self._first()) is not None and first <= at:
            found.append(heapq.heappop(self._timers)[-1])
        return found

    def ask(self) -> None:
        """Set an alarm for the next time-out, as found by ``due``."""
        if self._timers:
            self._alarms.ask(self._timers[0][0])

    def _expires_at(self, state: BuilderState) -> float:
        return state.active_at + self._timeouts[state.builder.pool]

    def _first(self) -> float | None:
        """Return when the first time-out expires if nothing changes."""
        timers = self._timers
        while timers:
            expires_at, index, serial, state = timers[0]
            if state.busy or state.draining or state.failed or not self._is_there(state):
                heapq.heappop(timers)
                state.timed = False
            elif (now_expires_at := self._expires_at(state)) > expires_at:
                heapq.heapreplace(timers, (now_expires_at, index, serial, state))
            else:
                return expires_at
        return None

    def _is_there(self, state: BuilderState) -> bool:
        return self._builders.get(state.builder.id) is state
