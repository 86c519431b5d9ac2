"""``csv`` from elsewhere: a table whose columns are named by ``fields`` (``--column OURS=THEIRS``).

======================  =====================================================================
``submitted``           required: when a job arrived
``duration``            how long it ran: seconds, another unit, or as ``5m30s``; or:
``started, finished``   when it ran: what lies between is its service time
``wait``                how long it waited, where no column says when it started
``id``                  unique, else jobs are numbered
``platform``            ``amd64/virtual``, or any text: a tag or label is the name of a platform
``kind, matrix, …``     further columns of the project's own table
anything else           an attribute of that name: ``team=owner``
======================  =====================================================================

Numbers are in the unit that ends our name (``duration_ms=Elapsed``), or else the column's own: as
``Run Time (ms)``, ``duration [min]``, ``wait_s``, ``elapsed in hours``; without one in seconds.
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
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from farm.core.errors import TraceError
from farm.records.attempt import Attempt, Happened
from farm.records.coded import columns_of
from farm.records.columns import (
    CALENDAR,
    OTHER_NAMES,
    in_seconds,
    missing_column,
    result_of,
    span_of,
    table_of,
    time_named,
    time_of,
    with_needed,
    with_units,
)
from farm.records.content import read_text
from farm.records.job_columns import COLUMNS
from farm.records.traces import csv_table
from farm.records.traces.csv_table import value_of
from farm.records.traces.records import Records

T = TypeVar("T")
SPANS = ("duration", "wait", "declared_time")
INSTANTS = ("submitted", "started", "finished")


def read(path: Path, fields: Mapping[str, str] | None = None) -> Records:
    """Return the jobs of a table; TraceError names the line and column that is wrong.

    Without ``fields`` it is the project's own, or one of another's whose names say all times.
    """
    if fields is None:
        return _by_its_names(path)
    text = read_text(path)
    if not text.strip():
        raise TraceError(f"{path}: is empty; allowed: a line that names the columns, then the jobs")
    try:
        header, rows = table_of(io.StringIO(text, newline=""))
        if missing := missing_column(fields, header):
            raise TraceError(f"{path}: {missing}")
        fields = with_needed(fields, header, ("submitted", "duration"))
        if "duration" not in with_units(fields)[0]:
            fields = with_needed(fields, header, ("started", "finished"))
        used, units = with_units(fields)
        _check(used, header, path)
        places = {name: place for place, name in enumerate(header)}
        columns = [(ours, places[theirs]) for ours, theirs in used.items()]
        left_out: Counter[str] = Counter()
        clocks: dict[str, bool] = {}
        found = []
        for row in rows:
            where = f"{path}:{rows.line_num}"
            if len(row) > len(header):
                raise TraceError(f"{where}: more values than the header has columns")
            given = {ours: row[at].strip() for ours, at in columns if at < len(row)}
            job = _job(given, units, clocks, where) if row else None
            if isinstance(job, str):
                left_out[job] += 1
            elif job is not None:
                found.append(job)
    except csv.Error as error:
        raise TraceError(f"{path}:{rows.line_num}: not a table: {error}") from None
    if not found:
        why = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise TraceError(f"{path}: found no job that can be used" + (f": {why}" if why else ""))
    unused = tuple(name for name in header if name not in fields.values())
    return _records(found)._replace(left_out=left_out, unused=unused)


def _by_its_names(path: Path) -> Records:
    try:
        return csv_table.read(path)
    except TraceError:
        if not (fields := _named(path)):
            raise
    found = read(path, fields)
    said = ", ".join(f"{theirs} is {ours}" for ours, theirs in fields.items() if ours != theirs)
    return found._replace(notes=(*found.notes, f"by its names: {said}"))


def _named(path: Path) -> dict[str, str]:
    """Return the columns of a foreign table by our names, if each time can only be one of them."""
    try:
        names, _ = table_of(io.StringIO(read_text(path), newline=""))
    except csv.Error:
        return {}
    plain = {name: OTHER_NAMES.get(name.lower(), name.lower()) for name in names}
    known = [(time_named(name)[0] or plain[name], name) for name in names]
    fields = dict(known)
    ours = [one for one, _ in known]
    has_times = "duration" in fields or {"started", "finished"} <= fields.keys()
    is_own = {*csv_table.REQUIRED} & {*names}
    if is_own or not has_times or any(ours.count(one) > 1 for one in (*INSTANTS, "duration")):
        return {}
    return fields if "submitted" in fields else {}


def _check(fields: Mapping[str, str], header: list[str], path: Path) -> None:
    if "submitted" not in fields:
        raise TraceError(
            f"{path}: found no column for submitted; allowed: --column submitted=NAME, one of "
            f"{', '.join(header):.300}"
        )
    if "duration" not in fields and not {"started", "finished"} <= fields.keys():
        raise TraceError(
            f"{path}: found no column for duration, nor for both started and finished; allowed: "
            f"--column duration=NAME, one of {', '.join(header):.300}"
        )


def _job(
    given: dict[str, str], units: dict[str, str], clocks: dict[str, bool], where: str
) -> dict[str, Any] | str:
    """Return a row as a job's fields, or why it is left out.

    ``clocks``: by column, whether the rows above have dates; numbers among dates are refused.
    """
    times: dict[str, float] = {}
    for ours in INSTANTS:
        if text := given.get(ours):
            times[ours], is_date = _converted(_instant, text, units[ours], f"{where}: {ours}")
            if clocks.setdefault(ours, is_date) != is_date:
                above = "dates" if clocks[ours] else "seconds of the trace's own time"
                raise TraceError(
                    f"{where}: {ours}: found {text!r:.60} below {above}; allowed: {above}"
                )
    spans = {
        ours: _converted(span_of, text, units[ours], f"{where}: {ours}")
        for ours in SPANS
        if (text := given.get(ours))
    }
    times |= {ours: spans[ours] for ours in spans if ours == "duration"}
    if "submitted" not in times:
        return "without an arrival"
    if "wait" in spans:
        times.setdefault("started", times["submitted"] + max(0.0, spans["wait"]))
    if "declared_time" in spans:
        given |= {"declared_time": repr(spans["declared_time"])}
    if "duration" not in times:
        if not {"started", "finished"} <= times.keys():
            return "never ran, or had not ended"
        times["duration"] = times["finished"] - times["started"]
    if times["duration"] < 0:
        return "ended before the start"
    job: dict[str, Any] = {"arrived_at": times["submitted"], "service_time": times["duration"]}
    attributes = {}
    for ours, text in given.items():
        column = ours if ours in COLUMNS else f"{ours}_s"
        if not text or ours in times or ours == "wait":
            continue
        if ours == "id":
            job["id"] = text
        elif column not in COLUMNS:
            attributes[ours] = text
        else:
            job[COLUMNS[column]] = value_of(column, text, where, ours)
    if attributes:
        job["attributes"] = attributes
    job["recorded"] = _attempt(given, times)
    return job


def _is_dated(times: Mapping[str, float]) -> bool:
    return times["submitted"] >= CALENDAR


def _attempt(given: dict[str, str], times: dict[str, float]) -> Attempt:
    """Return what the row says of the attempt; without a start its wait is not known."""
    # instants of another clock than the arrival's tell nothing
    here = {name: at for name, at in times.items() if (at >= CALENDAR) == _is_dated(times)}
    started_at = here.get("started")
    finished_at = here.get("finished")
    if finished_at is None and started_at is not None:
        finished_at = started_at + times["duration"]
    return Attempt(
        id=given.get("id", ""),
        submitted_at=times["submitted"],
        eligible_at=times["submitted"],
        started_at=started_at,
        finished_at=finished_at,
        result=result_of(given.get("result", ""), started_at, finished_at),
        runner=given.get("runner", ""),
    )


def _converted(convert: Callable[[str, str], T], text: str, unit: str, where: str) -> T:
    try:
        return convert(text, unit)
    except ValueError as error:
        raise TraceError(f"{where}: found {text!r:.60}; allowed: {error}") from None


def _records(jobs: list[dict[str, Any]]) -> Records:
    arrived = np.array([job.pop("arrived_at") for job in jobs])
    service = np.array([job.pop("service_time") for job in jobs])
    recorded: list[Attempt] = [job.pop("recorded") for job in jobs]
    if arrived.min() >= CALENDAR or arrived.min() < 0:
        arrived = arrived - arrived.min()
    ids = [job.pop("id", "") for job in jobs]
    distinct = all(ids) and len(set(ids)) == len(ids)
    notes = ("ids not used, as they are not distinct: jobs are numbered",) if any(ids) else ()
    return Records(
        arrived,
        service,
        ids if distinct else None,
        columns_of(jobs),
        notes=() if distinct else notes,
        happened=Happened.of(recorded) if any(one.started_at for one in recorded) else None,
    )


def _instant(text: str, unit: str) -> tuple[float, bool]:
    """Return an instant in seconds, and whether it is of the calendar; ValueError: allowed ones."""
    try:
        number = float(text)
    except ValueError:
        return _calendar(text), True
    if not math.isfinite(number):
        raise ValueError("a finite number, or a time as 2026-11-02T09:00:00Z")
    seconds = in_seconds(number, unit)
    return seconds, seconds >= CALENDAR


def _calendar(text: str) -> float:
    try:
        time = time_of(text)
    except ValueError as error:
        what = str(error)
        raise ValueError(what if "there is" in what else f"a number, or {what}") from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
