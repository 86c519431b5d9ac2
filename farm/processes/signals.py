"""Signals: sleeping until one comes, and turning SIGINT and SIGTERM into requests for an end."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Self

REQUESTS = (signal.SIGINT, signal.SIGTERM)


class Wake:
    """Ends a wait of ``poll`` on it, from another thread or a signal handler."""

    def __init__(self) -> None:
        self._near, self._far = os.pipe()
        for end in (self._near, self._far):
            os.set_blocking(end, False)

    def __del__(self) -> None:
        for end in (self._near, self._far):
            os.close(end)

    def fileno(self) -> int:
        """Return the file descriptor that ``set`` makes readable."""
        return self._near

    def set(self) -> None:
        """End a wait, or the next one."""
        with contextlib.suppress(BlockingIOError):  # it has been set often enough
            os.write(self._far, b"x")

    def clear(self) -> None:
        """Let the next wait begin."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._near, 4096)

    def poll(self, seconds: float, *also: int) -> None:
        """Wait until it is set, for this many real seconds at most.

        The wait ends as well when one of the file descriptors in ``also`` becomes readable.
        """
        poll = select.poll()  # select would refuse a descriptor from 1024 on
        for one in (self._near, *also):
            poll.register(one, select.POLLIN)
        poll.poll(None if math.isinf(seconds) else max(0.0, seconds) * 1000)


class Wakeups(Wake):
    """Catches signals while its ``with`` block lasts; only for the main thread.

    Args:
        on_request: called with SIGINT or SIGTERM when one came.
    """

    def __init__(self, on_request: Callable[[int], None]) -> None:
        super().__init__()
        self._on_request = on_request
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Self:
        # written to for each signal, so that one which comes just before a wait ends it
        self._fd_before = signal.set_wakeup_fd(self._far, warn_on_full_buffer=False)
        for kind in REQUESTS:
            self._before[kind] = signal.signal(kind, lambda k, _: self._on_request(k))
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        return self

    def __exit__(self, *_: object) -> None:
        for kind, handler in self._before.items():
            signal.signal(kind, handler)
        signal.set_wakeup_fd(self._fd_before)

    def wait(self, seconds: float) -> None:
        """Return when a signal has come, or after this many real seconds."""
        self.poll(seconds)
        self.clear()


class StopRequest(Wake):
    """A request for the end, once it is set for good.

    Like ``threading.Event``, but without its lock: a signal that comes while the main thread holds
    that in ``wait`` would wait for it in the same thread, without end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False

    def is_set(self) -> bool:
        """Whether the end was requested."""
        return self._is_set

    def set(self) -> None:
        """Request the end; signal handlers may call it."""
        self._is_set = True
        super().set()

    def wait(self, seconds: float, *also: int) -> bool:
        """Wait for the request, as ``poll``; whether it was made."""
        self.poll(seconds, *also)
        return self._is_set


def stop_on_signals() -> StopRequest:
    """Return what SIGINT and SIGTERM set from now on."""
    stop = StopRequest()
    for kind in REQUESTS:
        signal.signal(kind, lambda *_: stop.set())
    return stop


class StopSignals(StopRequest):
    """Lets SIGINT and SIGTERM ask the world for its end, from before there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self._stop: Callable[[], None] | None = None

    def reach(self, stop: Callable[[], None]) -> None:
        """Call this from now on, also for what was asked before it was there."""
        self._stop = stop
        for _ in range(self.asked):
            stop()

    def _ask(self, *_: object) -> None:
        self.asked += 1
        self.set()
        if self._stop is not None:
            self._stop()

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Catch the signals in this block; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {kind: signal.signal(kind, self._ask) for kind in REQUESTS}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)
