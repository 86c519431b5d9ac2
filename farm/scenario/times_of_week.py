"""Times of the week, as people write them and as cron does: ``mon-fri 08:00-18:00``.

They are sets of minutes. A period of farm time may limit them.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MINUTE, DAY_MINUTES = 60.0, 24 * 60
WEEK_MINUTES = 7 * DAY_MINUTES
WEEK = WEEK_MINUTES * MINUTE
ALLOWED = (
    "days, times or both, such as 'mon-fri 08:00-18:00', 'sat,sun' or '22:00-06:00', a part of the "
    "week such as 'fri 18:00 - mon 08:00', or the five fields of cron with * for day and month, "
    "such as '* 8-17 * * mon-fri'"
)

_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)  # of the farm's own clock
_DAY = "|".join(DAYS)
_CLOCK = r"\d{1,2}:\d{2}"
# compiled where they are used: few scenarios name times, and all pay for the import
_DAYS_AND_TIMES = (
    rf"(?P<days>(?:{_DAY})(?:[-,](?:{_DAY}))*)?\s*(?:(?P<start>{_CLOCK})\s*-\s*(?P<end>{_CLOCK}))?"
)
_PART_OF_WEEK = rf"({_DAY})\s+({_CLOCK})\s*-\s*({_DAY})\s+({_CLOCK})"
_AT = rf"({_DAY})(?: ([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?)?"
_OFFSET = r"(?:utc)?([+-])(\d\d?):?(\d\d)?"


class Period(msgspec.Struct, frozen=True):
    """Minutes of the week, from an instant of farm time until another.

    >>> worked = Period(minutes_of_week("mon-fri 08:00-18:00"))
    >>> worked.holds_at(28_800.0, starts=0.0), worked.changes_after(28_800.0, starts=0.0)
    (True, 64800.0)
    """

    #: of Monday 00:00; None: all
    minutes: frozenset[int] | None = None
    start: float = 0.0
    end: float = math.inf

    def holds_at(self, at: float, starts: float) -> bool:
        """Return whether an instant is in it; farm time 0 is ``starts`` seconds into the week."""
        if not self.start <= at < self.end:
            return False
        return self.minutes is None or int((at + starts) % WEEK // MINUTE) in self.minutes

    def changes_after(self, at: float, starts: float) -> float:
        """Return the next instant at which it may begin or end, infinity if there is none."""
        if at < self.start:
            return self.start
        edges = _edges(self.minutes or frozenset())
        if at >= self.end or not edges:
            return self.end if at < self.end else math.inf
        here = (at + starts) % WEEK
        place = bisect_right(edges, here)
        following = edges[place] if place < len(edges) else edges[0] + WEEK
        return min(at + following - here, self.end)


@lru_cache(maxsize=256)
def _edges(minutes: frozenset[int]) -> list[float]:
    """Return the seconds of the week at which a set of minutes begins or ends."""
    return [
        minute * MINUTE
        for minute in range(WEEK_MINUTES)
        if (minute in minutes) != ((minute - 1) % WEEK_MINUTES in minutes)
    ]


def minutes_of_week(text: str, offset: int = 0) -> frozenset[int]:
    """Return the minutes since Monday 00:00 that a text describes.

    ``offset``: minutes by which its clock is ahead of the farm's. Raises ValueError, saying what
    was found and what is allowed.
    """
    lowered = " ".join(text.lower().split())
    try:
        found = _parsed(lowered)
    except ValueError as error:
        reason = f" ({error})" if str(error) else ""
        raise ValueError(f"found {text!r:.80}{reason}; allowed: {ALLOWED}") from None
    return frozenset((minute - offset) % WEEK_MINUTES for minute in found)


def _parsed(text: str) -> Iterable[int]:
    if len(fields := text.split(" ")) == 5 and fields[2] != "-":
        return _by_cron(*fields)
    if match := re.fullmatch(_PART_OF_WEEK, text):
        first, start, last, end = match.groups()
        return _span(_minute(first, start), _minute(last, end), WEEK_MINUTES)
    match = re.fullmatch(_DAYS_AND_TIMES, text)
    if match is None or not text:
        raise ValueError
    days = _values(match["days"] or "*", 0, 6, DAYS)
    if match["start"] is None:
        return (day * DAY_MINUTES + minute for day in days for minute in range(DAY_MINUTES))
    span = _span(_clock(match["start"]), _clock(match["end"]), DAY_MINUTES)
    return [day * DAY_MINUTES + minute for day in days for minute in span]


def _span(start: int, end: int, around: int) -> range:
    """Return the minutes from ``start`` to before ``end``, which may be in the next day or week."""
    if start == end:
        raise ValueError("it ends where it begins")
    return range(start, end if end > start else end + around)


def _by_cron(minute: str, hour: str, day: str, month: str, weekday: str) -> list[int]:
    if (day, month) != ("*", "*"):
        raise ValueError("farm time has weekdays and no dates: use start and end")
    # Sunday is 0 or 7, and a week begins on Monday here
    days = {(n - 1) % 7 for n in _values(weekday, 0, 7, ("sun", *DAYS))}
    minutes = [60 * h + m for h in _values(hour, 0, 23) for m in _values(minute, 0, 59)]
    return [n * DAY_MINUTES + m for n in days for m in minutes]


def _values(text: str, least: int, most: int, names: tuple[str, ...] = ()) -> list[int]:
    """Return the values of a list such as ``1-5,7``, ``mon,thu-sat`` or ``*/15``."""
    found: list[int] = []
    for part in text.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = ("0", "-", str(most)) if span == "*" else span.partition("-")
        low = _number(first, least, most, names)
        high = _number(last, least, most, names) if dash else most if slash else low
        if high < low and not names:
            raise ValueError(f"{part} goes backwards")
        # fri-mon goes round; where 0 and 7 are Sunday this is harmless
        every = _number(step, 1, most, ()) if slash else 1
        reach = high if high >= low else high + 7
        found += [n if n <= most else n - 7 for n in range(low, reach + 1, every)]
    return found


def _number(text: str, least: int, most: int, names: tuple[str, ...]) -> int:
    value = names.index(text) if text in names else int(text) if text.isdecimal() else -1
    if not least <= value <= most:
        raise ValueError(f"{text or 'nothing'} is not from {least} to {most}")
    return value


def _minute(day: str, clock: str) -> int:
    return DAYS.index(day) * DAY_MINUTES + _clock(clock)


def _clock(text: str) -> int:
    hour, minute = map(int, text.split(":"))
    if minute > 59 or hour * 60 + minute > DAY_MINUTES:
        raise ValueError(f"{text} is not from 00:00 to 24:00")
    return hour * 60 + minute


def parse_time_of_week(value: object) -> float:
    """Return the seconds since Monday 00:00 of ``wed``, ``wed 14:30`` or ``wed 14:30:15``.

    Of ``2026-03-02 14:30`` it is 1970's first Monday.
    """
    text = " ".join(value.lower().split()) if isinstance(value, str) else ""
    with suppress(ValueError):
        since = datetime.fromisoformat(text).replace(tzinfo=UTC) - _MONDAY
        if since.total_seconds() >= WEEK:
            return since.total_seconds()
    match = re.fullmatch(_AT, text)
    if match is None:
        raise ValueError(
            f"found {value!r:.80}; allowed: a weekday and a time of day, such as 'wed 14:30', or "
            "a date such as '2026-03-02 14:30'"
        )
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
    return float(((DAYS.index(match[1]) * 24 + hours) * 60 + minutes) * 60 + seconds)


def format_time_of_week(seconds: float) -> str:
    """Return the text that ``parse_time_of_week`` converts to these seconds."""
    if seconds >= WEEK:
        at = _MONDAY + timedelta(seconds=int(seconds))
        return f"{at:%Y-%m-%d %H:%M:%S}".removesuffix(":00")
    minutes, left = divmod(int(seconds), 60)
    day, minute = divmod(minutes, DAY_MINUTES)
    return f"{DAYS[day]} {minute // 60:02}:{minute % 60:02}" + (f":{left:02}" if left else "")


def parse_offset(text: str) -> int:
    """Return the minutes of an offset from the farm's clock, such as ``+01:00`` or ``-8``."""
    match = re.fullmatch(_OFFSET, text.strip().lower())
    minutes = int(match[2]) * 60 + int(match[3] or 0) if match else DAY_MINUTES
    if match is None or minutes >= DAY_MINUTES:
        raise ValueError(
            f"found {text!r:.80}; allowed: an offset from the farm's clock such as '+01:00' (a "
            "zone's name says none without a date)"
        )
    return minutes if match[1] == "+" else -minutes
