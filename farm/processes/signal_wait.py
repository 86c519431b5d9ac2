"""Sleeping until a signal comes: a child that ended, a request to stop."""

from __future__ import annotations

import contextlib
import math
import select
import signal
import socket
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self


class Wakeups:
    """Catches signals while its ``with`` block lasts; only for the main thread.

    Args:
        on_request: called with SIGINT or SIGTERM when one came.
    """

    REQUESTS: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, on_request: Callable[[int], None]) -> None:
        self._on_request = on_request
        self._before: dict[int, Any] = {}
        self._near, self._far = socket.socketpair()

    def __enter__(self) -> Self:
        for end in (self._near, self._far):
            end.setblocking(False)
        # written to for each signal, so that one which comes just before a wait ends it
        self._fd_before = signal.set_wakeup_fd(self._far.fileno(), warn_on_full_buffer=False)
        for kind in self.REQUESTS:
            self._before[kind] = signal.signal(kind, lambda k, _: self._on_request(k))
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)
        signal.set_wakeup_fd(self._fd_before)
        self._near.close()
        self._far.close()

    def wait(self, seconds: float) -> None:
        """Return when a signal has come, or after so many real seconds."""
        timeout = None if math.isinf(seconds) else max(0.0, seconds)
        select.select([self._near], [], [], timeout)
        with contextlib.suppress(BlockingIOError):
            self._near.recv(4096)
