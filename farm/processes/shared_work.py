"""Calls that several processes share as soon as they take long."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from farm.processes.process_pool import ProcessPool

R = TypeVar("R")

#: processor seconds of calls in this process from which several processes share the rest, if that
#: is expected to take twice as long
WORTH_SHARING = 1.5
#: processor seconds of calls that a process is given at once
AT_ONCE = 0.3


class SharedWork:
    """Makes calls here or in child processes, which end with its ``with`` block."""

    def __init__(self) -> None:
        self._pool: ProcessPool | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._pool is not None:
            self._pool.close(at_once=kind is KeyboardInterrupt)

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
        from farm.processes.process_pool import ProcessPool  # noqa: PLC0415 - slow, few calls need it

        if self._pool is None:
            self._pool = ProcessPool(min(os.cpu_count() or 1, len(calls)))
        each = (time.process_time() - began) / done if done else AT_ONCE
        size = max(1, min(round(AT_ONCE / each), len(left) // (4 * self._pool.processes)))
        yield from self._pool.done(left[::-1], size)

    def _worth_sharing(self, left: int, done: int, began: float) -> bool:
        if self._pool is not None:
            return True
        several = min(os.cpu_count() or 1, left) > 1
        spent = time.process_time() - began
        # a process costs about half a second before its first call
        rest = spent / done * left if done else math.inf
        return several and spent >= WORTH_SHARING and rest >= 2 * WORTH_SHARING
