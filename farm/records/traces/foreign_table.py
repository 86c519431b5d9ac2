"""``csv`` from elsewhere: a table whose columns are named by ``fields`` (``--column OURS=THEIRS``).

Other columns are known by their own names, as without a mapping.

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
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC
from itertools import islice
from pathlib import Path

import numpy as np
from msgspec import UNSET

from farm.columns import Array, Coded, Floats, combined
from farm.core.errors import TraceError
from farm.records.attempt import Happened
from farm.records.foreign_columns import (
    CALENDAR,
    MILLISECONDS,
    NEVER,
    NO_VALUE,
    date_of_digits,
    in_seconds,
    is_above_header,
    missing_column,
    numbers_in,
    plain_names,
    result_of,
    separator_of,
    span_of,
    stamps,
    table_of,
    time_of,
    times_named,
    with_recognised,
    with_units,
)
from farm.records.notation import Notation, notation_of, without_endings
from farm.records.reading import FIRST, read_text
from farm.records.sifting import NOISE, refuse_clocks
from farm.records.table_reader import Kind, blocks, gathered
from farm.records.trace_columns import COLUMNS
from farm.records.traces import csv_table
from farm.records.traces.csv_table import value_of
from farm.records.traces.trace_records import Records

Refused = tuple[int, int, str]
"""A row, the place in it, and what is wrong there: the first of them is told."""
ENDED_BEFORE = 3
"""The place of that reason among those for which a row makes no job."""
SPANS = ("duration", "wait", "declared_time")
INSTANTS = ("submitted", "started", "finished")
#: columns that are known by their own names, beside those that are mapped
RECOGNISED = {*INSTANTS, "duration", "wait", "id", "runner", "result", "platform", "kind", "matrix"}


def read(path: Path, fields: Mapping[str, str] | None = None) -> Records:
    """Return the jobs of a table; TraceError names the line and column that is wrong.

    Without ``fields`` it is the project's own, or one of another's whose names say all times.
    """
    text = _table_in(read_text(path))  # once: it may be standard input
    return _by_its_names(path, text) if fields is None else _read(path, text, fields)


def _table_in(text: str) -> str:
    """Return a text without what stands above its table, and without repeated headers."""
    while text and is_above_header("".join(text.partition("\n")[:2])):
        text = text.partition("\n")[2]
    header = text.partition("\n")[0]
    again = f"\n{header}\n"
    while header and again in text:
        text = text.replace(again, "\n")
    return text


def _read(path: Path, text: str, fields: Mapping[str, str]) -> Records:
    if not text.strip():
        raise TraceError(f"{path}: is empty; allowed: a line that names the columns, then the jobs")
    header = _header(text, path)
    if missing := missing_column(fields, header):
        raise TraceError(f"{path}: {missing}")
    fields, mapped = without_endings(fields)
    fields = with_recognised(fields, header, RECOGNISED)
    used, units = with_units(fields)
    _check(used, header, path)
    places = {name: place for place, name in enumerate(header)}
    given, refused = _given({ours: places[theirs] for ours, theirs in used.items()}, text, header)
    given, notation = _plain(given, separator_of(text[:FIRST]), mapped, path)
    times = _times(given, units, refused)
    why = _why_left_out(times)
    rows = np.flatnonzero(why.codes == 0)
    late = times["started"] < times["submitted"] - NOISE
    refuse_clocks(int((late | (why.codes == ENDED_BEFORE)).sum()), len(late), f"{path}: ")
    given = {ours: column[rows] for ours, column in given.items()}
    times = {ours: column[rows] for ours, column in times.items()}
    details = _details(given, times, rows, refused)
    if refused:
        row, _, message = min(refused)
        raise TraceError(f"{path}:{_line(text, row)}: {message}")
    left_out = Counter(why[np.flatnonzero(why.codes)].tolist())
    if not len(rows):
        left = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise TraceError(f"{path}: found no job that can be used" + (f": {left}" if left else ""))
    unused = tuple(name for name in header if name not in fields.values())
    records = _records(given, times, details)
    notes = (*records.notes, *(f"all are {remark}" for remark in notation.remarks))
    return records._replace(left_out=left_out, unused=unused, notes=notes)


def _header(text: str, path: Path) -> list[str]:
    """Return the names of the columns."""
    try:
        return table_of(io.StringIO(text[:FIRST], newline=""))[0]
    except csv.Error as error:
        raise TraceError(f"{path}:1: not a table: {error}") from None


def _given(
    places: Mapping[str, int], text: str, header: list[str]
) -> tuple[dict[str, Coded], list[Refused]]:
    """Return the columns at these places, above what is no row of the table."""
    # what hardly repeats is not looked up
    unlike = {place for ours, place in places.items() if ours in (*INSTANTS, "id")}
    kinds: dict[int, Kind] = {
        place: "texts" if place in unlike else "coded" for place in places.values()
    }
    refused: list[Refused] = []
    try:
        found = gathered(blocks(text, separator_of(text[:FIRST])), lambda _: kinds)
    except (ValueError, csv.Error):
        rows, refused = _rows(text, len(header))
        found = gathered(
            [[list(column) for column in zip(header, *rows, strict=True)]], lambda _: kinds
        )
    columns = {}
    for place in kinds:
        if place in unlike:
            cells = list(map(str.strip, found.texts[place]))
            columns[place] = Coded(np.arange(len(cells)), cells)
        else:
            column = found.coded[place]
            stripped = column.with_values(list(map(str.strip, column.values)))
            columns[place] = stripped.distinct()
    return {ours: columns[place] for ours, place in places.items()}, refused


def _rows(text: str, width: int) -> tuple[list[list[str]], list[Refused]]:
    """Return the rows above what is none, those that are short with empty cells."""
    kept: list[list[str]] = []
    _, rows = table_of(io.StringIO(text, newline=""))
    refused: list[Refused] = []
    try:
        kept.extend(filter(None, rows))
    except csv.Error as error:
        refused.append((len(kept), 0, f"not a table: {error}"))
    for row in kept:
        if len(row) == width + 1 and not row[-1]:
            row.pop()  # each row ends with a separator
    long = next((place for place, row in enumerate(kept) if len(row) > width), None)
    if long is not None:
        refused = [(long, 0, "more values than the header has columns")]
        del kept[long:]
    return [row + [""] * (width - len(row)) for row in kept], refused


def _line(text: str, row: int) -> int:
    """Return the number of the line on which a row ends."""
    _, rows = table_of(io.StringIO(text, newline=""))
    with suppress(csv.Error):
        next(islice(filter(None, rows), row, None), None)
    return rows.line_num


def _by_its_names(path: Path, text: str) -> Records:
    if not (fields := _named(text)):
        return csv_table.read(path, text)
    found = _read(path, text, fields)
    names = ", ".join(f"{theirs} is {ours}" for ours, theirs in fields.items() if ours != theirs)
    return found._replace(notes=(*found.notes, f"by its names: {names}")) if names else found


def _named(text: str) -> dict[str, str]:
    """Return the columns of a foreign table by our names, if each time can only be one of them."""
    try:
        names, _ = table_of(io.StringIO(text[:FIRST], newline=""))
    except csv.Error:
        return {}
    plain = plain_names(names)
    known = [(time or plain[name], name) for name, (time, _) in times_named(names).items()]
    fields = dict(known)
    # a job arrives in the queue when it may start
    if "eligible" in fields:
        fields["submitted"] = fields.pop("eligible")
    ours = [one for one, _ in known]
    has_times = "duration" in fields or {"started", "finished"} <= fields.keys()
    is_own = {*csv_table.REQUIRED} & {*names}
    if is_own or not has_times or any(ours.count(one) > 1 for one in (*INSTANTS, "duration")):
        return {}
    return fields if "submitted" in fields else {}


def _plain(
    given: dict[str, Coded], separator: str, mapped: Notation, path: Path
) -> tuple[dict[str, Coded], Notation]:
    """Return the columns with dates and numbers of times as they are read, and how they were."""
    times = {ours: column for ours, column in given.items() if ours in (*INSTANTS, *SPANS)}
    try:
        notation = notation_of(
            {ours: time.values for ours, time in times.items()}, separator, mapped
        )
    except ValueError as error:
        raise TraceError(f"{path}: {error}") from None
    if notation == Notation():
        return given, notation
    plain = {
        ours: time.with_values(
            list(map(notation.instant if ours in INSTANTS else notation.plain, time.values))
        )
        for ours, time in times.items()
    }
    return {**given, **plain}, notation


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


def _times(
    given: Mapping[str, Coded], units: Mapping[str, str], refused: list[Refused]
) -> dict[str, Floats]:
    """Return the times of all rows, seconds, also those that follow from others; nan: none.

    A column has dates, or numbers of the trace's own time: what differs from the first is refused.
    """
    times = {
        ours: _column(given[ours], ours, units[ours], order, refused)
        for order, ours in enumerate((*INSTANTS, *SPANS), 1)
        if ours in given
    }
    submitted = times["submitted"]
    started, finished, wait, duration = (
        times.get(ours, np.full(len(submitted), np.nan))
        for ours in ("started", "finished", "wait", "duration")
    )
    started = np.where(np.isnan(started), submitted + np.maximum(wait, 0.0), started)
    duration = np.where(np.isnan(duration), finished - started, duration)
    return {**times, "started": started, "finished": finished, "duration": duration}


def _column(column: Coded, ours: str, unit: str, order: int, refused: list[Refused]) -> Floats:
    """Return a column as seconds; what follows its first wrong value is not read."""
    is_given = [text.lower() not in NO_VALUE for text in column.values]
    texts = [text for text, known in zip(column.values, is_given, strict=True) if known]
    is_instant = ours in INSTANTS

    def refuse(text: str, why: str) -> None:
        row = int(np.argmax(column.codes == column.values.index(text)))
        refused.append((row, order, f"{ours}: found {text!r:.60}{why}"))

    found = (_instants if is_instant else numbers_in)(texts, unit) if texts else np.zeros(0)
    if found is None:  # they are of several forms, or one is wrong
        each: list[float] = []
        for text in texts:
            try:
                each.append((_instant if is_instant else span_of)(text, unit))
            except ValueError as error:
                refuse(text, f"; allowed: {error}")
                break
        found = np.array(each, np.float64)
    if is_instant and (found >= CALENDAR).any():
        # beside dates, 0 and -1 are how some programs write that there is none
        found = np.where(found <= 0, np.nan, found)
    if is_instant and not (found[~np.isnan(found)] >= CALENDAR).all():
        dated = (found >= CALENDAR).tolist()
        if numbers_in(texts[: len(found)], "") is None:
            dated = [late or not _is_number(text) for late, text in zip(dated, texts, strict=False)]
        if dated and (not dated[0]) in dated:
            above = "dates" if dated[0] else "seconds of the trace's own time"
            refuse(texts[dated.index(not dated[0])], f" below {above}; allowed: {above}")
    values = np.full(len(column.values), np.nan)
    values[np.flatnonzero(is_given)[: len(found)]] = found
    return values[column.codes]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _why_left_out(times: Mapping[str, Floats]) -> Coded:
    """Return why each row makes no job; empty: it does."""
    wrong = [np.isnan(times["submitted"]), np.isnan(times["duration"]), times["duration"] < 0]
    reasons = ("without an arrival", "never ran, or had not ended", "ended before the start")
    return Coded(np.select(wrong, [1, 2, ENDED_BEFORE]), ("", *reasons))


def _details(
    given: Mapping[str, Coded], times: Mapping[str, Floats], rows: Array, refused: list[Refused]
) -> dict[str, Coded]:
    """Return the further fields of the jobs; UNSET: nothing is given."""
    found: dict[str, Coded] = {}
    others: dict[str, Coded] = {}
    for order, ours in enumerate(given, len((*INSTANTS, *SPANS, ""))):
        column = given[ours]
        name = ours if ours in COLUMNS else f"{ours}_s"
        if ours in (*INSTANTS, "duration", "wait"):
            continue
        if ours == "id":
            _put(found, "id", column.with_values([text or UNSET for text in column.values]))
            continue
        if name not in COLUMNS:
            others[ours] = column
            continue
        if ours == "declared_time":
            each = times[ours].tolist()
            column = Coded.of(["" if math.isnan(time) else repr(time) for time in each])
        known = column.as_they_appear()
        values: list[object] = [UNSET] * len(known.values)
        for place, text in enumerate(known.values):
            try:
                if text:
                    values[place] = value_of(name, text, "", ours)
            except TraceError as error:
                row = int(rows[np.argmax(known.codes == place)])
                refused.append((row, order, str(error).removeprefix(": ")))
                break
        _put(found, COLUMNS[name], known.with_values(values))
    if others:
        firsts, codes = combined(list(others.values()), len(rows))
        texts = zip(*(column[firsts].tolist() for column in others.values()), strict=True)
        rows_named = (zip(others, row, strict=True) for row in texts)
        named = [{ours: text for ours, text in row if text} for row in rows_named]
        _put(found, "attributes", Coded(codes, [one or UNSET for one in named]))
    return found


def _put(found: dict[str, Coded], field: str, column: Coded) -> None:
    """Put a column where it says something; of two for a field the later one counts."""
    if field in found:
        both = zip(column.tolist(), found[field].tolist(), strict=True)
        column = Coded.of([late if late is not UNSET else early for late, early in both])
    if any(value is not UNSET for value in column.values):
        found[field] = column


def _happened(given: Mapping[str, Coded], times: Mapping[str, Floats]) -> Happened | None:
    """Return what the rows say of their attempts; without a start its wait is not known."""
    submitted = times["submitted"]
    # instants of another clock than the arrival's tell nothing
    started, finished = (
        np.where((times[ours] >= CALENDAR) == (submitted >= CALENDAR), times[ours], np.nan)
        for ours in ("started", "finished")
    )
    if not np.nan_to_num(started).any():
        return None
    finished = np.where(np.isnan(finished), started + times["duration"], finished)
    nothing = Coded.same("", len(submitted))
    known = [Coded(np.isnan(at).astype(np.int8), (0.0, None)) for at in (started, finished)]
    columns = [given.get("result", nothing), *known]
    firsts, codes = combined(columns, len(submitted))
    each = zip(*(column[firsts].tolist() for column in columns), strict=True)
    results = Coded(codes, [result_of(*row) for row in each])
    return Happened(started - submitted, finished - started, given.get("runner", nothing), results)


def _records(
    given: Mapping[str, Coded], times: Mapping[str, Floats], details: dict[str, Coded]
) -> Records:
    for field, ours in (("arrived_at", "submitted"), ("service_time", "duration")):
        if field in details:
            _put(own := {field: Coded.of(times[ours].tolist())}, field, details.pop(field))
            times = {**times, f"{ours} given": own[field].mapped(float)}
    arrived = times.get("submitted given", times["submitted"])
    ids = [one or "" for one in details.pop("id", Coded.same("", len(arrived))).tolist()]
    if arrived.min() >= CALENDAR or arrived.min() < 0:
        arrived = arrived - arrived.min()
    distinct = all(ids) and len(set(ids)) == len(ids)
    notes = ("ids not used, as they are not distinct: jobs are numbered",) if any(ids) else ()
    return Records(
        arrived,
        times.get("duration given", times["duration"]),
        ids if distinct else None,
        details,
        notes=() if distinct else notes,
        happened=_happened(given, times),
    )


def _instants(texts: list[str], unit: str) -> Floats | None:
    """Return instants of one form as ``_instant`` does; None: they have several, or one is none."""
    found = numbers_in(texts, unit)
    if found is None:
        made = stamps(texts, _calendar)
        return made if made is None else np.where((made > 0) & (made < NEVER), made, np.nan)
    return found if unit or np.abs(found).max() < MILLISECONDS else None


def _instant(text: str, unit: str) -> float:
    """Return an instant in seconds; ValueError: allowed ones."""
    date = date_of_digits(text)
    if date is not None:
        return _calendar(date)
    try:
        number = float(text)
    except ValueError:
        return at if 0 < (at := _calendar(text)) < NEVER else math.nan
    if not math.isfinite(number):
        raise ValueError("a finite number, or a time as 2026-11-02T09:00:00Z")
    return in_seconds(number, unit)


def _calendar(text: str) -> float:
    try:
        time = time_of(text)
    except ValueError as error:
        what = str(error)
        raise ValueError(what if "there is" in what else f"a number, or {what}") from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
