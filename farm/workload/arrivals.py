"""When jobs arrive: Poisson or at fixed intervals, with a daily or weekly cycle if wanted."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from farm.columns import Floats
from farm.scenario.workload import Releases
from farm.workload.streams import OfSeveral, logarithms, uniforms

HOUR = 3600.0
#: seconds before the end of an hour in which rounding may lead to the next one
EDGE = 1e-3
#: instants that are drawn together: at first, and once there are many, as a block takes time too
LEAST, MOST, MOST_LATER = 16, 4096, 1 << 15


class HourlyRates(NamedTuple):
    """The rate of arrivals with a daily or weekly cycle: constant within each hour of it."""

    #: arrivals per second where the factor is 1
    rate: float
    #: one for each hour of the day (24), or of the week (168, from Monday 00:00)
    factors: tuple[float, ...]
    #: time of the day or week at farm time 0 (s); `starts` of the scenario has been filled in
    offset: float

    @classmethod
    def of(cls, releases: Releases, rate: float) -> HourlyRates:
        """Return the rates of a source that has a cycle."""
        return cls(rate, releases.cycle or (1.0,), releases.cycle_start or 0.0)

    def from_instant(self, at: float) -> tuple[float, float]:
        """Return the rate from an instant on, and the end of its hour, until which it holds."""
        hour = math.floor((at + self.offset) / HOUR)
        hour_end = (hour + 1) * HOUR - self.offset
        if hour_end <= at:  # rounding led to the edge itself
            hour += 1
            hour_end += HOUR
        return self.rate * self.factors[hour % len(self.factors)], hour_end

    def expected(self, start: float, end: float) -> float:
        """Return how many arrivals are expected between two instants."""
        total = 0.0
        at = start
        while at < end:
            rate, hour_end = self.from_instant(at)
            total += rate * (min(hour_end, end) - at)
            at = hour_end
        return total


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


#: length of a source (s) up to which its runs are drawn together
MAX_TOGETHER = 1000 * HOUR


def instants_of_several(
    releases: Releases, streams: Sequence[Callable[[], random.Random]], horizon: float
) -> list[Floats]:
    """Return the instants of several runs, to the last bit as of each alone.

    ``streams``: each makes the stream of a run.
    """
    end = horizon if releases.duration is None else releases.start + releases.duration
    size = MOST
    if releases.poisson and releases.cycle and end < releases.start + MAX_TOGETHER:
        rates = HourlyRates.of(releases, releases.poisson.rate)
        size = _with_most(rates.expected(releases.start, end))
    found: list[Floats | None] = [None] * len(streams)
    if releases.poisson and size < MOST:
        rngs = OfSeveral([stream() for stream in streams], [size] * len(streams))
        steps = -logarithms(uniforms(rngs, size * len(streams))).reshape(-1, size)
        sums = np.cumsum(np.insert(steps, 0, 0.0, axis=1), axis=1)[:, 1:]
        found = _within_hours(releases, releases.poisson.rate, end, sums)
    whole = []
    for together, stream in zip(found, streams, strict=True):
        if together is None:
            blocks = instants(releases, stream(), horizon)
            whole.append(np.concatenate([np.zeros(0), *blocks]))
        else:
            whole.append(together[: releases.count])
    return whole


def _expected(releases: Releases, end: float) -> int:
    """Return about how many instants there are, rather more."""
    interval = releases.every or 0.0
    rate = releases.poisson.rate if releases.poisson else 1.0 / interval if interval else math.inf
    expected = rate * max(end - releases.start, 1.0)
    return math.ceil(min(_with_most(expected), releases.count or math.inf))


def _with_most(expected: float) -> int:
    """Return how many instants there may be, by the number expected; not many more than MOST."""
    expected = min(expected, MOST)
    return math.ceil(LEAST + expected + 3 * math.sqrt(expected))


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

    The function returned must be called with ascending numbers; it remembers its current hour,
    and leaves out what follows the first instant at or behind the end.
    """
    rates = HourlyRates.of(releases, rate)
    state = (releases.start, 0.0, releases.start, 0.0, -math.inf)

    def instants_of(numbers: Floats) -> Floats:
        nonlocal state
        at, done, hour_end, hourly, surely_until = state
        found = []
        for expected in numbers.tolist():
            while True:
                if at >= surely_until:
                    hourly, hour_end = rates.from_instant(at)
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


def _within_hours(
    releases: Releases, rate: float, end: float, numbers: Floats
) -> list[Floats | None]:
    """Return the instants before the end as ``_cycle_inverse`` finds them, for rows of numbers.

    All rows go from hour to hour together. None: a row has too few numbers, or an instant so close
    to an hour's end that rounding has to be looked at.
    """
    rates = HourlyRates.of(releases, rate)
    count, size = numbers.shape
    rows = np.arange(count)
    found = np.full(numbers.shape, np.inf)
    place = np.zeros(count, np.int64)
    done = np.zeros(count)
    is_close = np.zeros(count, np.bool_)
    hour_begin = releases.start
    while hour_begin < end:
        hourly, hour_end = rates.from_instant(hour_begin)
        at = np.full(count, hour_begin)
        if hourly > 0:
            until = done + hourly * (hour_end - hour_begin)
            # some more, as sums are rounded
            width = int(((numbers <= until[:, np.newaxis]).sum(axis=1) - place).max()) + 2
            columns = place[:, np.newaxis] + np.arange(width)
            some = numbers[rows[:, np.newaxis], np.minimum(columns, size - 1)]
            needed = np.diff(some, prepend=done[:, np.newaxis])
            sums = np.cumsum(np.concatenate((at[:, np.newaxis], needed / hourly), axis=1), axis=1)
            before = sums[:, :-1]
            is_later = (needed > hourly * (hour_end - before)) | (columns >= size)
            within = np.where(is_later.any(axis=1), is_later.argmax(axis=1), width)
            row, step = np.nonzero(np.arange(width) < within[:, np.newaxis])
            found[row, place[row] + step] = sums[row, step + 1]
            at = sums[rows, within]
            is_close |= (at >= hour_end - EDGE) | (within == width)
            place += within
            done = np.where(within > 0, numbers[rows, np.maximum(place - 1, 0)], done)
        done += hourly * (hour_end - at)
        hour_begin = hour_end
    is_whole = (found[:, -1] >= end) & ~is_close
    return [
        row[: np.searchsorted(row, end)] if whole else None
        for row, whole in zip(found, is_whole.tolist(), strict=True)
    ]
