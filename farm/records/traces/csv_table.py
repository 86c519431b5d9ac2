"""``csv``: the project's table of jobs, which ``farm import`` writes. A run's jobs.csv is one too.

The first line names the columns. ``submitted_at_s`` and ``service_time_s`` are required; the others
may be left out, and so may their values: ``job_id`` (unique), ``declared_time_s``, ``platform``
(``amd64/virtual``, ``any/native``), ``kind``, ``matrix``, ``level``, ``score``, ``priority``,
``size``, ``action``, ``heavy``, ``memory_heavy``, ``fails`` (true or false), ``mode``, ``threads``,
``attributes`` (a JSON object of texts). Without ``fails``, ``outcome`` decides which failed.
With ``outcome``, jobs without a service time never ran: they are left out. Unknown columns are
ignored, unless they look like a known one misspelt.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from shlex import quote
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET
from msgspec.structs import astuple, replace

from farm.core.errors import TraceError, did_you_mean, nearest
from farm.core.fields import FieldError, json_name
from farm.core.model import JOB_FIELDS, Job, Platform
from farm.csv_cells import as_given, harmless
from farm.records.coded import Coded, columns_of
from farm.records.columns import result_of
from farm.records.content import read_text
from farm.records.traces.records import Happened, Records, Times

_OTHER_NAMES = {"id": "job_id", "arrived_at": "submitted_at_s"}
COLUMNS = {_OTHER_NAMES.get(name) or json_name(name): name for name in JOB_FIELDS}
"""The field of a job that each column holds."""
_LEFT_OUT = [
    # an empty cell is the scenario's platform, and no job's
    msgspec.NODEFAULT if name == "platform" else field.default
    for name, field in JOB_FIELDS.items()
]
"""The value for which a cell is empty, for each column."""
#: how like another name a misspelt one is
LIKE = 0.75
REQUIRED = ("submitted_at_s", "service_time_s")
#: what begins the names of columns that say what came after these
AFTER = ("started", "finished", "dispatched")
#: how other tables call these, and what ``farm import csv --column`` does
OFTEN = {
    "submitted_at_s": ("submitted", ("created", "submit", "queue", "arriv")),
    "service_time_s": ("duration", ("duration", "runtime", "run_time", "run time", "elapsed")),
}
OF_A_RUN = (
    "outcome", "invocation", "dispatched_at_s", "started_at_s", "finished_at_s", "attempts",
    "builder", "waiting_time_s", "response_time_s", "stretch", "estimated_dispatch_at_s",
    "recorded_started_at_s", "recorded_finished_at_s", "recorded_waiting_time_s",
    "recorded_builder", "recorded_outcome",
)  # fmt: skip
RECORDED = ("started_at_s", "finished_at_s", "outcome", "builder")
"""Columns of a run that say what happened to a job in it."""


def read(path: Path) -> Records:
    """Return the jobs of a table; TraceError names the line (from 1) and column that is wrong."""
    if not (text := read_text(path)).strip():
        raise TraceError(f"{path}: is empty; allowed: a line that names the columns, then the jobs")
    try:
        return by_column(text, path)
    except (TraceError, ValueError, KeyError, RecursionError, msgspec.MsgspecError, csv.Error):
        return by_row(text, path)  # which names what is wrong


def by_column(text: str, path: Path) -> Records:
    """Return the jobs of a table, a column at once; raises for whatever is wrong in it."""
    header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    names = [name.strip() for name in header]
    used = dict(found := _used(names, f"{path}:1"))
    rows = [row for row in rows if row]
    if {len(names)} != {*map(len, rows)} or len(used) < len(found):
        raise ValueError("found rows of other lengths, or a column twice")
    count = len(rows)
    if "outcome" in used:
        rows = [row for row in rows if row[used[REQUIRED[1]]]]
    never_ran = count - len(rows)
    columns = {}
    for name, place in used.items():
        cells = list(map(itemgetter(place), rows))
        known = dict.fromkeys(cells)
        values = _values(name, list(known))
        if {*map(id, values)} != {id(UNSET)}:
            places = dict(zip(known, range(len(known)), strict=True))
            codes = np.fromiter(map(places.__getitem__, cells), np.int64, len(cells))
            columns[COLUMNS.get(name, "fails")] = Coded(codes, values)
    arrived, service = (columns.pop(name).mapped(float) for name in ("arrived_at", "service_time"))
    ids = columns.pop("id", Coded.same(UNSET, len(rows))).replaced("").tolist()
    cells = []
    if RECORDED[0] in names:
        cells = [
            [row[names.index(name)] for row in rows] if name in names else [""] * len(rows)
            for name in RECORDED
        ]
    return Records(
        arrived,
        service,
        _unique(ids, path),
        columns,
        left_out={"of jobs that never ran": never_ran} if never_ran else {},
        happened=_happened([(str(path), *one) for one in zip(*cells, strict=True)], arrived)
        if cells
        else None,
    )


def _values(name: str, cells: list[str]) -> list[Any]:
    """Return what distinct cells of a column hold; UNSET: nothing. Raises for what is wrong."""
    cells = list(map(as_given, cells))
    if name == "outcome":
        return [True if cell == "failed" else UNSET for cell in cells]
    if name == "platform":
        return [value_of(name, cell, "", name) if cell else UNSET for cell in cells]
    field = JOB_FIELDS[COLUMNS[name]]
    values = list(map(field.read, [cell for cell in cells if cell or name in REQUIRED]))
    if not all(map(field.limit.holds, values)):
        raise ValueError(name)
    if len(values) < len(cells):
        values.insert(cells.index(""), UNSET)
    return values


def by_row(text: str, path: Path) -> Records:
    """Return the same, row by row: the first of them that is wrong is named."""
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    arrived: list[float] = []
    service: list[float] = []
    ids: list[str] = []
    details: list[dict[str, Any]] = []
    of_run: list[tuple[str, ...]] = []
    never_ran = 0
    try:
        names = [name.strip() for name in next(rows, [])]
        used = _used(names, f"{path}:1")
        is_run = any(name == "outcome" for name, _ in used)
        # a column that is not there is the last one of a row with one more, which is empty
        places = [names.index(name) if name in names else -1 for name in RECORDED]
        cells_of_run = itemgetter(*places) if RECORDED[0] in names else None
        for row in rows:
            where = f"{path}:{rows.line_num}"
            if not row:
                continue
            if len(row) != len(names):
                raise TraceError(
                    f"{where}: found {len(row)} values; the header has {len(names)} columns"
                )
            given = {name: as_given(text) for name, place in used if (text := row[place])}
            fields = _fields(given, where, is_run=is_run)
            if fields is None:
                never_ran += 1
            else:
                if cells_of_run is not None:
                    of_run.append((where, *cells_of_run([*row, ""])))
                arrived.append(fields.pop("arrived_at"))
                service.append(fields.pop("service_time"))
                ids.append(fields.pop("id", ""))
                details.append(fields)
    except csv.Error as error:
        raise TraceError(f"{path}:{rows.line_num}: not a table: {error}") from None
    if not arrived:
        raise TraceError(f"{path}: found no jobs; allowed: at least one line below the header")
    left_out = {"of jobs that never ran": never_ran} if never_ran else {}

    return Records(
        np.array(arrived),
        np.array(service),
        _unique(ids, path),
        columns_of(details),
        left_out=left_out,
        happened=_happened(of_run, np.array(arrived)) if of_run else None,
    )


def _happened(rows: Sequence[tuple[str, ...]], arrived: Times) -> Happened | None:
    """Return what happened to a run's jobs, by their lines and the cells of ``RECORDED``."""
    where, starts, ends, outcomes, builders = zip(*rows, strict=True)
    started = _seconds(starts, RECORDED[0], where)
    finished = _seconds(ends, RECORDED[1], where)
    known = {word: result_of(word, 0.0, 0.0) for word in {*outcomes}}
    results = [known[word] for word in outcomes] if any(outcomes) else None
    return Happened.between(arrived, started, finished, list(map(as_given, builders)), results)


