"""Processes told apart by their id and the moment they began: ids are used again."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path


def began_at(pid: int) -> str:
    """Return a mark of the moment at which a process began; empty if it is gone."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    if Path("/proc/self/stat").exists():
        return ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["ps", "-o", "lstart=", "-p", str(pid)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)  # noqa: S603 - no shell
        return done.stdout.strip()
    return ""


def is_alive(pid: int, began: str) -> bool:
    """Whether the process that began then is still there (and not a zombie)."""
    return began_at(pid) == began != ""
