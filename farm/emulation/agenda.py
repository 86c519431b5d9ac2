"""The agenda: what will happen, in order of time and, at one instant, in a stated order.

Entries of one instant come out by rank, then by place, then in the order in which they were put
in: job finishes first (by builder, then slot), then what builders do by themselves, then alarms,
then the provisioner's ticks. Time passes in leaps (``farm.sim.world``) or for real
(``workers.host_agenda``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

FINISH, LIFE, EARLY_TICK, ALARM, TICK, ARRIVAL = 0, 1, 2, 3, 4, 5
"""Ranks of what happens at one instant; arrivals are no entries, but come after them all.

An early tick is of a provisioner that sees time-outs late.
"""

Action = Callable[[float], None]
"""What happens when an entry's time comes; it is given the instant, farm seconds."""


class Due:
    """Something due; it does not happen if its ``action`` is taken away (None)."""

    __slots__ = ("action",)

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action


class Agenda(Protocol):
    """Farm time, and a way to let something happen at an instant of it."""

    @property
    def now(self) -> float:
        """The present instant, farm seconds from an arbitrary zero."""

    def put(self, at: float, rank: int, place: int, action: Action) -> Due:
        """Let something happen at that instant, or as soon as possible after it."""
