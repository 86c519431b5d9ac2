"""What a child process sets up at its birth: it ends with its parent, and is killed before it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
#: the exit code of a process whose parent is gone
ORPHANED = 103
OOM_SCORE = Path("/proc/self/oom_score_adj")


def die_with_parent() -> Callable[[], None] | None:
    """Return a ``preexec_fn`` that makes a Linux child end with its parent; None elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def prepare() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it has ended already
            os._exit(ORPHANED)

    return prepare


def die_with(parent: int) -> None:
    """Let Linux kill this process when the thread that started it ends, or now if it has.

    SIGKILL, so that a stopped process goes as well. Only Linux can do this.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(ORPHANED)


def become_subreaper() -> None:
    """Let Linux make this process the parent of orphaned grandchildren, so that it reaps them.

    Otherwise the first process gets them, and that of a container may not reap at all.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def kill_before_host() -> None:
    """Let the kernel's memory killer take this process before any other."""
    with contextlib.suppress(OSError):
        OOM_SCORE.write_text("1000")


def unsupervised(kept: AbstractSet[int], known: AbstractSet[int]) -> list[int]:
    """Return the children that no supervisor keeps; those that have ended are reaped.

    ``kept``: those with a supervisor; ``known``: others that may live.
    """
    children: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children.update(map(int, path.read_text().split()))
    found: list[int] = []
    for pid in children - kept:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG)[0] != pid and pid not in known:
                found.append(pid)
    return found


def end_at_once(pid: int) -> None:
    """Kill a process, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
