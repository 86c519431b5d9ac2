"""The agenda in real time: one timer thread for a whole builder host."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from farm.emulation.agenda import LIFE, Action, Due

#: seconds; a wait of many years is more than the system takes
LONGEST_WAIT = 3600.0


class HostAgenda:
    """A heap of deadlines and one thread that sleeps until the first of them.

    Actions run under ``lock``, which protects the host's state; they are given the instant, real
    seconds (``time.monotonic``), and must be short. Entries are added in a ``turn()``, at whose end
    everything that is due is run. Entries due at the same instant happen by rank, by place, then in
    the order in which they were made. ``late`` is given for each by how many seconds it came too
    late. An action that raises ends the thread with its exception, in whichever thread it ran.
    """

    def __init__(self, lock: threading.RLock, late: Callable[[float], None] | None = None) -> None:
        self._late = late
        self._changed = threading.Condition(lock)
        self._heap: list[tuple[float, int, int, int, Due]] = []
        self._serial = 0
        self._closing = False
        self._defect: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="farm-agenda", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def stop(self, timeout: float) -> None:
        """End the thread; pending entries are dropped."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the lock, and run what is due at the end."""
        with self._changed:
            yield
            self._catch_up()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Run the action after this many real seconds."""
        with self._changed:
            self.put(time.monotonic() + seconds, LIFE, 0, lambda _: action())

    def put(self, due_at: float, rank: int, place: int, action: Action) -> Due:
        """Run the action at that instant of ``time.monotonic``; to be called under the lock."""
        entry = Due(action)
        self._serial += 1
        heapq.heappush(self._heap, (due_at, rank, place, self._serial, entry))
        if self._heap[0][4] is entry and due_at > time.monotonic():
            self._changed.notify_all()
        return entry

    def _catch_up(self) -> float | None:
        """Run everything that is due; return the seconds until the next entry, if any."""
        while self._heap:
            due_at, _, _, _, entry = self._heap[0]
            pause = due_at - time.monotonic()
            if entry.action is not None and pause > 0:
                return pause
            heapq.heappop(self._heap)
            if entry.action is not None:
                if self._late is not None:
                    self._late(-pause)
                self._carry_out(entry.action, due_at)
        return None

    def _carry_out(self, action: Action, due_at: float) -> None:
        try:
            action(due_at)
        except Exception as error:
            self._defect = error
            self._changed.notify_all()
            raise

    def _run(self) -> None:
        with self._changed:
            while not self._closing:
                pause = self._catch_up()
                self._changed.wait(None if pause is None else min(pause, LONGEST_WAIT))
                if self._defect is not None:
                    raise self._defect


class FarmAgenda:
    """The same agenda in farm seconds, of which ``speed`` pass per real second.

    Its origin is arbitrary: it is only used for spans, and never sent.
    """

    def __init__(self, agenda: HostAgenda, speed: float) -> None:
        self._agenda = agenda
        self._speed = speed

    @property
    def now(self) -> float:
        """The present instant, farm seconds."""
        return time.monotonic() * self._speed

    def put(self, at: float, rank: int, place: int, action: Action) -> Due:
        """Let something happen at that instant, and give it the instant when it does."""

        def due(_: float) -> None:
            # the clocks differ by rounding: never earlier than requested
            action(max(at, self.now))

        return self._agenda.put(at / self._speed, rank, place, due)
