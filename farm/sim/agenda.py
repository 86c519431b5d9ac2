"""The agenda: what will happen, in order of time and, at one instant, in a stated order.

Entries of one instant come out by rank, then by place, then in the order in which they were put
in: job finishes first (by builder, then slot), then what builders do by themselves, then alarms,
then the provisioner's ticks. Arrivals come last of all: the simulated world keeps them apart,
because they are read from the workload only when their time comes.
"""

from __future__ import annotations

import heapq
from typing import Any

FINISH, LIFE, ALARM, TICK = 0, 1, 2, 3
"""Ranks of entries at one instant."""


class Agenda:
    """A heap of ``(at, rank, place, serial, what)``.

    ``what`` is the StartJob order whose job will finish then, or something with a method
    ``due(serial, at)`` that returns the fact, or None if nothing comes of it after all.
    """

    __slots__ = ("heap", "serial")

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, int, int, Any]] = []
        #: entries ever put in; also the last tie-breaker
        self.serial = 0

    def put(self, at: float, rank: int, place: int, what: Any) -> int:
        """Add an entry and return its serial."""
        self.serial = serial = self.serial + 1
        heapq.heappush(self.heap, (at, rank, place, serial, what))
        return serial
