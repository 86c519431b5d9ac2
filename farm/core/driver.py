"""The only event loop: events in, commands out. Both worlds use it; neither has a copy.

The scheduler is a state machine (``Scheduler.handle``); a *world* is anything that can say what
happened next and carry out a command. The simulated world pops a heap of future events; the
live world reads what real processes report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from farm.core.commands import Command
from farm.core.events import Event

Observer = Callable[[Event, Sequence[Command]], None]
"""Receives every event with the resulting commands. An observer must not affect the run."""


class World(Protocol):
    """What happens outside the scheduler."""

    def next_event(self) -> Event | None:
        """Return the next event, waiting for it if need be; None when the run is over."""

    def execute(self, command: Command) -> None:
        """Carry out one command: simulated immediately, or sent to a live builder."""


class Handler(Protocol):
    """The scheduler, as the driver sees it."""

    def handle(self, event: Event) -> Sequence[Command]:
        """Handle one event and return the resulting commands."""


def drive(scheduler: Handler, world: World, observe: Observer) -> None:
    """Run the world to its end: pass each event to the scheduler, each command to the world."""
    next_event, handle, execute = world.next_event, scheduler.handle, world.execute
    while (event := next_event()) is not None:
        commands = handle(event)
        observe(event, commands)
        for command in commands:
            execute(command)
