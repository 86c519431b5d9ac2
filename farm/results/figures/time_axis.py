"""Axes of time: where the ticks are, and what they say, by a clock if the farm has one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time
from typing import NamedTuple

from farm.scenario.times_of_week import WEEK
from farm.units import format_time

_DAY = 86400.0
#: readable spans between ticks, seconds
STEPS = (
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
    10800.0, 21600.0, 43200.0, _DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY, 28 * _DAY, 91 * _DAY,
    364 * _DAY,
)  # fmt: skip
#: a Monday, in seconds since 1970: clocks that know no date go by it
MONDAY = 4 * _DAY
MIDNIGHT = time()
#: instants have two words by a clock, and one without
MOST_TICKS, MOST_SPANS = 5, 7
#: the same beside names of rows, which leave less room
MOST_BESIDE_ROWS = 3


class WallClock(NamedTuple):
    """What a clock showed at the instant 0 of an axis."""

    #: seconds since 1970 there; without a date: since the week's Monday 00:00, and ``MONDAY``
    shows: float
    dated: bool = False
    zone: str = ""

    @classmethod
    def of(cls, starts: float) -> WallClock:
        """Return the clock of a scenario; ``starts``: seconds since its Monday 00:00, or 1970's."""
        return cls(MONDAY + starts, dated=starts >= WEEK)


def time_ticks(
    begin: float, end: float, clock: WallClock | None, most: int = MOST_SPANS
) -> Iterator[tuple[float, str]]:
    """Yield instants (seconds) of an axis, and what they are called there.

    >>> [text for _, text in time_ticks(0.0, 4 * 3600.0, None)]
    ['0', '30m', '1h', '1h30m', '2h', '2h30m', '3h', '3h30m', '4h']
    >>> [text for _, text in time_ticks(0.0, 4 * 3600.0, WallClock.of(8.5 * 3600))]
    ['Mon 09:00', 'Mon 10:00', 'Mon 11:00', 'Mon 12:00']
    """
    shows = 0.0 if clock is None else clock.shows - MONDAY
    most = most if clock is None else min(most, MOST_TICKS)
    step = next((one for one in STEPS if (end - begin) / one <= most), STEPS[-1])
    number = -(-(begin + shows) // step)
    while (at := number * step - shows) <= end:
        yield at, instant(at, clock, whole_days=step >= _DAY)
        number += 1


def instant(
    at: float, clock: WallClock | None, *, whole_days: bool = False, dated: bool = False
) -> str:
    """Return what an instant of an axis (seconds) is called; ``dated``: in any case with a date."""
    if clock is None:
        return f"{'-' * (at < 0)}{format_time(abs(at))}" if at else "0"
    then = datetime.fromtimestamp(clock.shows + at, UTC)
    day = f"{then:%a} {then.day} {then:%b}" if clock.dated else f"{then:%a}"
    if whole_days or (clock.dated and not dated and then.time() == MIDNIGHT):
        return day
    clock_time = f"{then:%H:%M}" if then.second == 0 else f"{then:%H:%M:%S}"
    return f"{day if dated else f'{then:%a}'} {clock_time}"


def axis_name(clock: WallClock | None) -> str:
    """Return what an axis of time is called.

    >>> axis_name(WallClock(1_772_442_000.0, dated=True, zone="UTC"))
    'clock time (UTC), from Mon 2 Mar 2026 09:00 on'
    """
    if clock is None:
        return "time since the start"
    if not clock.dated:
        return f"clock time, from {instant(0.0, clock)} on"
    then = datetime.fromtimestamp(clock.shows, UTC)
    zone = f" ({clock.zone})" if clock.zone else ""
    return f"clock time{zone}, from {then:%a} {then.day} {then:%b %Y %H:%M} on"
