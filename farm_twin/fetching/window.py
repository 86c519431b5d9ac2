"""Spans of time into which a request is cut: whole days, and halves of one that has too much."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec

#: a window that is not cut any further; APIs count instants by the second
SHORTEST = timedelta(minutes=1)
ONE_SECOND = timedelta(seconds=1)


class Window(msgspec.Struct, frozen=True, order=True):
    """From ``begin`` until just before ``end``, in UTC, on whole seconds."""

    begin: datetime
    end: datetime

    @property
    def last_second(self) -> datetime:
        """The last second of it, for APIs whose windows include both ends."""
        return self.end - ONE_SECOND

    @property
    def can_be_cut(self) -> bool:
        """Whether it is long enough for two."""
        return self.end - self.begin > SHORTEST

    def halves(self) -> tuple[Window, Window]:
        """Return its two halves, on whole seconds."""
        seconds = int((self.end - self.begin).total_seconds()) // 2
        middle = self.begin + timedelta(seconds=seconds)
        return Window(self.begin, middle), Window(middle, self.end)


def days_until(end: datetime, days: int) -> Iterator[Window]:
    """Yield this number of days, the oldest first: whole days of UTC, and the last until ``end``.

    >>> [f"{day.begin:%d}" for day in days_until(datetime(2026, 11, 3, 12, tzinfo=UTC), 2)]
    ['02', '03']
    """
    end = end.astimezone(UTC).replace(microsecond=0)
    midnight = end.replace(hour=0, minute=0, second=0)
    last = midnight if midnight < end else midnight - timedelta(days=1)
    for number in range(days - 1, -1, -1):
        begin = last - timedelta(days=number)
        yield Window(begin, min(begin + timedelta(days=1), end))


def iso(instant: datetime) -> str:
    """Return an instant of UTC as APIs take it: ``2026-11-02T08:00:00Z``."""
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"
