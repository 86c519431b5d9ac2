"""Child processes that make calls for this one. Importing this takes long: do it late."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar

from farm.core.errors import RunError

R = TypeVar("R")


class ProcessPool:
    """Processes that end with this one; they are started by the first calls."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        spawn = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(processes, spawn, _begin)

    def done(
        self, left: Sequence[tuple[int, Callable[[], R]]], size: int
    ) -> Iterator[tuple[int, R]]:
        """Make these calls, ``size`` at once; yield the place of each and what it returned."""
        try:
            with _ctrl_c_later():
                futures = {
                    self._pool.submit(_made, [call for _, call in some]): [p for p, _ in some]
                    for some in (left[begin : begin + size] for begin in range(0, len(left), size))
                }
            for future in as_completed(futures):
                yield from zip(futures[future], future.result(), strict=True)
        except BrokenProcessPool:
            raise RunError(
                "a process that played runs was killed; run it again to continue (a script that "
                "calls farm needs `if __name__ == '__main__':` around it)"
            ) from None

    def close(self, *, at_once: bool) -> None:
        """End the processes, ``at_once`` rather than wait for what they play."""
        if at_once:
            for one in multiprocessing.active_children():
                one.terminate()
        self._pool.shutdown(cancel_futures=True)


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block, which starts processes.

    A pool that is interrupted while it starts cannot be ended, and each process that is still
    importing would print a traceback: they are born with the signal blocked.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # another thread may take it
    before = signal.signal(signal.SIGINT, lambda kind, _: came.append(kind))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def _made(calls: Sequence[Callable[[], R]]) -> list[R]:
    """Make several calls: what they share is sent once."""
    return [call() for call in calls]


def _begin() -> None:
    """Let the first process handle Ctrl-C, and end with it even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
