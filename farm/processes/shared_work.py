"""Calls that several processes share as soon as they take long."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Self, TypeVar

from farm.core.errors import RunError

R = TypeVar("R")

#: real seconds of calls in this process from which several processes share the rest
WORTH_SHARING = 1.5


class SharedWork:
    """Makes calls here or in child processes, which end with its ``with`` block."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def done(self, calls: Sequence[Callable[[], R]]) -> Iterator[tuple[int, R]]:
        """Make the calls; yield the place of each and what it returned, as they are done.

        Raises what a call raises, and RunError if a process was killed.
        """
        left = list(enumerate(calls))[::-1]
        began = time.perf_counter()
        while left and not self._worth_sharing(len(left), began):
            place, call = left.pop()
            yield place, call()
        if self._pool is None and left:
            spawn = multiprocessing.get_context("spawn")
            processes = min(os.cpu_count() or 1, len(calls))
            self._pool = ProcessPoolExecutor(processes, spawn, _begin)
        if self._pool is None:
            return
        try:
            futures = {self._pool.submit(call): place for place, call in reversed(left)}
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool:
            raise RunError(
                "a process that played runs was killed; run it again to continue (a script that "
                "calls farm needs `if __name__ == '__main__':` around it)"
            ) from None

    def _worth_sharing(self, left: int, began: float) -> bool:
        if self._pool is not None:
            return True
        several = min(os.cpu_count() or 1, left) > 1
        return several and time.perf_counter() - began >= WORTH_SHARING


def _begin() -> None:
    """Let the first process handle Ctrl-C, and end with it even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