def _seconds(texts: Sequence[str], name: str, where: Sequence[str]) -> Times:
    """Return a column as numbers; absent ones are nan."""
    values = []
    for text, line in zip(texts, where, strict=True):
        try:
            values.append(float(text or "nan"))
        except ValueError:
            raise TraceError(
                f"{line}: {name}: found {text!r:.60}; allowed: a number of seconds"
            ) from None
    return np.array(values)


def write_csv(jobs: Iterable[Job], path: str | Path) -> int:
    """Write jobs as a table that reads back as the same jobs; return their number.

    Numbers are written so that nothing is lost. An unknown arrival counts as 0.
    """
    count = 0
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for job in jobs:
            table.writerow(_row(job if job.arrived_at is not None else replace(job, arrived_at=0)))
            count += 1
    return count


def _row(job: Job) -> list[object]:
    pairs = zip(astuple(job), _LEFT_OUT, strict=False)  # a class of the user may have more fields
    return ["" if value == default else _cell(value) for value, default in pairs]


def _cell(value: object) -> object:
    return (
        msgspec.json.encode(value).decode() if isinstance(value, (bool, dict)) else harmless(value)
    )


def _used(names: list[str], where: str) -> list[tuple[str, int]]:
    """Return the places of the columns that are not ignored."""
    for name in REQUIRED:
        if name not in names:
            ours, often = OFTEN[name]
            theirs = next((n for n in names if any(part in n.lower() for part in often)), None)
            hint = did_you_mean(name, (one for one in names if not one.startswith(AFTER)))
            named = quote(f"{ours}={theirs}") if theirs else f"{ours}=NAME"
            raise TraceError(
                f"{where}: found no column {name}; {hint}required: {', '.join(REQUIRED)}; name the "
                "columns of a foreign table with the trace's fields, or "
                f"farm import csv --column {named}"
            )
    for name in set(names) - {*COLUMNS, *OF_A_RUN}:
        if near := nearest(name, COLUMNS, LIKE):
            raise TraceError(f"{where}: column {name!r:.60}: did you mean {near}?")
    for place, name in enumerate(names):
        if name in COLUMNS and name in names[:place]:
            raise TraceError(f"{where}: found column {name} twice")
    known = (*COLUMNS, *(() if "fails" in names else ("outcome",)))
    return [(name, place) for place, name in enumerate(names) if name in known]


