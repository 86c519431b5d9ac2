"""Tables of other programs: their columns, as the user names them, and the instants in them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import Protocol, TextIO

from farm.core.errors import did_you_mean
from farm.records.attempt import Result

SEPARATORS = ",;\t"
MILLISECONDS = 1e11
"""A number from here on is in milliseconds (in seconds it would be the year 5138)."""

_RESULTS: dict[str, Result] = {
    **dict.fromkeys(("success", "succeeded", "passed", "pass", "ok", "completed"), "succeeded"),
    **dict.fromkeys(("cancelled", "canceled", "aborted", "skipped"), "cancelled"),
    **dict.fromkeys(("lost", "error", "errored"), "lost"),
    **dict.fromkeys(("open", "running", "queued", "waiting", "pending"), "open"),
}  # fmt: skip
_BEFORE_ZONE = re.compile(r"\s*(UTC|Z)\Z|\s+(?=[+-])", re.IGNORECASE)


class Rows(Protocol):
    """The rows of a table, as the module csv reads them."""

    line_num: int

    def __iter__(self) -> Iterator[list[str]]: ...

    def __next__(self) -> list[str]: ...


def table_of(text: TextIO) -> tuple[list[str], Rows]:
    """Return the names of a table's columns, and the rows below. The rows raise csv.Error.

    Columns are separated by commas, semicolons or tabs, whichever the header has most of.
    """
    first = text.readline()
    between = max(SEPARATORS, key=first.count)
    rows = csv.reader(chain([first], text), delimiter=between, strict=True)
    return [name.strip().lstrip("\ufeff") for name in next(rows, [])], rows


def missing_column(fields: Mapping[str, str], header: Iterable[str]) -> str | None:
    """Return what is wrong with columns by our names if one of them is not there."""
    names = list(header)
    for ours, theirs in fields.items():
        if theirs not in names:
            return (
                f"column {ours}={theirs}: there is no such column; {did_you_mean(theirs, names)}"
                f"allowed: {', '.join(names):.300}"
            )
    return None


def time_of(text: str) -> datetime:
    """Return an ISO 8601 time, also with ``UTC``, or with a blank before its zone.

    Raises ValueError that says what is allowed.
    """
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        tidy = _BEFORE_ZONE.sub(lambda found: "Z" if found[1] else "", text)
    try:
        return datetime.fromisoformat(tidy)
    except ValueError:
        there_is = " that there is," if re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:", text) else ""
        raise ValueError(f"a time{there_is} as 2026-11-02T09:00:00Z") from None


def in_seconds(number: float) -> float:
    """Return an instant that is in seconds or milliseconds since 1970 in seconds."""
    return number / 1000 if abs(number) >= MILLISECONDS else number


def result_of(word: str, started_at: float | None, finished_at: float | None) -> Result:
    """Return how an attempt ended, by the source's word for it; without one by its instants."""
    if finished_at is None:
        return "open"
    if not word:
        return "succeeded" if started_at is not None else "cancelled"
    return _RESULTS.get(word.lower(), "failed")
