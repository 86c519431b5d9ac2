"""When jobs arrive: Poisson or at fixed intervals, with a daily or weekly cycle if wanted."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from farm.columns import Floats
from farm.scenario.workload import Releases
from farm.workload.streams import logarithms, uniforms

HOUR = 3600.0
#: seconds before the end of an hour in which rounding may lead to the next one
EDGE = 1e-3
#: instants that are drawn together: at first, and once there are many, as a block takes time too
LEAST, MOST, MOST_LATER = 16, 4096, 1 << 15


def instants(
    releases: Releases,
    rng: random.Random,
    horizon: float = math.inf,
    most: int = MOST,
    most_later: int = MOST_LATER,
) -> Iterator[Floats]:
    """Yield the ascending instants (farm time, s) at which a source releases something, in blocks.

    They lie in [start, start + duration), and before the horizon if there is no duration. Those
    that are equal are in one block, however many; else the first has up to about ``most``, and
    each next one twice as many, up to ``most_later``.
    """
    end = horizon if releases.duration is None else releases.start + releases.duration
    left = releases.count or math.inf
    size = min(most, _expected(releases, end))
    sizes = _sizes(size, most_later)
    unlimited = (
        _poisson(releases, rng, sizes, end) if releases.poisson else _every(releases, sizes, end)
    )
    kept = np.zeros(0)
    for block in unlimited:
        some = block[: min(left, np.searchsorted(block, end))]
        left -= len(some)
        kept = np.concatenate((kept, some))
        if len(some) < len(block) or not left:
            break
        whole = int(np.searchsorted(kept, kept[-1]))
        if whole:
            yield kept[:whole]
            kept = kept[whole:]
    if len(kept):
        yield kept


def _expected(releases: Releases, end: float) -> int:
    """Return about how many instants there are, rather more."""
    interval = releases.every or 0.0
    rate = releases.poisson.rate if releases.poisson else 1.0 / interval if interval else math.inf
    expected = min(rate * max(end - releases.start, 1.0), MOST)
    return math.ceil(min(LEAST + expected + 3 * math.sqrt(expected), releases.count or math.inf))


def _sizes(size: int, most: int) -> Iterator[int]:
    """Yield the sizes of blocks."""
    while True:
        yield size
        size = max(size, min(2 * size, most))


def _poisson(
    releases: Releases, rng: random.Random, sizes: Iterable[int], end: float
) -> Iterator[Floats]:
    """Unit-mean exponential steps of the expected number of arrivals, turned into instants."""
    rate = releases.poisson.rate if releases.poisson else 1.0
    last = releases.start if releases.cycle is None else 0.0
    instants_of = None if releases.cycle is None else _cycle_inverse(releases, rate, end)
    for size in sizes:
        steps = logarithms(uniforms(rng, size))
        if instants_of is None:
            steps /= rate
        # from first to last, as one would add them up
        sums = np.cumsum(np.concatenate(([last], -steps)))[1:]
        last = float(sums[-1])
        yield sums if instants_of is None else instants_of(sums)


def _every(releases: Releases, sizes: Iterable[int], end: float) -> Iterator[Floats]:
    interval, start = releases.every or 0.0, releases.start
    instants_of = None
    if releases.cycle is not None and interval:
        instants_of = _cycle_inverse(releases, 1.0 / interval, end)
    first = 0
    for size in sizes:
        numbers = np.arange(first, first + size, dtype=np.float64)
        first += size
        yield start + numbers * interval if instants_of is None else instants_of(numbers)


def _cycle_inverse(releases: Releases, rate: float, end: float) -> Callable[[Floats], Floats]:
    """Return the exact inverse of the expected number of arrivals since ``start``.

    The rate is constant within an hour of the day or week: rate times that hour's factor. The
    function returned must be called with ascending numbers; it remembers its current hour, and
    leaves out what follows the first instant at or behind the end.
    """
    factors = releases.cycle or ()
    offset = releases.cycle_start or 0.0
    state = (releases.start, 0.0, releases.start, 0.0, -math.inf)

    def instants_of(numbers: Floats) -> Floats:
        nonlocal state
        at, done, hour_end, hourly, surely_until = state
        found = []
        for expected in numbers.tolist():
            while True:
                if at >= surely_until:
                    hour = math.floor((at + offset) / HOUR)
                    hour_end = (hour + 1) * HOUR - offset
                    if hour_end <= at:  # rounding led to the edge itself
                        hour, hour_end = hour + 1, hour_end + HOUR
                    hourly = rate * factors[hour % len(factors)]
                    surely_until = hour_end - EDGE
                needed = expected - done
                if hourly > 0 and needed <= hourly * (hour_end - at):
                    at, done = at + needed / hourly, expected
                    break
                at, done = hour_end, done + hourly * (hour_end - at)
            found.append(at)
            if at >= end:
                break
        state = at, done, hour_end, hourly, surely_until
        return np.array(found)

    return instants_of