def _fields(given: dict[str, str], where: str, *, is_run: bool) -> dict[str, Any] | None:
    """Return one row as a job's fields; None for a job of a run that never ran."""
    if is_run and "service_time_s" not in given:
        return None
    if given.pop("outcome", "") == "failed":
        given["fails"] = "true"
    fields: dict[str, Any] = {}
    for name in REQUIRED:
        if name not in given:
            raise TraceError(f"{where}: {name}: found nothing; this value is required")
    for name, text in given.items():
        fields[COLUMNS[name]] = value_of(name, text, where, name)
    return fields


def value_of(column: str, text: str, where: str, name: str) -> Any:
    """Return what a cell holds; a TraceError says where it is, and the name of its column."""
    if column == "platform":
        return platform_of(text, f"{where}: {name}") if "/" in text else Platform(text)
    try:
        return JOB_FIELDS[COLUMNS[column]].of_text(text)
    except FieldError as error:
        raise TraceError(f"{where}: {name}: {error}") from None


def platform_of(found: object, where: str) -> Platform:
    """Return the platform that is written; the message of a TraceError begins with ``where``."""
    try:
        return Platform.parse(str(found))
    except ValueError as error:
        raise TraceError(f"{where}: found {found!r:.60}; allowed: {error}") from None


def _unique(ids: list[str], path: Path) -> list[str] | None:
    if not any(ids):
        return None
    seen: set[str] = set()
    for name in ids:
        if not name or name in seen:
            found = f"{name!r:.60} twice" if name else "a job without one"
            raise TraceError(f"{path}: job_id: found {found}; allowed: distinct ids, or no ids")
        seen.add(name)
    return ids
