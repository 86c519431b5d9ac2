"""The runners that a farm's records show: who ran jobs, from when to when, how many at once.

A roster read once is no evidence (registrations come and go by the day): a runner was there from
its first start to its last end, and has as many slots as it ran jobs at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from operator import attrgetter, itemgetter

import msgspec

from farm.core.fields import json_name
from farm.records.attempt import Attempt, grouped


class Runner(msgspec.Struct, frozen=True, gc=False, rename=json_name):
    """A runner; instants are seconds since 1970."""

    runner: str
    #: of its first job
    platform: str
    joined_at: float
    gone_at: float
    slots: int
    #: attempts that it ran
    jobs: int


ROUNDING = 1e-6
"""Seconds by which an end that is a sum of rounded numbers is off, beside its resolution."""


def runners_of(attempts: Iterable[Attempt], resolution: float) -> list[Runner]:
    """Return the runners by the instant of their first start (ties: by name).

    ``resolution`` of the instants, seconds: jobs that overlap by less did not run at once.
    """
    named = (one for one in attempts if one.runner and one.started_at is not None)
    of = grouped(named, attrgetter("runner"))
    found = [_runner(name, some, resolution) for name, some in of.items()]
    return sorted(found, key=lambda one: (one.joined_at, one.runner))


def _runner(name: str, attempts: list[Attempt], resolution: float) -> Runner:
    spans = [(one.started_at or 0.0, one.finished_at) for one in attempts]
    ends = [end for _, end in spans if end is not None]
    joined_at = min(start for start, _ in spans)
    return Runner(
        runner=name,
        platform=min(attempts, key=lambda one: one.started_at or 0.0).platform,
        joined_at=joined_at,
        gone_at=max(ends, default=joined_at),
        slots=most_at_once(
            ((start, end) for start, end in spans if end is not None), resolution + ROUNDING
        ),
        jobs=len(attempts),
    )


def most_at_once(spans: Iterable[tuple[float, float]], resolution: float = 0.0) -> int:
    """Return how many spans overlapped at most, by more than the resolution; at least 1."""
    changes = sorted(
        change
        for start, end in spans
        for change in ((start, 1), (max(start, end - resolution), -1))
    )
    most = there = 0
    for _, change in changes:
        there += change
        most = max(most, there)
    return max(1, most)


Span = tuple[float, float, float]
"""When a job that ran could start, and did, and when it ended; seconds."""


def times_between(jobs: Iterable[Span], slots: int, resolution: float = 0.0) -> list[float]:
    """Return a runner's times between two jobs on a slot, where the second one waited already.

    Jobs that start by less than the resolution before the end that made room start then.
    """
    ends: list[float] = []
    found = []
    for arrived_at, start, end in sorted(jobs, key=itemgetter(1)):
        if len(ends) >= slots and ends[0] <= start + resolution:
            empty_at = heapq.heappop(ends)
            if arrived_at < empty_at:
                found.append(max(0.0, start - empty_at))
        heapq.heappush(ends, end)
    return found


def successions(jobs: Iterable[Span], slots: int, resolution: float = 0.0) -> list[float]:
    """Return the times from the k-th end to the start that it made room for.

    With n slots that is the (k + n)-th; only of jobs that waited already.
    """
    starts, ends = [], []
    for arrived_at, start, end in jobs:
        starts.append((start, arrived_at))
        ends.append(end)
    pairs = zip(sorted(ends), sorted(starts)[slots:], strict=False)
    return [max(0.0, start - end) for end, (start, at) in pairs if at < end <= start + resolution]
