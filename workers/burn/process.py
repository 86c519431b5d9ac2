"""One process of a burning job, from its fork to its end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from farm.processes.child import ORPHANED, die_with, kill_before_host
from workers.burn import stress_ng
from workers.burn.kernels import Kernel, kernel_of

#: seconds of work between two looks at the parent
BIT = 0.01
WRONG_CORES, NO_MEMORY = 101, 102
#: the meaning of this process's exit codes
REASONS = {
    WRONG_CORES: "may not run on its builder's processors",
    NO_MEMORY: "found no memory for its buffer",
    ORPHANED: "lost its parent",
}


class KernelWork(NamedTuple):
    """Work for one kernel."""

    kernel: str
    #: units per second of one idle core
    rate: float
    #: None: without an end
    seconds: float | None

    @property
    def units(self) -> int | None:
        """Return how many units there are to do."""
        return None if self.seconds is None else max(1, round(self.seconds * self.rate))


class Work(NamedTuple):
    """What a burning process does. Parts are done in turns."""

    job: int
    parts: tuple[KernelWork, ...]
    #: niceness: others go first
    nice: int = 0
    #: bytes of the buffer of a walk through memory
    buffer: int = 0
    cores: list[int] | None = None
    #: where stress-ng is, if it does the work
    program: str = ""


def burn(work: Work, leader: int, parent: int) -> NoReturn:
    """Run as a burning process; reports on standard output when it begins to burn.

    The start (filling the buffer) counts as part of the work.
    """
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        die_with(parent)
        os.setpgid(0, leader)
        kill_before_host()
        os.nice(work.nice)
        code = WRONG_CORES
        if work.cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, work.cores)
        code = NO_MEMORY
        kernels = [] if work.program else [kernel_of(p.kernel, work.buffer) for p in work.parts]
        code = 1
        os.write(1, b'{"job": %d, "burning": 1}\n' % work.job)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        if work.program:
            words = stress_ng.command(work.program, work.parts[0].units)
            os.execv(words[0], words)
        parts = _less(work.parts, time.process_time())
        code = 0 if all(steps(kernels, parts, parent)) else ORPHANED
    finally:
        os._exit(code)


def steps(kernels: list[Kernel], parts: tuple[KernelWork, ...], parent: int) -> Iterator[bool]:
    """Do the work of all kernels in turns, bit by bit; False: the parent is gone."""
    left = [part.units for part in parts]
    bits = [max(1, round(BIT * part.rate)) for part in parts]
    while any(units is None or units > 0 for units in left):
        for k, kernel in enumerate(kernels):
            units = left[k]
            if units is None:
                kernel(bits[k])
            elif units > 0:
                kernel(min(bits[k], units))
                left[k] = units - bits[k]
        yield os.getppid() == parent


def _less(parts: tuple[KernelWork, ...], spent: float) -> tuple[KernelWork, ...]:
    """Subtract finished work from the last part: it is the one that has a buffer to fill."""
    *others, last = parts
    if last.seconds is None:
        return parts
    return (*others, last._replace(seconds=max(0.0, last.seconds - spent)))
