"""Calls that several processes share as soon as they take long."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self, TypeVar

from farm.core.errors import RunError

if TYPE_CHECKING:  # most calls are made here, and it takes long to import
    from concurrent.futures import ProcessPoolExecutor

R = TypeVar("R")

#: processor seconds of calls in this process from which several processes share the rest, if that
#: is expected to take twice as long
WORTH_SHARING = 1.5
#: processor seconds of calls that a process is given at once
AT_ONCE = 0.3


class SharedWork:
    """Makes calls here or in child processes, which end with its ``with`` block."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._processes = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._pool is None:
            return
        if kind is KeyboardInterrupt:
            import multiprocessing  # noqa: PLC0415 - as below

            for one in multiprocessing.active_children():
                one.terminate()  # rather than wait for what it plays
        self._pool.shutdown(cancel_futures=True)

    def done(self, calls: Sequence[Callable[[], R]]) -> Iterator[tuple[int, R]]:
        """Make the calls; yield the place of each and what it returned, as they are done.

        Raises what a call raises, and RunError if a process was killed.
        """
        left = list(enumerate(calls))[::-1]
        done, began = 0, time.process_time()  # real time would tell of others' work
        while left and not self._worth_sharing(len(left), done, began):
            place, call = left.pop()
            yield place, call()
            done += 1
        if not left:
            return
        import multiprocessing  # noqa: PLC0415 - most calls are made here, and it takes long
        from concurrent.futures import ProcessPoolExecutor, as_completed  # noqa: PLC0415
        from concurrent.futures.process import BrokenProcessPool  # noqa: PLC0415

        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")
            self._processes = min(os.cpu_count() or 1, len(calls))
            self._pool = ProcessPoolExecutor(self._processes, spawn, _begin)
        each = (time.process_time() - began) / done if done else AT_ONCE
        size = max(1, min(round(AT_ONCE / each), len(left) // (4 * self._processes)))
        left.reverse()
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

    def _worth_sharing(self, left: int, done: int, began: float) -> bool:
        if self._pool is not None:
            return True
        several = min(os.cpu_count() or 1, left) > 1
        spent = time.process_time() - began
        # a process costs about half a second before its first call
        rest = spent / done * left if done else math.inf
        return several and spent >= WORTH_SHARING and rest >= 2 * WORTH_SHARING


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
    import multiprocessing  # noqa: PLC0415 - as above

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
