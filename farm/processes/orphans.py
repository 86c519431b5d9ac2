"""Orphans of this process's family: children that came to it because their own parent has ended.

Only Linux hands them over (``child.become_subreaper``) and lists them; elsewhere there are none.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Set as AbstractSet
from pathlib import Path


def children() -> set[int]:
    """Return all children of this process, those that have ended and were not waited for too."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.update(map(int, path.read_text().split()))
    return found


def unsupervised(kept: AbstractSet[int], known: AbstractSet[int]) -> list[int]:
    """Return the children that no supervisor keeps; those that have ended are reaped.

    ``kept``: those with a supervisor; ``known``: others that may live.
    """
    return [pid for pid in children() - kept if not _has_ended(pid) and pid not in known]


def _has_ended(child: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(child, os.WNOHANG)[0] == child
    return True


def end_at_once(pid: int) -> None:
    """Kill a process, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
