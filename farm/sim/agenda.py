"""The agenda in virtual time: a heap of the simulated world's next entries."""

from __future__ import annotations

import heapq
from typing import Any

from farm.emulation.agenda import Action, Entry


class Agenda:
    """A heap of ``(at, rank, place, serial, what)``; see ``farm.emulation.agenda`` for its order.

    Arrivals come last of all at their instant: the simulated world keeps them apart, because they
    are read from the workload only when their time comes. ``what`` is an Entry, or the StartJob
    command whose job will finish then on a simple builder.
    """

    __slots__ = ("heap", "now", "serial")

    def __init__(self) -> None:
        self.now = 0.0
        self.heap: list[tuple[float, int, int, int, Any]] = []
        #: entries ever put in; also the last tie-breaker
        self.serial = 0

    def put(self, at: float, rank: int, place: int, action: Action) -> Entry:
        """Schedule an entry at that instant."""
        entry = Entry(action)
        self.serial = serial = self.serial + 1
        heapq.heappush(self.heap, (at, rank, place, serial, entry))
        return entry
