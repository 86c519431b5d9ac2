"""Holes in records: hours in which nothing happened on any platform, and at other days did.

A page that was not fetched, or a collector that was down, looks like a farm without work. Rates
over such a time are too low. A night is none, nor is the time between two bursts: other days are as
quiet then, or for a good part of it.
"""

from __future__ import annotations

import numpy as np

from farm.columns import Floats
from farm.records.attempt_columns import AttemptColumns

HOUR = 3600.0
DAY = 86_400.0
MIN_TIME = HOUR
"""Seconds without any event, from which that may be a hole."""
MAX_TIME = 12.0 * HOUR
"""Seconds up to which it is one: what is longer may be a weekend, or holidays."""
MIN_EXPECTED = 30.0
"""Arrivals, those of a minute as one, that the quieter one of the hours around would have let
expect in it: jobs that come together say no more than one of them."""
MIN_DAYS = 2
"""Other days that the records have at the same hours, from which that is their custom."""
MIN_SHARE_OF_DAYS = 0.6
"""Share of these days that are busy then: two of seven may be a weekend's."""
MAX_SHARE_OF_GAP = 0.25
"""Share of a hole's length up to which a busy day has nothing at the same hours."""


def holes_in(attempts: AttemptColumns) -> list[tuple[float, float]]:
    """Return where records have a hole: first and last instant of each, seconds since 1970."""
    instants = np.concatenate([attempts.arrived_at, attempts.started_at, attempts.finished_at])
    at = np.unique(instants[~np.isnan(instants)])
    quiet = np.flatnonzero((np.diff(at) >= MIN_TIME) & (np.diff(at) <= MAX_TIME))
    holes = [(float(at[place]), float(at[place + 1])) for place in quiet.tolist()]
    minutes = 60.0 * np.unique(np.floor(attempts.arrived_at / 60.0))
    return [hole for hole in holes if _is_hole(at, minutes, *hole)]


def _is_hole(at: Floats, arrivals: Floats, begins: float, ends: float) -> bool:
    """Return whether events are missing between two instants."""
    around = min(_count(arrivals, begins - HOUR, begins), _count(arrivals, ends, ends + HOUR))
    expected = around * (ends - begins) / HOUR
    if expected < MIN_EXPECTED:
        return False
    days = range(int((at[0] - begins) // DAY), int((at[-1] - ends) // DAY) + 1)
    others = [
        _longest_gap(at, begins + day * DAY, ends + day * DAY)
        for day in days
        if day and begins + day * DAY >= at[0] and ends + day * DAY <= at[-1]
    ]
    busy = sum(gap <= MAX_SHARE_OF_GAP * (ends - begins) for gap in others)
    return len(others) >= MIN_DAYS and busy >= MIN_SHARE_OF_DAYS * len(others)


def _longest_gap(at: Floats, begins: float, ends: float) -> float:
    within = at[np.searchsorted(at, begins) : np.searchsorted(at, ends)]
    return float(np.diff(np.concatenate([[begins], within, [ends]])).max())


def _count(at: Floats, begins: float, ends: float) -> int:
    return int(np.searchsorted(at, ends) - np.searchsorted(at, begins))


def time_in(holes: list[tuple[float, float]], at: Floats) -> Floats:
    """Return how much of the holes lies before each instant, seconds."""
    passed = np.zeros(len(at))
    for begins, ends in holes:
        passed += np.clip(at, begins, ends) - begins
    return passed
