"""Jobs that differ only in ids, arrivals and service times, stored as two columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice, repeat, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.core.model import Job

Times = tuple[float, float]
"""An arrival and a service time, seconds."""

_TIMES = np.dtype([("arrived_at", np.float64), ("service_time", np.float64)])


class AlikeJobs:
    """Jobs by arrival, made on demand; those that are not held can be read once.

    ``name`` makes the id of the n-th one, from 1; ``fields`` are what they have in common, as
    keyword arguments of a Job. What they declare is their service time.
    """

    #: the fields in which they differ
    OWN = ("id", "arrived_at", "service_time", "declared_time")

    def __init__(
        self, times: Iterable[Times], name: Callable[[int], str], fields: Mapping[str, Any]
    ) -> None:
        self._times: Iterator[Times] = iter(times)
        self._name = name
        self._fields = fields
        #: arrivals and service times of the jobs that are held
        self.held: NDArray[Any] = np.zeros(0, _TIMES)

    def before(self, horizon: float) -> AlikeJobs:
        """Return the jobs that arrive before an instant."""
        times = takewhile(lambda both: both[0] < horizon, self._times)
        return AlikeJobs(times, self._name, self._fields)

    @property
    def is_empty(self) -> bool:
        """Return whether there are none."""
        first = next(self._times, None)
        if first is not None:
            self._times = chain((first,), self._times)
        return first is None

    def hold(self, most: int | None = None) -> bool:
        """Draw the first ``most`` jobs, None: all; return whether these are all jobs."""
        self.held = np.fromiter(islice(self._times, most), _TIMES)
        return most is None or len(self.held) < most

    def ids(self) -> list[str]:
        """Return the ids of the held jobs."""
        return self.values("id")

    def values(self, field: str, begin: int = 0, end: int | None = None) -> list[Any]:
        """Return a field of some held jobs, one of ``OWN``."""
        some = self.held[begin:end]
        if field == "id":
            return list(map(self._name, range(begin + 1, begin + len(some) + 1)))
        times: list[float] = some["service_time" if field == "declared_time" else field].tolist()
        return times

    def columns(self, begin: int, end: int) -> list[Iterable[Any]]:
        """Return the fields of some held jobs, in the order of a Job's fields."""
        sample = self[begin]
        return [
            self.values(name, begin, end) if name in self.OWN else repeat(getattr(sample, name))
            for name in Job.__struct_fields__
        ]

    def __len__(self) -> int:
        return len(self.held)

    def __getitem__(self, place: int) -> Job:
        arrived_at, service_time = self.held[place].item()
        return self._job(place + 1, arrived_at, service_time)

    def __iter__(self) -> Iterator[Job]:
        for number, times in enumerate(chain(self.held.tolist(), self._times), start=1):
            yield self._job(number, *times)

    def _job(self, number: int, arrived_at: float, service_time: float) -> Job:
        return Job(
            id=self._name(number),
            service_time=service_time,
            arrived_at=arrived_at,
            declared_time=service_time,
            **self._fields,
        )
