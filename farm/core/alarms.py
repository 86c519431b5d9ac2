"""The alarms that are set: never two where one will do."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from farm.core.commands import Command, Ignored, SetAlarm
from farm.core.events import Event

Handler = Callable[[Any], Sequence[Command]]


class Alarms:
    """Sets alarms; those that wait for an instant ask again whenever one rings."""

    def __init__(self) -> None:
        self._set: list[float] = []

    def ask(self, rings_at: float, commands: list[Command]) -> None:
        """Have an alarm ring at this instant, unless an earlier one gives reason to ask again."""
        if not self._set or rings_at < self._set[0]:
            heapq.heappush(self._set, rings_at)
            commands.append(SetAlarm(rings_at))

    def rang(self, at: float) -> None:
        """An alarm rang: those up to this instant are over."""
        while self._set and self._set[0] <= at:
            heapq.heappop(self._set)


def looking_after(handler: Handler, look: Callable[[float], list[Command]]) -> Handler:
    """Return a handler that looks, after another one, what else is to be done at that instant."""

    def handle(event: Event) -> Sequence[Command]:
        commands = handler(event)
        if type(commands) is Ignored:
            return commands
        more = look(event.at)
        return [*commands, *more] if more else commands

    return handle
