"""Processes identified by their id and the moment they began: ids are used again."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path


def boot_id() -> str:
    """Return a name for this machine since it booted; empty if the system has none."""
    with contextlib.suppress(OSError):
        return _boot_id()
    return ""


def process_space() -> str:
    """Return a name for the processes whose ids can be seen from here.

    Two machines, and two containers of one machine, have different ones.
    """
    with contextlib.suppress(OSError):
        return _process_space()
    return socket.gethostname()


# neither changes while this process runs, and one that stands by asks for them every second
@cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@cache
def _process_space() -> str:
    return f"{boot_id()}/{Path('/proc/self/ns/pid').readlink()}"


def began_at(pid: int) -> str:
    """Return a mark of the moment at which a process began; empty if it is gone."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return _began_at(pid)
    return ""


def is_alive(pid: int, began: str) -> bool:
    """Whether the process that began then is still there (and not a zombie).

    If that cannot be found out (this process has no file descriptors left), it may be.
    """
    try:
        return _began_at(pid) == began != ""
    except (OSError, subprocess.SubprocessError):
        return began != ""


def _began_at(pid: int) -> str:
    """Return a mark as ``began_at``; raises OSError, SubprocessError if that cannot be known."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - a path object takes as long again
            fields = file.read().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    if Path("/proc/self/stat").exists():
        return ""
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    return done.stdout.strip()


@contextlib.contextmanager
def end_of(pid: int) -> Iterator[tuple[int, ...]]:
    """Yield the file descriptor that becomes readable when this process ends.

    None where the system has no such thing, or there is no such process (any more).
    """
    try:
        end = os.pidfd_open(pid)
    except (AttributeError, OSError):
        yield ()
        return
    try:
        yield (end,)
    finally:
        os.close(end)
