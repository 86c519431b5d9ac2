"""``csv`` from elsewhere: a table whose columns are named by ``fields`` (``--column OURS=THEIRS``).

======================  =====================================================================
``submitted``           required: when a job arrived
``duration``            how long it ran: seconds, or as ``5m30s``; or:
``started, finished``   when it ran: what lies between is its service time
``id``                  unique, else jobs are numbered
``platform``            ``amd64/virtual``, or any text: a tag or label is the name of a platform
``kind, matrix, …``     further columns of the project's own table
anything else           an attribute of that name: ``team=owner``
======================  =====================================================================

Columns are separated by commas, semicolons or tabs, whichever the header has most of.

An instant is ISO 8601 (``2024-05-01T10:00:00+02:00``; without a zone it is UTC), or seconds or
milliseconds since 1970, or since the beginning of the trace. Calendar times, and those of a trace
that begins below 0, are moved so that the first arrival is 0. A row that lacks a required value,
or that ends before it starts, is left out and counted. Dates and small numbers in one column are
a mistake.
"""

from __future__ import annotations

import csv
import io
import math
import re
from calendar import monthrange, timegm
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from farm.core.errors import TraceError, did_you_mean
from farm.core.model import Recorded
from farm.units import ALLOWED_TIME, parse_time
from farm.workload.traces.content import read_text
from farm.workload.traces.csv_table import COLUMNS, value_of
from farm.workload.traces.records import Records

SEPARATORS = ",;\t"
INSTANTS = ("submitted", "started", "finished")
CALENDAR = 1e8
"""An instant from here on is of the calendar (1973), not of the trace's own time."""
MILLISECONDS = 1e11
"""A number from here on is in milliseconds (in seconds it would be the year 5138)."""

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d(?:[.,]\d+)?))?"
    r"\s*(Z|UTC|[+-]\d\d(?::?\d\d)?)?\Z",
    re.IGNORECASE,
)


def read_foreign(path: Path, fields: Mapping[str, str]) -> Records:
    """Return the jobs of a table; TraceError names the line and column that is wrong."""
    text = read_text(path)
    if not text.strip():
        raise TraceError(f"{path}: is empty; allowed: a line that names the columns, then the jobs")
    first = text.partition("\n")[0]
    between = max(SEPARATORS, key=first.count)
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=between, strict=True)
    try:
        header = [name.strip().lstrip("\ufeff") for name in rows.fieldnames or ()]
        rows.fieldnames = header
        _check(fields, header, path)
        left_out: Counter[str] = Counter()
        clocks: dict[str, bool] = {}
        found = []
        for row in rows:
            if None in row:
                raise TraceError(f"{path}:{rows.line_num}: more values than the header has columns")
            given = {ours: (row[theirs] or "").strip() for ours, theirs in fields.items()}
            where = f"{path}:{rows.line_num}"
            job = _job(given, where)
            _refuse_two_clocks(given, clocks, where)
            if isinstance(job, str):
                left_out[job] += 1
            else:
                found.append(job)
    except csv.Error as error:
        raise TraceError(f"{path}:{rows.line_num}: not a table: {error}") from None
    if not found:
        why = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise TraceError(f"{path}: found no job that can be used" + (f": {why}" if why else ""))
    unused = tuple(name for name in header if name not in fields.values())
    return _records(found)._replace(left_out=left_out, unused=unused)


def _check(fields: Mapping[str, str], header: list[str], path: Path) -> None:
    for ours, theirs in fields.items():
        if theirs not in header:
            raise TraceError(
                f"{path}: column {ours}={theirs}: there is no such column; "
                f"{did_you_mean(theirs, header)}allowed: {', '.join(header)}"
            )
    if "submitted" not in fields:
        raise TraceError(
            f"{path}: found no column for submitted; allowed: one of {', '.join(header)}"
        )
    if "duration" not in fields and not {"started", "finished"} <= fields.keys():
        raise TraceError(f"{path}: found no column for duration, nor for both started and finished")


