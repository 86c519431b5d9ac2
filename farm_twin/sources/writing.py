"""Attempts in the formats of the sources, for programs that read those."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from farm.records.attempt import Attempt, grouped
from farm.records.foreign_columns import CALENDAR

MONDAY = 1_767_571_200.0
"""Where a trace's own time begins in formats that have dates: 2026-01-05, a Monday."""


def dated(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts with dates: those of a trace's own time begin at ``MONDAY``."""
    if not attempts or min(one.submitted_at for one in attempts) >= CALENDAR:
        return list(attempts)
    return [one.moved(MONDAY) for one in attempts]


def by_matrix(attempts: Iterable[Attempt]) -> list[list[tuple[int, Attempt]]]:
    """Return the attempts, numbered from 1, in lists of those that were released together.

    So are the attempts of one job. An attempt that belongs to no others is one of its own.
    """
    numbered = enumerate(attempts, 1)
    return list(
        grouped(numbered, lambda one: one[1].matrix or one[1].job or f"\0{one[0]}").values()
    )


def stamp(at: float | None) -> str | None:
    """Return an instant as ISO 8601 with milliseconds, UTC."""
    if at is None:
        return None
    return datetime.fromtimestamp(round(at, 3), UTC).isoformat(timespec="milliseconds")


def second(at: float | None) -> str | None:
    """Return an instant as ISO 8601 in whole seconds, rounded down, UTC."""
    if at is None:
        return None
    return datetime.fromtimestamp(int(at), UTC).isoformat().replace("+00:00", "Z")
