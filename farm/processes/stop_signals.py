"""SIGINT and SIGTERM, turned into requests for the end of a run."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Protocol


class Stoppable(Protocol):
    """What can be asked for its end."""

    def stop(self) -> None:
        """Ask once more."""


class StopSignals:
    """Lets SIGINT and SIGTERM ask the world for its end, from before there is one."""

    def __init__(self) -> None:
        self.asked = 0
        self._world: Stoppable | None = None

    def reach(self, world: Stoppable) -> None:
        """Ask this world from now on, also for what was asked before it was there."""
        self._world = world
        for _ in range(self.asked):
            world.stop()

    def _ask(self, *_: object) -> None:
        self.asked += 1
        if self._world is not None:
            self._world.stop()

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Catch the signals meanwhile; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {kind: signal.signal(kind, self._ask) for kind in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)
