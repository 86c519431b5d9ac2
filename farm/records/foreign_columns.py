"""Tables of other programs: their columns, as the user names them, and the instants in them."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import TYPE_CHECKING, TextIO

import numpy as np

from farm.columns import Floats, distinct
from farm.core.errors import did_you_mean
from farm.records.attempt import Result, by_word
from farm.records.notation import iso_of
from farm.units import ALLOWED_TIME, SECONDS, parse_time

if TYPE_CHECKING:
    from _csv import Reader

CALENDAR = 1e8
"""An instant from here on is of the calendar (1973), not of the records' own time."""
SEPARATORS = ",;\t|"
MOST_SECONDS = 1e12
"""Beyond is no time of a job."""
NEVER = 253_370_764_800.0
"""The beginning of the year 9999: a date from here on is none, and so is one up to 1970's."""
MILLISECONDS = 1e11
"""A number from here on is in a unit below seconds (in seconds it would be the year 5138)."""
EARLIEST, LATEST = 631_152_000.0, 4_102_444_800.0
"""The years 1990 and 2100, between which jobs are recorded: such a number is in the unit in which
it lies between them."""
_BELOW_SECONDS = ("ms", "us", "ns")
NO_VALUE = frozenset(("", "-", "--", "\\n", "null", "nil", "none", "nan", "nat", "na", "n/a"))
"""What programs write for a value that is not there, in lower case."""

_RESULTS: dict[str, Result] = by_word(
    {
        "succeeded": "success succeeded passed pass ok completed",
        "cancelled": "cancelled canceled aborted skipped killed",
        "lost": "lost error errored",
        "open": "open running queued waiting pending",
    }
)
#: the times of a job, and what tables call them
_TIMES = {
    **{name: name for name in ("submitted", "eligible", "started", "finished", "declared_time")},
    **dict.fromkeys(("created", "submit", "submission", "queue_time"), "submitted"),
    **dict.fromkeys(("queued", "enqueued", "runnable", "ready", "pending"), "submitted"),
    # not without the ending: it may say whether a job did
    **dict.fromkeys(
        ("completed_at", "ended_at", "end_time", "completion_time", "finish_time"), "finished"
    ),
    **dict.fromkeys(("start_time", "starting_time"), "started"),
    **dict.fromkeys(("duration", "run_time", "runtime", "elapsed", "execution_time"), "duration"),
    **dict.fromkeys(("wait", "waiting_time", "wait_time"), "wait"),
}
#: arrivals that are of the queue: where another column says when a job was made, it could start
#: only from these on
_OF_THE_QUEUE = ("queued", "queue", "enqueued", "runnable", "ready", "pending")
#: what a file of this project, or of others, has for the project's names
OTHER_NAMES = {
    "job_id": "id",
    "builder": "runner",
    "outcome": "result",
    "attempts": "attempt",
    "requested_number_of_resources": "slots",
}
#: of a job that is a member of its record
_IDS_OF_MEMBERS = ("job.id", "task.id")
#: what systems call the machine that ran a job
_NAMES_OF_RUNNERS = {
    "runner_name",
    "worker",
    "worker_name",
    "agent",
    "agent_name",
    "node",
    "node_name",
    "execution_node",
    "machine",
    "machine_name",
    "host",
    "hostname",
}
#: columns of jobs.csv that follow from others, or are of a simulated farm
DERIVED = {
    "waiting_time_s",
    "service_time_s",
    "response_time_s",
    "stretch",
    "declared_time_s",
    "estimated_dispatch_at_s",
    "dispatched_at_s",
    "invocation",
}
_UNITS = {
    **SECONDS,
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    **dict.fromkeys(("msec", "msecs", "millis", "millisecond", "milliseconds"), SECONDS["ms"]),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), SECONDS["s"]),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), SECONDS["m"]),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), SECONDS["h"]),
    **dict.fromkeys(("day", "days"), SECONDS["d"]),
    **dict.fromkeys(("week", "weeks"), SECONDS["w"]),
}
_WITH_UNIT = re.compile(
    r"(?P<stem>.*?)(?:"
    r"\s*[(\[]\s*(?:in\s+)?(?P<bracketed>[^()\[\]]*?)\s*[)\]]"  # Run Time (ms), duration [min]
    r"|[\s_]+in[\s_]+(?P<worded>[^\W_]+)"  # elapsed in hours
    rf"|[\s_,.-]+(?P<ending>{'|'.join(_UNITS)})"  # wait_s
    r"|(?-i:(?<=[a-z])(?P<camel>Ms|Millis|Sec|Secs|Seconds|Minutes|Hours)))",  # durationMs
    re.IGNORECASE,
)
_STAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}((?:\.[0-9]{1,6})?)"
    r"(Z?|[+-][0-9]{2}:[0-9]{2})"
)
_DIGITS = (0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18)
"""Places of digits in such a time, but for the fraction's."""
#: 20261102080640: a date, which as a number of milliseconds would be of the year 2612
_COMPACT = re.compile(r"((?:19|20)\d\d)([01]\d)([0-3]\d)([0-2]\d)([0-5]\d)([0-5]\d)")
#: the leap second, which no clock here has
_LEAP_SECOND = re.compile(r"(\d\d:59):60")
#: Go adds the zone's name to its offset
_ZONE_AFTER_OFFSET = re.compile(r"(?<=[+-]\d{4})\s+[A-Z]{1,5}\Z")
#: Java adds it in brackets
_NAME_OF_ZONE = re.compile(r"\[[\w/+-]+\]\Z")
#: 1-02:03:04.5 is a day, two hours, …
_CLOCK_SPAN = re.compile(r"(?:(\d+)[-.])?(\d+):([0-5]\d):([0-5]\d(?:\.\d+)?)")
_ISO_SPAN = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_PART_IN_WORDS = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zµ]+)[.,]?\s*", re.IGNORECASE)
_BEFORE_ZONE = re.compile(r"\s*(UTC|Z)\Z|\s+(?=[+-])", re.IGNORECASE)


