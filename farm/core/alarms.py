"""Alarms that are set, never more of them than are needed."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any

from farm.core.commands import Out, SetAlarm
from farm.core.events import Event

Handler = Callable[[Any], None]
"""Handles an event; StaleEventError: nothing changes."""


class Alarms:
    """Sets alarms; whatever still waits for a later instant asks again when one rings."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._set: list[float] = []

    def ask(self, rings_at: float) -> None:
        """Set an alarm for this instant, unless an earlier one is set already."""
        if not self._set or rings_at < self._set[0]:
            heapq.heappush(self._set, rings_at)
            self._out.append(SetAlarm(rings_at))

    def rang(self, at: float) -> None:
        """Forget the alarms up to this instant: they have rung."""
        while self._set and self._set[0] <= at:
            heapq.heappop(self._set)


def look_after(
    kinds: Iterable[type], handlers: dict[type, Handler], look: Callable[[float], None]
) -> None:
    """Let ``look`` do what it finds to be done after each event of these kinds is handled."""
    for kind in kinds:
        handlers[kind] = _followed_by(handlers[kind], look)


def _followed_by(handler: Handler, look: Callable[[float], None]) -> Handler:
    def handle(event: Event) -> None:
        handler(event)
        look(event.at)

    return handle
