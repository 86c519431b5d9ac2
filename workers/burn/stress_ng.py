"""stress-ng as the kernel of stress jobs, with bounded operations.

Only for the processor: its walks through memory (``--stream``) come in operations of a tenth of a
second with as much set-up, too coarse for an amount of work; ``memory`` and ``mixed`` jobs
have our own kernel.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time

from farm.processes.child import die_with, kill_before_host
from workers.burn.kernels import MIB

#: 64-bit integer arithmetic: 0.3 ms an operation, no floating point modes, no libraries
METHOD = "int64"
#: operations of a trial run: some tenths of a second
TRIAL = 300
#: processor seconds that no processor needs less for
MIN_TRIAL = 0.005
#: real seconds that a trial may take: a program that hangs does not hang us
PATIENCE = 20.0
#: more it refuses: some fifteen hours
MAX_OPERATIONS = 100_000_000


class UnusableError(Exception):
    """This stress-ng cannot be used; the text says why."""


def find() -> str | None:
    """Return where stress-ng is; None if it is not installed."""
    return shutil.which("stress-ng")


def command(program: str, operations: int | None) -> list[str]:
    """Return the command that burns one processor, for a number of operations or until killed."""
    bound = ["--timeout", "0"] if operations is None else ["--cpu-ops", str(operations)]
    quiet = ["--quiet", "--no-rand-seed", "--oomable", "--temp-path", "/tmp"]  # noqa: S108
    return [program, *quiet, "--cpu", "1", "--cpu-method", METHOD, *bound]


class StressNg:
    """An installed stress-ng that was tried and found to work.

    Raises UnusableError (from the constructor) for one that fails or hangs: a broken
    installation, a version that knows other options.
    """

    #: bytes that one burning process and its helper take
    OVERHEAD = 3 * MIB

    def __init__(self, program: str, patience: float = PATIENCE) -> None:
        self.program = program
        self._patience = patience
        #: processor seconds that it spends before and after its operations
        self.start_up = min(self._cpu_time(1) for _ in range(2))
        self.burst()

    def burst(self) -> list[float]:
        """Return the operations per second of processor time of one trial, start-up left out."""
        spent = self._cpu_time(TRIAL + 1) - self.start_up
        if spent < MIN_TRIAL:
            raise UnusableError(f"{self.program} ends without having worked")
        return [TRIAL / spent]

    def _cpu_time(self, operations: int) -> float:
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            _become(command(self.program, operations), parent)
        deadline = time.monotonic() + self._patience
        while True:
            ended, status, usage = os.wait4(pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > deadline:
                _bury(pid)
                raise UnusableError(f"{self.program} does not end")
            time.sleep(0.002)
        if status:
            how = os.waitstatus_to_exitcode(status)
            raise UnusableError(f"{self.program} ended with exit code {how}")
        return usage.ru_utime + usage.ru_stime


def _become(words: list[str], parent: int) -> None:
    """Be that program, in a group of its own, which ends with its parent."""
    try:
        os.setpgid(0, 0)
        die_with(parent)
        kill_before_host()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        os.execv(words[0], words)  # noqa: S606
    finally:
        os._exit(127)


def _bury(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
