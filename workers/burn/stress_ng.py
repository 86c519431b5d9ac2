"""stress-ng as the kernel of stress jobs, with bounded operations.

Only for the processor: its walks through memory (``--stream``) come in operations of a tenth of a
second with as much set-up, too coarse for an amount of work; ``memory`` and ``mixed`` jobs use the
built-in kernel.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import tempfile

from farm.processes.child import die_with_parent
from workers.burn.kernels import MIB

#: 64-bit integer arithmetic: 0.3 ms an operation, no floating point modes, no libraries
METHOD = "int64"
#: operations of a trial run: some tenths of a second
TRIAL = 300
#: processor seconds that every processor needs at least
MIN_TRIAL = 0.005
#: real seconds that a trial may take: a program that hangs is given up
PATIENCE = 20.0
#: it refuses more: some fifteen hours
MAX_OPERATIONS = 100_000_000
#: bytes that one burning process and its helper take
OVERHEAD = 3 * MIB


class UnusableStressNgError(Exception):
    """This stress-ng cannot be used; the text says why."""


def find() -> str | None:
    """Return where stress-ng is; None if it is not installed."""
    return shutil.which("stress-ng")


def command(program: str, operations: int | None) -> list[str]:
    """Return the command that burns one processor, for a number of operations or until killed."""
    bound = ["--timeout", "0"] if operations is None else ["--cpu-ops", str(operations)]
    quiet = ["--quiet", "--no-rand-seed", "--oomable", "--temp-path", tempfile.gettempdir()]
    return [program, *quiet, "--cpu", "1", "--cpu-method", METHOD, *bound]


class StressNg:
    """An installed stress-ng that was tried and found to work.

    Raises UnusableStressNgError (from the constructor) for one that fails or hangs: a broken
    installation, a version that knows other options.
    """

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
            raise UnusableStressNgError(f"{self.program} ends without having worked")
        return [TRIAL / spent]

    def _cpu_time(self, operations: int) -> float:
        before = _children_time()
        with subprocess.Popen(
            command(self.program, operations),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - this process has one thread
        ) as process:
            try:
                code = process.wait(self._patience)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise UnusableStressNgError(f"{self.program} does not end") from None
        if code:
            raise UnusableStressNgError(f"{self.program} ended with exit code {code}")
        return _children_time() - before


def _children_time() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
