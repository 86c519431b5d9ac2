"""One timer thread for a whole builder host: what is due, in order of its instant."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable

Action = Callable[[], None]

#: seconds; a wait of many years is more than the system takes
LONGEST_WAIT = 3600.0


class Entry:
    """Something due at a real instant (``time.monotonic``); ``cancel()`` voids it."""

    __slots__ = ("action", "due_at")

    def __init__(self, due_at: float, action: Action) -> None:
        self.due_at = due_at
        self.action: Action | None = action

    def cancel(self) -> None:
        """Make sure that it does not happen any more."""
        self.action = None


class Agenda:
    """A heap of deadlines and one thread that sleeps until the first of them.

    Actions run under ``lock``, which everybody who changes the host's state holds; they must
    be short. Entries due at the same instant happen in the order in which they were made.
    ``late`` is told of each by how many seconds it came too late.
    """

    def __init__(self, lock: threading.RLock, late: Callable[[float], None] | None = None) -> None:
        self._late = late
        self._changed = threading.Condition(lock)
        self._heap: list[tuple[float, int, Entry]] = []
        self._serial = 0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="farm-agenda", daemon=True)

    def start(self) -> None:
        """Begin to keep time."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End the thread; what is still due never happens."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def after(self, seconds: float, action: Action) -> Entry:
        """Do this so many real seconds from now."""
        return self.at(time.monotonic() + seconds, action)

    def at(self, due_at: float, action: Action) -> Entry:
        """Do this at that instant of ``time.monotonic``."""
        entry = Entry(due_at, action)
        with self._changed:
            self._serial += 1
            heapq.heappush(self._heap, (due_at, self._serial, entry))
            if self._heap[0][2] is entry:
                self._changed.notify_all()
        return entry

    def _run(self) -> None:
        with self._changed:
            while not self._closing:
                self._drop_void()
                pause = self._heap[0][0] - time.monotonic() if self._heap else None
                if pause is not None and pause <= 0:
                    entry = heapq.heappop(self._heap)[2]
                    if entry.action is not None:
                        if self._late is not None:
                            self._late(-pause)
                        entry.action()
                else:
                    self._changed.wait(None if pause is None else min(pause, LONGEST_WAIT))

    def _drop_void(self) -> None:
        while self._heap and self._heap[0][2].action is None:
            heapq.heappop(self._heap)