def table_of(text: TextIO) -> tuple[list[str], Reader]:
    """Return the names of a table's columns, and the rows below. The rows raise csv.Error.

    Columns are separated by commas, semicolons, tabs or bars, whichever the header has most of.
    Above the header there may be comments, and the separator as spreadsheets say it (``sep=,``).
    """
    first = text.readline()
    while is_above_header(first):
        first = text.readline()
    rows = csv.reader(chain([first], text), delimiter=separator_of(first), strict=True)
    return [name.strip().lstrip("\ufeff") for name in next(rows, [])], rows


def is_above_header(line: str) -> bool:
    """Return whether a line is none of a table, but stands above it."""
    plain = line.lstrip("\ufeff").strip()
    is_blank = bool(line) and not plain
    return (
        is_blank
        or plain.startswith("#")
        or (plain[:4].lower() == "sep=" and len(plain) <= len("sep=,"))
    )


def separator_of(text: str) -> str:
    """Return what the first line of a text has most of."""
    return max(SEPARATORS, key=text.partition("\n")[0].count)


def missing_column(fields: Mapping[str, str], header: Iterable[str]) -> str | None:
    """Return what is wrong with columns by our names if one of them is not there."""
    names = list(header)
    for name in fields.values() or filter(None, names):
        if names.count(name) > 1:
            return f"found column {name!r:.60} twice; allowed: once, so that it is known which one"
    for ours, theirs in fields.items():
        if theirs not in names:
            return (
                f"column {ours}={theirs}: there is no such column; {did_you_mean(theirs, names)}"
                f"allowed: {', '.join(names):.300}"
            )
    return None


def with_recognised(
    fields: Mapping[str, str],
    header: Iterable[str],
    names: Collection[str],
) -> dict[str, str]:
    """Return the mapping with the other columns that are known by their own names.

    A mapping adds to what is recognised without one. A time that several columns are called after
    is none of them. When a job started and ended counts before how long it waited and ran.

    Args:
        fields: the columns that the user names, by our names.
        header: the names of all columns.
        names: our names of the columns that may be recognised.
    """
    others = [name for name in header if name not in fields.values() and name not in DERIVED]
    known = {time_named(ours)[0] or ours for ours in fields}
    plain = plain_names(others)
    ours_of = {name: time or plain[name] for name, (time, _) in times_named(others).items()}
    columns_called = Counter(ours_of.values())
    recognised = {
        ours: name
        for name, ours in ours_of.items()
        if ours in names and ours not in known and columns_called[ours] == 1
    }
    found = {**fields, **recognised}
    for instant, span in (("started", "wait"), ("finished", "duration")):
        if span not in known and {instant, span} <= found.keys():
            del found[span]
    return found


def _plain_name(column: str) -> str:
    """Return our name of a column that is no time, if it is that, or one of jobs.csv."""
    name = column.lower()
    if name in OTHER_NAMES:
        return OTHER_NAMES[name]
    if _in_words(column) in _NAMES_OF_RUNNERS:
        return "runner"
    return "id" if name in _IDS_OF_MEMBERS else name


