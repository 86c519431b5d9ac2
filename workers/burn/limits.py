"""The share of the machine that may be used: affinity, cgroup quotas (version 1 and 2), memory.

The burning jobs of one host take memory from a budget, so that none is killed for it.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from workers.burn.kernels import MIB

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
MEMORY = Path("/proc/meminfo")
#: memory of a burning process beside its buffer
OVERHEAD = 3 * MIB // 2
#: a walk through less would not leave the caches of any processor
MIN_WALK = 2 * MIB
#: of the memory that is left, the part that jobs may take
SHARE = 0.75


def own_cores() -> list[int]:
    """Return the processors that this process may run on, in order."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def usable_cores(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> float:
    """Return how many processors' worth of time this process may use: affinity and quota."""
    quota = cpu_quota(cgroups, membership)
    allowed = float(len(own_cores()))
    return allowed if quota is None else min(allowed, quota)


def cpu_quota(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> float | None:
    """Return the tightest quota of the cgroup and those above it, in processors; None: none."""
    found = [_quota(folder) for folder in _folders(cgroups, membership, "cpu")]
    return min((quota for quota in found if quota is not None), default=None)


def memory_room(
    cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP, memory: Path = MEMORY
) -> int | None:
    """Return the free bytes: the machine's, or the cgroup's if that is less."""
    rooms = [_memory_left(folder) for folder in _folders(cgroups, membership, "memory")]
    left = re.search(r"^MemAvailable: +(\d+) kB$", _text(memory), re.MULTILINE)
    rooms.append(int(left[1]) * 1024 if left else None)
    return min((room for room in rooms if room is not None), default=None)


def cores_of(index: int, cores: int, available: Sequence[int], quota: float | None) -> list[int]:
    """Return the processors of the ``index``-th builder of the farm, which has ``cores``.

    Builders take turns round the machine, so that they share a processor only when there are more
    of them than it has. No builder gets more processors than a quota pays for.
    """
    most = len(available) if quota is None else min(len(available), max(1, math.ceil(quota)))
    count = min(cores, most)
    return sorted(available[(index * count + k) % len(available)] for k in range(count))


class NoMemoryError(Exception):
    """There is no room for these processes; the text says how much there is."""


class MemoryBudget:
    """Most of the memory that was free at first, and never more than most of what is free now.

    Args:
        wanted: bytes of a walk's buffer where there is plenty.
        room: the bytes that are left now; None: unknown, and nothing is limited.
    """

    def __init__(self, wanted: int, room: Callable[[], int | None]) -> None:
        self._wanted = wanted
        self._room = room
        self._first = room()
        self._taken: dict[int, int] = {}

    def take(self, number: int, threads: int, *, walks: bool, overhead: int = OVERHEAD) -> int:
        """Reserve what a job's processes need; return the size of each one's buffer, 0 for none.

        Buffers are as large as they should be, but leave half of the room to the jobs to come, as
        far as they can. Raises NoMemoryError.
        """
        left, least = self._left(), MIN_WALK if walks else 0
        buffer = self._wanted if walks else 0
        if left is not None:
            if left < threads * (least + overhead):
                raise NoMemoryError(
                    f"no memory for {threads} burning processes: {left // MIB} MiB may be taken"
                )
            buffer = min(buffer, max(least, left // 2 // threads - overhead))
        self._taken[number] = threads * (buffer + overhead)
        return buffer

    def give_back(self, number: int) -> None:
        """Release what a job has reserved."""
        self._taken.pop(number, None)

    def _left(self) -> int | None:
        now = self._room()
        if self._first is None or now is None:
            return None
        rest = self._first * SHARE - sum(self._taken.values())
        return max(0, int(min(rest, now * SHARE)))


def _folders(cgroups: Path, membership: Path, controller: str) -> Iterator[Path]:
    """Yield this cgroup's folder and those above it, for one controller, of either version."""
    for line in _text(membership).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        names = controllers.split(",")
        if controllers == "":  # version 2
            tops = [cgroups, cgroups / "unified"]
        elif controller in names:
            tops = [cgroups / controllers, cgroups / controller]
        else:
            continue
        for top in tops:
            folder = top / path.lstrip("/")
            # in a container the path may be the one outside; the mount is then its own cgroup
            yield from (one for one in (folder, *folder.parents) if one.is_relative_to(top))


def _quota(folder: Path) -> float | None:
    words = _text(folder / "cpu.max").split()
    if len(words) != 2:
        words = [_text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    quota, period = (_number(word) for word in words)
    return quota / period if quota is not None and period and quota > 0 else None


def _memory_left(folder: Path) -> int | None:
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        most, now = (_number(_text(folder / name)) for name in (limit, used))
        if most is not None and now is not None:
            return max(0, most - max(0, now - _idle_files(folder)))
    return None


def _idle_files(folder: Path) -> int:
    """Return the bytes of files that were not used of late: the kernel gives them up for others."""
    text = _text(folder / "memory.stat")
    found = re.search(r"^total_inactive_file (\d+)$", text, re.MULTILINE) or re.search(
        r"^inactive_file (\d+)$", text, re.MULTILINE
    )
    return int(found[1]) if found else 0


def _number(text: str) -> int | None:
    """Return a whole number; None for ``max``, ``-1`` (no limit) and other text."""
    try:
        number = int(text)
    except ValueError:
        return None
    return number if number >= 0 else None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
