"""What a child process does at its birth, so that it outlives nobody and is the first to go."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
#: the exit code of a process whose parent is gone
ORPHANED = 103
OOM_SCORE = Path("/proc/self/oom_score_adj")


def die_with(parent: int) -> None:
    """Let Linux kill this process when the thread that started it ends; at once if it has.

    SIGKILL, so that a stopped process goes as well. Elsewhere there is no such thing.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(ORPHANED)


def adopt() -> None:
    """Let Linux make this process the parent of grandchildren whose parent ends: it buries them.

    Else they are left to the first process, and that of a container may be one that buries nobody.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def go_first() -> None:
    """Let the kernel's memory killer take this process before any other: never our host."""
    with contextlib.suppress(OSError):
        OOM_SCORE.write_text("1000")
