"""The only loop: events in, commands out. Both worlds run it; neither has a copy.

The farm is a value machine (``Scheduler.handle``); a *world* is anything that can say what
happened next and carry out a command. The simulated world pops a heap of future events; the
live world reads what real processes report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from farm.core.commands import Command
from farm.core.events import Event

Observer = Callable[[Event, Sequence[Command]], None]
"""Sees every event with the commands that it led to. Watchers must not hurt the watched."""


class World(Protocol):
    """What happens outside the scheduler."""

    def next_event(self) -> Event | None:
        """Return the next event, waiting for it if need be; None when the run is over."""

    def execute(self, command: Command) -> None:
        """Carry out one command (at once in the simulation, on its way to a builder live)."""


class Handler(Protocol):
    """The scheduler, as the driver sees it."""

    def handle(self, event: Event) -> Sequence[Command]:
        """Take one event in and return the commands that follow from it."""


def drive(scheduler: Handler, world: World, observe: Observer) -> None:
    """Run the world to its end: each event to the scheduler, each command to the world."""
    next_event, handle, execute = world.next_event, scheduler.handle, world.execute
    while (event := next_event()) is not None:
        commands = handle(event)
        observe(event, commands)
        for command in commands:
            execute(command)