def plain_names(columns: Iterable[str]) -> dict[str, str]:
    """Return our names of columns that are no times; those that are called so come first.

    A machine has many names. A column of one of them is the runner, if no other is called that.
    """
    names = list(columns)
    plain = {name: _plain_name(name) for name in names}
    runners = [name for name in names if plain[name] == "runner"]
    exact = [name for name in runners if name.lower() in ("runner", "builder")]
    if exact or len(runners) > 1:
        others = [name for name in runners if name not in exact]
        plain.update({name: name.lower() for name in others})
    return plain


def time_named(column: str) -> tuple[str | None, str]:
    """Return which time of a job a column's name says, and in which unit; None, "": none.

    ``Run Time (ms)`` is the duration in ``ms``, ``finished_at`` the instant ``finished``.
    """
    name, unit = _name_and_unit(column)
    time = _TIMES.get(name) or _TIMES.get(_without_ending(name))
    if time is None and "." in column:  # a member of a member
        return time_named(column.rpartition(".")[2])
    return time, unit


def _name_and_unit(column: str) -> tuple[str, str]:
    """Return a column's name in lower case with ``_`` between its words, and the unit it says."""
    match = _WITH_UNIT.fullmatch(column)
    stem, unit = (match["stem"], match[match.lastgroup or 0]) if match else (column, "")
    return _in_words(stem), unit


def _in_words(name: str) -> str:
    """Return ``createdAt`` as ``created_at``."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[\W_]+", "_", apart.lower()).strip("_")


def _without_ending(name: str) -> str:
    return re.sub(r"_(at|time)\Z", "", name)


def times_named(columns: Iterable[str]) -> dict[str, tuple[str | None, str]]:
    """Return which time of a job each column's name says, and in which unit; see ``time_named``.

    A job is made once, and waits for a runner from when it is queued: of a column of each, the
    latter is ``eligible``.
    """
    named = {column: time_named(column) for column in columns}
    times = [time for time, _ in named.values()]
    if {"started", "wait"}.isdisjoint(times):
        spans = [column for column, (_, unit) in named.items() if unit and _is_of_queue(column)]
        if len(spans) == 1 < times.count("submitted"):
            [column] = spans  # queued_ms: how long, as nothing else says when it started
            return {**named, column: ("wait", named[column][1])}
    if times.count("submitted") != 2 or "eligible" in times:
        return named
    queued = [
        column
        for column, (time, _) in named.items()
        if time == "submitted" and _is_of_queue(column)
    ]
    if len(queued) == 1:
        [column] = queued
        named[column] = ("eligible", named[column][1])
    return named


def _is_of_queue(column: str) -> bool:
    return _without_ending(_name_and_unit(column)[0]) in _OF_THE_QUEUE


def with_units(fields: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the columns by our names, which may say units, and the unit of each time.

    What the user calls it counts (``duration_s=Elapsed``), else the column's own name. A second
    name of the same time is an attribute's.
    """
    columns: dict[str, str] = {}
    units = {}
    named = times_named(fields)
    for ours, theirs in fields.items():
        name, unit = named[ours]
        if name is None or name in columns or (name != ours and name in fields):
            columns[ours] = theirs
        else:
            columns[name] = theirs
            units[name] = unit or time_named(theirs)[1]
    return columns, units


def numbers_in(texts: Sequence[str], unit: str) -> Floats | None:
    """Return numbers of a unit in seconds, as ``in_unit`` does; None: one of them is none."""
    try:
        numbers = np.fromiter(map(float, texts), np.float64, len(texts))
        for extreme in (numbers.min(), numbers.max()):
            in_unit(float(extreme), unit)
    except ValueError:
        return None
    return numbers * _UNITS[unit.lower() or "s"]


