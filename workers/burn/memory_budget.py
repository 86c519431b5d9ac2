"""How much memory the burning jobs of one host may take together, so that none is killed for it."""

from __future__ import annotations

from collections.abc import Callable

from workers.burn.kernels import MIB

#: what a burning process takes beside its buffer
OVERHEAD = 3 * MIB // 2
#: a walk through less would not leave the caches of any processor
LEAST_WALK = 2 * MIB
#: of the memory that is left, the part that jobs may take
SHARE = 0.75


class NoMemoryError(Exception):
    """There is no room for these processes; the text says how much there is."""


class MemoryBudget:
    """Most of the memory that was left at first, and never more than most of what is left now.

    Args:
        wanted: bytes of a walk's buffer where there is plenty.
        room: the bytes that are left now; None: nobody knows, and nothing is limited.
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
        left, least = self._left(), LEAST_WALK if walks else 0
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
        """The job has ended."""
        self._taken.pop(number, None)

    def _left(self) -> int | None:
        now = self._room()
        if self._first is None or now is None:
            return None
        rest = self._first * SHARE - sum(self._taken.values())
        return max(0, int(min(rest, now * SHARE)))
