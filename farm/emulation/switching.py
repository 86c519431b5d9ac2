"""The time that a slot needs to go over to another invocation: another image, another workspace."""

from __future__ import annotations

from collections.abc import Mapping

from farm.core.model import Job
from farm.core.queues.fair_share.path_keys import PathExtractor


class Switching:
    """The invocations that the slots of a builder served last, and what going over to others takes.

    ``times``: by fair-share key. Where several keys of two jobs differ, the longest counts: what
    belongs to an inner level is loaded while the outer one is. A slot's first job goes over from
    nothing, and takes none of this time.
    """

    def __init__(self, times: Mapping[str, float]) -> None:
        self._times = tuple(times.values())
        self._path_of = PathExtractor(tuple(times))
        #: by slot
        self._last: dict[int, tuple[str, ...]] = {}

    def serve(self, slot: int, job: Job) -> float:
        """Return how long a slot needs before it can start a job, which it serves from now on."""
        path = self._path_of(job)
        last = self._last.get(slot, path)
        self._last[slot] = path
        pairs = zip(self._times, last, path, strict=True)
        return max((time for time, before, now in pairs if before != now), default=0.0)
