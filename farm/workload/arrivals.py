"""When jobs arrive: Poisson or at fixed intervals, with a daily cycle if wanted."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import count, islice, takewhile

from farm.scenario.workload import Releases

HOUR = 3600.0


def instants(releases: Releases, rng: random.Random, horizon: float = math.inf) -> Iterator[float]:
    """Yield the ascending instants (farm time, s) at which a source releases something.

    They lie in [start, start + duration), and before the horizon if there is no duration.
    """
    end = horizon if releases.duration is None else releases.start + releases.duration
    unlimited = _poisson(releases, rng) if releases.poisson else _every(releases)
    limited = islice(unlimited, releases.count) if releases.count else unlimited
    return takewhile(lambda at: at < end, limited)


def _poisson(releases: Releases, rng: random.Random) -> Iterator[float]:
    """Unit-mean exponential steps of the expected number of arrivals, turned into instants."""
    rate = releases.poisson.rate if releases.poisson else 1.0
    if releases.daily_cycle is None:
        at = releases.start
        while True:
            at -= math.log1p(-rng.random()) / rate
            yield at
    expected, instant_of = 0.0, _cycle_inverse(releases, rate)
    while True:
        expected -= math.log1p(-rng.random())
        yield instant_of(expected)


def _every(releases: Releases) -> Iterator[float]:
    interval, start = releases.every or 0.0, releases.start
    if releases.daily_cycle is None or not interval:
        return (start + number * interval for number in count())
    instant_of = _cycle_inverse(releases, 1.0 / interval)
    return (instant_of(float(number)) for number in count())


def _cycle_inverse(releases: Releases, rate: float) -> Callable[[float], float]:
    """Return the exact inverse of the expected number of arrivals since ``start``.

    The rate is constant within an hour of the day: rate times that hour's factor. The function
    returned must be called with ascending numbers; it remembers its current hour.
    """
    factors = releases.daily_cycle or ()
    day_offset = releases.cycle_start or 0.0
    at, done = releases.start, 0.0

    def instant_of(expected: float) -> float:
        nonlocal at, done
        while True:
            hour = math.floor((at + day_offset) / HOUR)
            hour_end = (hour + 1) * HOUR - day_offset
            if hour_end <= at:  # rounding led to the edge itself
                hour, hour_end = hour + 1, hour_end + HOUR
            hourly = rate * factors[hour % 24]
            needed = expected - done
            if hourly > 0 and needed <= hourly * (hour_end - at):
                at, done = at + needed / hourly, expected
                return at
            at, done = hour_end, done + hourly * (hour_end - at)

    return instant_of