def stamps(texts: Sequence[str], instant: Callable[[str], float]) -> Floats | None:
    """Return times of one form, as 2026-11-02T09:00:00.25Z, in seconds; None: they have several.

    ``instant`` reads the beginning of each day, which has 24 hours.
    """
    match = _STAMP.fullmatch(texts[0])
    if match is None or {*map(len, texts)} != {len(texts[0])}:
        return None
    digits = [*_DIGITS, *range(20, match.end(1))]
    marks = np.array(texts).view(np.uint32).reshape(len(texts), -1)
    found = marks[:, digits] - ord("0")
    others = np.delete(marks, digits, axis=1)
    if not ((found < 10).all() and (others == others[0]).all()):
        return None
    _, firsts, days = distinct(found[:, :8] @ 10 ** np.arange(8)[::-1])
    hours, minutes, seconds = (found[:, 8:14:2] * 10 + found[:, 9:14:2]).T.astype(np.int64)
    if hours.max() > 23 or minutes.max() > 59 or seconds.max() > 59:
        return None
    try:
        begins = [instant(f"{texts[n][:11]}00:00:00{match[2]}") for n in firsts.tolist()]
    except ValueError:
        return None
    whole = np.array(begins, np.int64)[days] + hours * 3600 + minutes * 60 + seconds
    made: Floats = (
        whole * 10**6 + found[:, 14:] @ (10**5 // 10 ** np.arange(len(digits) - 14))
    ) / 1e6
    return made


def in_unit(number: float, unit: str) -> float:
    """Return a number of a unit in seconds. Raises ValueError that says what is allowed."""
    if not math.isfinite(number):
        raise ValueError("a finite number")
    if unit and unit.lower() not in _UNITS:
        raise ValueError(
            f"a number in ns us ms s min h d w (the column's name says {unit!r:.40}; a name such "
            "as duration_s before the = of --column says seconds), or with its unit as 5m30s"
        )
    if abs(seconds := number * _UNITS[unit.lower() or "s"]) >= MOST_SECONDS:
        raise ValueError(f"a number below {MOST_SECONDS:g} seconds")
    return seconds


def span_of(text: str, unit: str) -> float:
    """Return a span in seconds, also below 0: ``90`` of a unit, or ``1m30s``.

    Other programs write ``00:06:40``, ``1-02:03:04``, ``PT6M40S`` or ``6 min 40 sec``. Raises
    ValueError that says what is allowed.
    """
    try:
        number = float(text)
    except ValueError:
        if text.startswith("-"):
            return -_written_span(text[1:])
        return _written_span(text)
    return in_unit(number, unit)


def _written_span(text: str) -> float:
    """Return a span that is no plain number, seconds. Raises ValueError."""
    for form in (_CLOCK_SPAN, _ISO_SPAN):
        match = form.fullmatch(text)
        if match is not None and any(match.groups()):
            days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
            return 86400 * days + 3600 * hours + 60 * minutes + seconds
    parts = _PART_IN_WORDS.findall(text)
    if parts and not _PART_IN_WORDS.sub("", text) and all(p[1].lower() in _UNITS for p in parts):
        return math.fsum(float(number) * _UNITS[unit.lower()] for number, unit in parts)
    try:
        return parse_time(text)
    except ValueError:
        raise ValueError(f"{ALLOWED_TIME}, or as 00:06:40") from None


def time_of(text: str) -> datetime:
    """Return an ISO 8601 time, also with ``UTC``, or with a blank before its zone.

    Go's (``2026-11-02 08:00:00 +0000 UTC``), Java's (``…Z[UTC]``), HTTP's (``Mon, 02 Nov 2026
    08:00:00 GMT``), and a leap second are read, too, and other dates that can only be one
    (``02.11.2026 08:00``). Raises ValueError that says what is allowed.
    """
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        tidy = _ZONE_AFTER_OFFSET.sub("", _NAME_OF_ZONE.sub("", text))
        tidy = _BEFORE_ZONE.sub(lambda found: "Z" if found[1] else "", tidy)
    if _LEAP_SECOND.search(tidy):
        return time_of(_LEAP_SECOND.sub(r"\1:59", tidy)) + timedelta(seconds=1)
    if tidy[3:4] == "," and tidy[:3].isalpha():
        try:
            return parsedate_to_datetime(text)
        except ValueError:
            pass
    try:
        return datetime.fromisoformat(iso_of(tidy) or tidy)
    except ValueError:
        there_is = " that there is," if re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:", text) else ""
        raise ValueError(f"a time{there_is} as 2026-11-02T09:00:00Z") from None


def in_seconds(number: float, unit: str) -> float:
    """Return an instant in seconds: in its unit, else in seconds, ms, us or ns since 1970.

    Raises ValueError that says what is allowed.
    """
    if unit or not MILLISECONDS <= abs(number) < math.inf:
        return in_unit(number, unit)
    for smaller in _BELOW_SECONDS:
        seconds = number * _UNITS[smaller]
        if EARLIEST <= seconds < LATEST:
            return seconds
    raise ValueError(
        "seconds, ms, us or ns since 1970 of a year from 1990 to 2100, or a time as "
        "2026-11-02T09:00:00Z"
    )


def date_of_digits(text: str) -> str | None:
    """Return the ISO 8601 time that 14 digits are, as 20261102080640; None: they are none."""
    match = _COMPACT.fullmatch(text)
    if match is None:
        return None
    year, month, day, *clock = match.groups()
    return f"{year}-{month}-{day}T{':'.join(clock)}"


def result_of(word: str, started_at: float | None, finished_at: float | None) -> Result:
    """Return how an attempt ended, by the source's word for it; without one by its instants."""
    if finished_at is None:
        return "open"
    if not word:
        return "succeeded" if started_at is not None else "cancelled"
    return _RESULTS.get(word.lower(), "failed")
