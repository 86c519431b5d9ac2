"""Which builders have been idle for longer than their pool allows."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from farm.core.state import BuilderState
from farm.live.mirror import FarmBook


class IdleWatch:
    """One timer for each idle builder whose pool has an idle time-out (farm seconds)."""

    def __init__(self, book: FarmBook, timeouts: Mapping[str, float]) -> None:
        self._book = book
        self._timeouts = timeouts
        self._since: dict[str, float] = {}
        self._timers: list[tuple[float, str, float]] = []

    def look(self, builder: str, at: float) -> None:
        """The builder may have become idle or busy at this farm time."""
        if not self._timeouts:
            return
        state = self._book.builders.get(builder)
        timeout = self._timeouts.get(state.builder.pool) if state is not None else None
        if state is None or timeout is None or state.busy or not state.accepts:
            self._since.pop(builder, None)
        elif builder not in self._since or self._since[builder] < state.active_at:
            self._since[builder] = since = max(state.active_at, state.joined_at)
            heapq.heappush(self._timers, (max(at, since + timeout), builder, since))

    def next_at(self) -> float | None:
        """Return the farm time at which the next time-out is due."""
        return self._timers[0][0] if self._timers else None

    def due(self, at: float) -> list[str]:
        """Return the builders whose time-out has run out by now."""
        found: list[str] = []
        while self._timers and self._timers[0][0] <= at:
            _, builder, since = heapq.heappop(self._timers)
            if self._since.get(builder) == since and _is_idle(self._book.builders.get(builder)):
                found.append(builder)
        return found


def _is_idle(state: BuilderState | None) -> bool:
    return state is not None and state.busy == 0
