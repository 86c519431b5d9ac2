"""stress-ng as the kernel of stress jobs, with bounded operations.

Only for the processor: its walks through memory (``--stream``) come in operations of a tenth of a
second with as much set-up, too coarse for an amount of work; ``memory`` and ``mixed`` jobs
have our own kernel.
"""

from __future__ import annotations

import os
import shutil

#: 64-bit integer arithmetic: 0.3 ms an operation, no floating point modes, no libraries
METHOD = "int64"
PROBE = 100


def find() -> str | None:
    """Return where stress-ng is; None if it is not installed."""
    return shutil.which("stress-ng")


def command(program: str, operations: int | None) -> list[str]:
    """Return the command that burns one processor, for so many operations or until killed."""
    bound = ["--timeout", "0"] if operations is None else ["--cpu-ops", str(operations)]
    quiet = ["--quiet", "--no-rand-seed", "--oomable", "--temp-path", "/tmp"]  # noqa: S108
    return [program, *quiet, "--cpu", "1", "--cpu-method", METHOD, *bound]


def rate(program: str) -> float:
    """Return operations per second of processor time, start-up left out."""
    little = min(_cpu_time(program, PROBE) for _ in range(2))
    much = min(_cpu_time(program, 5 * PROBE) for _ in range(2))
    return 4 * PROBE / max(much - little, 1e-6)


def _cpu_time(program: str, operations: int) -> float:
    pid = os.posix_spawn(program, command(program, operations), os.environ)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise OSError(f"{program} ended with status {status}")
    return usage.ru_utime + usage.ru_stime
