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
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import astuple, replace

from farm.core.errors import TraceError, did_you_mean, nearest
from farm.core.fields import FieldError, json_name
from farm.core.model import JOB_FIELDS, Job, Platform, Recorded
from farm.scenario.workload import TraceOptions
from farm.workload.traces.content import read_text
from farm.workload.traces.records import Records

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
#: of them, what is kept as ``Recorded``; beside it, and without ``fails``, the outcome
RECORDED = ("started_at_s", "finished_at_s", "builder")
OF_A_RUN = (
    *RECORDED, "outcome", "invocation", "dispatched_at_s", "attempts", "waiting_time_s",
    "response_time_s", "stretch", "estimated_dispatch_at_s", "recorded_started_at_s",
    "recorded_finished_at_s", "recorded_waiting_time_s", "recorded_builder", "recorded_outcome",
)  # fmt: skip


def read(path: Path, options: TraceOptions) -> Records:  # noqa: ARG001 - a reader's signature
    """Return the jobs of a table; TraceError names the line (from 1) and column that is wrong."""
    rows = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    arrived: list[float] = []
    service: list[float] = []
    ids: list[str] = []
    details: list[dict[str, Any]] = []
    recorded: list[Recorded] = []
    never_ran = 0
    try:
        header = _header(next(rows, []), f"{path}:1")
        for row in rows:
            where = f"{path}:{rows.line_num}"
            if not row:
                continue
            fields = _fields(header, row, where)
            if fields is None:
                never_ran += 1
            else:
                arrived.append(fields.pop("arrived_at"))
                service.append(fields.pop("service_time"))
                ids.append(fields.pop("id", ""))
                recorded.append(fields.pop("recorded"))
                details.append(fields)
    except csv.Error as error:
        raise TraceError(f"{path}:{rows.line_num}: not a table: {error}") from None
    if not arrived:
        raise TraceError(f"{path}: found no jobs; allowed: at least one line below the header")
    left_out = {"of jobs that never ran": never_ran} if never_ran else {}
    found = Records(np.array(arrived), np.array(service), _unique(ids, path), details)
    return found._replace(left_out=left_out, recorded=recorded)


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
    return msgspec.json.encode(value).decode() if isinstance(value, (bool, dict)) else value


def _header(row: list[str], where: str) -> list[str | None]:
    """Return the column names, None for ignored ones."""
    names = [name.strip() for name in row]
    for name in REQUIRED:
        if name not in names:
            raise TraceError(
                f"{where}: found no column {name}; {did_you_mean(name, names)}required: "
                f"{', '.join(REQUIRED)}; name the columns of a foreign table with the trace's "
                "fields, or farm import csv --column submitted=NAME"
            )
    for name in set(names) - {*COLUMNS, *OF_A_RUN}:
        if near := nearest(name, COLUMNS, LIKE):
            raise TraceError(f"{where}: column {name!r:.60}: did you mean {near}?")
    for place, name in enumerate(names):
        if name in COLUMNS and name in names[:place]:
            raise TraceError(f"{where}: found column {name} twice")
    known = {*COLUMNS, *RECORDED, "outcome"}
    return [name if name in known else None for name in names]


def _fields(header: list[str | None], row: list[str], where: str) -> dict[str, Any] | None:
    """Return one row as a job's fields; None for a job of a run that never ran."""
    if len(row) != len(header):
        raise TraceError(f"{where}: found {len(row)} values; the header has {len(header)} columns")
    given = {name: value for name, value in zip(header, row, strict=True) if name and value}
    if "service_time_s" not in given and "outcome" in header and "fails" not in header:
        return None
    happened = {name: given.pop(name, "") for name in (*RECORDED, "outcome")}
    if happened["outcome"] == "failed" and "fails" not in header:
        given["fails"] = "true"
    fields: dict[str, Any] = {}
    for name in REQUIRED:
        if name not in given:
            raise TraceError(f"{where}: {name}: found nothing; this value is required")
    for name, text in given.items():
        fields[COLUMNS[name]] = value_of(name, text, where, name)
    fields["recorded"] = _recorded(happened, fields["arrived_at"], where)
    return fields


def _recorded(given: dict[str, str], arrived_at: float, where: str) -> Recorded:
    started_at, finished_at = (
        value_of("submitted_at_s", text, where, name) if (text := given[name]) else None
        for name in ("started_at_s", "finished_at_s")
    )
    return Recorded(
        None if started_at is None else started_at - arrived_at,
        None if started_at is None or finished_at is None else finished_at - started_at,
        given["builder"] or None,
        given["outcome"] or None,
    )


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
