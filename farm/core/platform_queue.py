"""The jobs waiting for one platform, in the order in which they will be dispatched."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Protocol

from farm.core.state import JobState, Slot


class PlatformQueue(Protocol):
    """What the scheduler asks of a queue; ``PlainQueue`` and ``FairShareQueue`` answer.

    A queue also watches the slots that may serve it, because a fair-share queue remembers what
    each of them ran last. ``at`` is the time of the fact being handled.
    """

    def __len__(self) -> int:
        """Count the waiting jobs."""

    def add(self, state: JobState, at: float) -> None:
        """Let the job wait (again: at its old place)."""

    def remove(self, state: JobState, at: float) -> None:
        """Take a waiting job out without running it (cancelled, or about to be re-keyed)."""

    def choose(self, slot: Slot, at: float) -> JobState | None:
        """Say which job this free slot would get next, changing nothing."""

    def place(self, state: JobState, at: float) -> Slot | None:
        """Say which free slot an arriving job prefers; None leaves it to the balancer."""

    def dispatched(self, state: JobState, slot: Slot, at: float) -> None:
        """The job (waiting here, or arriving now) goes to the slot."""

    def ended(self, state: JobState, slot: Slot, at: float, *, completed: bool) -> None:
        """The attempt is over; ``completed`` is False when it was lost or cancelled."""

    def slot_free(self, slot: Slot, at: float) -> None:
        """The slot can take a job and waits for one."""

    def slot_unavailable(self, slot: Slot, at: float, *, gone: bool) -> None:
        """The slot no longer waits for a job (draining, cleaning); ``gone``: for good."""

    def in_order(self) -> Iterator[JobState]:
        """Yield the waiting jobs in policy order, without disturbing the queue."""


class PlainQueue:
    """One queue in policy order: a heap whose cancelled entries are skipped when they surface."""

    __slots__ = ("_heap", "_waiting")

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[object, ...], JobState]] = []
        #: serials of the waiting jobs; an entry of the heap that is not here is void
        self._waiting: set[int] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, state: JobState, at: float) -> None:
        """Let the job wait."""
        self._waiting.add(state.serial)
        heapq.heappush(self._heap, (state.key, state))

    def remove(self, state: JobState, at: float) -> None:
        """Take a waiting job out; its heap entry stays until it surfaces."""
        self._waiting.discard(state.serial)

    def in_order(self) -> Iterator[JobState]:
        """Yield the waiting jobs in policy order."""
        seen: set[int] = set()
        for _, state in sorted(self._heap, key=lambda entry: entry[0]):
            if state.serial in self._waiting and state.serial not in seen:
                seen.add(state.serial)
                yield state