def _job(given: dict[str, str], where: str) -> dict[str, Any] | str:
    """Return a row as a job's fields, or why it is left out."""
    times: dict[str, float] = {}
    for ours in (*INSTANTS, "duration"):
        if text := given.get(ours):
            read = _instant if ours in INSTANTS else _duration
            times[ours] = _read(read, text, f"{where}: {ours}")
    if "submitted" not in times:
        return "without an arrival"
    if "duration" not in times:
        if not {"started", "finished"} <= times.keys():
            return "never ran, or had not ended"
        times["duration"] = times["finished"] - times["started"]
    if times["duration"] < 0:
        return "ended before the start"
    job: dict[str, Any] = {"arrived_at": times["submitted"], "service_time": times["duration"]}
    job["recorded"] = Recorded(_between(times, "submitted", "started"),
                               _between(times, "started", "finished"))  # fmt: skip
    attributes = {}
    for ours, text in given.items():
        column = ours if ours in COLUMNS else f"{ours}_s"
        if not text or ours in times or ours in INSTANTS:
            continue
        if ours == "id":
            job["id"] = text
        elif column not in COLUMNS:
            attributes[ours] = text
        else:
            job[COLUMNS[column]] = value_of(column, text, where, ours)
    return {**job, "attributes": attributes} if attributes else job


def _between(times: Mapping[str, float], first: str, last: str) -> float | None:
    """Return the span between two instants; None if one is missing, or they are of two clocks."""
    found = [times[name] for name in (first, last) if name in times]
    clocks = {at >= CALENDAR for at in found}
    return found[1] - found[0] if len(found) == 2 and len(clocks) == 1 else None


def _refuse_two_clocks(given: dict[str, str], clocks: dict[str, bool], where: str) -> None:
    """Refuse dates beside numbers; ``clocks``: by column, whether the rows above have dates."""
    for ours in INSTANTS:
        if not (text := given.get(ours)):
            continue
        is_date = _ISO.match(text) is not None or float(text) >= CALENDAR
        if clocks.setdefault(ours, is_date) != is_date:
            above = "dates" if clocks[ours] else "seconds of the trace's own time"
            raise TraceError(f"{where}: {ours}: found {text!r:.60} below {above}; allowed: {above}")


def _read(convert: Any, text: str, where: str) -> Any:
    try:
        return convert(text)
    except ValueError as error:
        raise TraceError(f"{where}: found {text!r:.60}; allowed: {error}") from None


def _records(jobs: list[dict[str, Any]]) -> Records:
    arrived = np.array([job.pop("arrived_at") for job in jobs])
    service = np.array([job.pop("service_time") for job in jobs])
    if arrived.min() >= CALENDAR or arrived.min() < 0:
        arrived = arrived - arrived.min()
    ids = [job.pop("id", "") for job in jobs]
    recorded = [job.pop("recorded") for job in jobs]
    distinct = all(ids) and len(set(ids)) == len(ids)
    notes = ("ids not used, as they are not distinct: jobs are numbered",) if any(ids) else ()
    if distinct:
        return Records(arrived, service, ids, jobs, recorded=recorded)
    return Records(arrived, service, None, jobs, notes=notes, recorded=recorded)


def _duration(text: str) -> float:
    """Return seconds; also below 0, for a row that is left out."""
    try:
        return -parse_time(text[1:]) if text.startswith("-") else parse_time(text)
    except ValueError:
        raise ValueError(ALLOWED_TIME) from None


def _instant(text: str) -> float:
    """Return an instant in seconds; raises ValueError that lists what is allowed."""
    try:
        number = float(text)
    except ValueError:
        return _calendar(text)
    if not math.isfinite(number):
        raise ValueError("a finite number, or a time as 2024-05-01T10:00:00Z")
    return number / 1000 if number >= MILLISECONDS else number


def _calendar(text: str) -> float:
    found = _ISO.match(text)
    if found is None:
        raise ValueError("a number, or a time as 2024-05-01T10:00:00Z")
    year, month, day, hour, minute = map(int, found.groups()[:5])
    there = year and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]
    if not (there and hour < 24 and minute < 60):
        raise ValueError("a time that there is, as 2024-05-01T10:00:00Z")
    seconds = timegm((year, month, day, hour, minute, 0))
    return seconds + float((found[6] or "0").replace(",", ".")) - _offset(found[7] or "")


def _offset(zone: str) -> int:
    """Return how many seconds a zone is ahead of UTC."""
    if not zone or zone[0] not in "+-":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return seconds if zone[0] == "+" else -seconds
