"""``csv``: the project's table of jobs, which ``farm import`` writes. A run's jobs.csv is one too.

The first line names the columns. ``submitted_at_s`` and ``service_time_s`` are required; the others
may be left out, and so may their values: ``job_id`` (unique), ``declared_time_s``, ``platform``
(``amd64/virtual``, ``any/native``), ``kind``, ``matrix``, ``level``, ``score``, ``priority``,
``size``, ``action``, ``heavy``, ``memory_heavy``, ``fails`` (true or false), ``mode``, ``threads``,
``attributes`` (a JSON object of texts), ``needs`` (the ids of other rows, separated by ``;``, each
perhaps with ``:ended`` or ``:failed``), ``needs_delay_s``. Without ``fails``, ``outcome`` decides
which failed. With ``outcome``, jobs without a service time never ran: they are left out. Unknown
columns are ignored, unless they look like a known one misspelt.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET
from msgspec.structs import astuple, replace

from farm.columns import Coded, Floats, Numbers, Rows
from farm.core.errors import TraceError, did_you_mean, nearest
from farm.core.fields import FieldError
from farm.core.jobs.needs import flaw_of_needs, needs_of
from farm.core.model import JOB_FIELDS, Job, Platform
from farm.csv_cells import as_given, harmless
from farm.records.attempt import Happened
from farm.records.foreign_columns import result_of
from farm.records.table_reader import Gathered, Kind, blocks, gathered, numbers_of
from farm.records.trace_columns import COLUMNS, platform_of
from farm.records.traces.trace_records import Records

_LEFT_OUT = [
    # an empty cell is the scenario's platform, and no job's
    msgspec.NODEFAULT if name == "platform" else field.default
    for name, field in JOB_FIELDS.items()
]
"""The value for which a cell is empty, for each column."""
#: how like another name a misspelt one is
LIKE = 0.75
REQUIRED = ("submitted_at_s", "service_time_s")
#: the last columns, which a table has whose jobs need others
OF_NEEDS = ("needs", "needs_delay_s")
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
_KINDS: dict[str, Kind] = {
    "job_id": "texts",
    **dict.fromkeys((*REQUIRED, *RECORDED[:2]), "numbers"),
}


class TableLayout(NamedTuple):
    """Which columns of a table are used, and where they stand in it."""

    #: columns of the jobs, by name
    jobs: dict[str, int]
    #: columns of a run that say what happened to its jobs
    recorded: dict[str, int]

    @classmethod
    def of(cls, names: list[str], where: str) -> TableLayout:
        """Return the layout of a table with these columns; raises TraceError for a wrong name."""
        recorded: dict[str, int] = {}
        if "started_at_s" in names:  # without a start, nothing else happened
            recorded = {name: names.index(name) for name in RECORDED if name in names}
        return cls(_used(names, where), recorded)

    @property
    def kinds(self) -> dict[int, Kind]:
        """How the cells of each column are kept, by its place."""
        places = {**self.jobs, **self.recorded}
        return {place: _KINDS.get(name, "coded") for name, place in places.items()}


def read(path: Path, text: str) -> Records:
    """Return the jobs of a table; TraceError names the line (from 1) and column that is wrong.

    A table is read column by column, which is many times as fast as row by row. That reader only
    takes regular tables, and it cannot say which row is wrong. So whenever it fails, the table is
    read again by rows: either that succeeds, or its error names the row.
    """
    if not text.strip():
        raise TraceError(f"{path}: is empty; allowed: a line that names the columns, then the jobs")
    try:
        return _records(by_column(text), path)
    except (TraceError, ValueError, KeyError, RecursionError, msgspec.MsgspecError, csv.Error):
        return _records(by_row(text, path), path)


def _records(blocks: Iterable[list[list[str]]], path: Path) -> Records:
    """Return the jobs of a table that is read in blocks of rows; raises for whatever is wrong."""
    header = f"{path}:1"
    table = gathered(blocks, lambda names: TableLayout.of(names, header).kinds)
    layout = TableLayout.of(table.names, header)

    rows = _rows_that_ran(table, layout)
    columns = {name: table.numbers[layout.jobs[name]] for name in REQUIRED}
    arrived, service = (_checked(name, column[rows]) for name, column in columns.items())
    never_ran = len(columns["service_time_s"]) - len(service)

    ids = table.texts[layout.jobs["job_id"]] if "job_id" in layout.jobs else []
    every_id = ids
    if never_ran and ids:
        ids = np.array(ids, object)[rows].tolist()
    details = _details(table, layout, rows)
    if "needs" in details:
        lines = np.arange(len(columns["service_time_s"]))[rows] + 2
        _check_needs(path, _given(every_id), _given(ids), arrived, details["needs"], lines)
    happened = None
    if layout.recorded:
        happened = _happened(arrived, table, layout.recorded, rows)
    return Records(
        arrived,
        service,
        _unique(_given(ids), path),
        details,
        left_out={"of jobs that never ran": never_ran},
        happened=happened,
    )


def _rows_that_ran(table: Gathered, layout: TableLayout) -> Rows:
    """Return the rows that make jobs: in a run's table, one without a service time never ran."""
    if "outcome" not in layout.jobs:
        return slice(None)
    has_run = ~np.isnan(table.numbers[layout.jobs["service_time_s"]])
    if has_run.all():
        return slice(None)
    return np.flatnonzero(has_run)


def _details(table: Gathered, layout: TableLayout, rows: Rows) -> dict[str, Coded]:
    """Return the optional fields of the jobs, without the columns that are empty."""
    details = {}
    for name, place in layout.jobs.items():
        if name in (*REQUIRED, "job_id"):
            continue
        column = table.coded[place]
        if not isinstance(rows, slice):  # values of rows that are left out must not be checked
            column = column[rows].as_they_appear()
        values = _values(name, column.values)
        if any(value is not UNSET for value in values):
            field = COLUMNS.get(name, "fails")  # an outcome tells which jobs fail
            details[field] = Coded(column.codes, values)
    return details


def _check_needs(
    path: Path,
    every_id: Sequence[str],
    ids: Sequence[str],
    arrived: Floats,
    needs: Coded,
    lines: Numbers,
) -> None:
    """Raise TraceError for a row that needs what is no row, or one that arrives later.

    ``every_id``: those of rows that are left out, too.
    """
    if not any(ids):
        raise TraceError(f"{path}: needs: found some, and no job_id; allowed: in tables with ids")
    named = set(every_id)
    rows = {name: row for row, name in enumerate(ids)}
    given = needs.with_values([() if one is UNSET else one for one in needs.values]).tolist()
    jobs = [
        Job(id=name, service_time=0.0, needs=one)
        for name, one in zip(ids, given, strict=True)
        if one
    ]
    if (flaw := flaw_of_needs(jobs, named.__contains__)) is not None:
        line = lines[rows[flaw.job.id]]
        raise TraceError(f"{path}:{line}: job {flaw.job.id}: {flaw.why}")
    for job in jobs:
        row = rows[job.id]
        for need in needs_of(job):
            needed = rows.get(need.job)
            if needed is not None and arrived[needed] > arrived[row]:
                raise TraceError(
                    f"{path}:{lines[row]}: job {job.id}: needs: found {need.job}, which arrives at "
                    f"{arrived[needed]:g}s; allowed: jobs that arrive by {arrived[row]:g}s, as "
                    "this one does"
                )


def by_column(text: str) -> Iterator[list[list[str]]]:
    """Yield the columns of some rows at a time; raises where rows differ in length."""
    return blocks(text, ",")


def _checked(name: str, numbers: Floats) -> Floats:
    """Return a column that must have a number in each row; raises for what is wrong."""
    holds = JOB_FIELDS[COLUMNS[name]].limit.holds
    if not (holds(numbers.min()) and holds(numbers.max())):  # so is what lies between
        raise ValueError(name)
    return numbers


def _values(name: str, cells: Sequence[str]) -> list[object]:
    """Return what distinct cells of a column hold; UNSET: nothing. Raises for what is wrong."""
    cells = _given(cells)
    if name == "outcome":
        return [True if cell == "failed" else UNSET for cell in cells]
    if name == "platform":
        return [value_of(name, cell, "", name) if cell else UNSET for cell in cells]
    field = JOB_FIELDS[COLUMNS[name]]
    values: list[object] = list(map(field.read, filter(None, cells)))
    if not all(map(field.limit.holds, values)):
        raise ValueError(name)
    if len(values) < len(cells):
        values.insert(cells.index(""), UNSET)
    return values


def _given(cells: Sequence[str]) -> list[str]:
    if "\n'" not in "\n" + "\n".join(cells):
        return list(cells)
    return list(map(as_given, cells))


def by_row(text: str, path: Path) -> list[list[list[str]]]:
    """Return the columns of any table, in one block; the first row that is wrong is named."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[str]] = []
    has_jobs = False
    try:
        names = [name.strip() for name in next(reader, [])]
        layout = TableLayout.of(names, f"{path}:1")
        # numbers in every row, even in that of a job that never ran
        instants = ["submitted_at_s", *(name for name in RECORDED[:2] if name in layout.recorded)]
        for row in reader:
            if not row:
                continue
            where = f"{path}:{reader.line_num}"
            if len(row) != len(names):
                raise TraceError(
                    f"{where}: found {len(row)} values; the header has {len(names)} columns"
                )
            rows.append(row)
            cells = {
                name: as_given(row[place]) for name, place in layout.jobs.items() if row[place]
            }
            if "outcome" not in layout.jobs or "service_time_s" in cells:
                _check(cells, where)
                has_jobs = True
            for name in instants:
                _check_number(name, row[names.index(name)], where)
    except csv.Error as error:
        raise TraceError(f"{path}:{reader.line_num}: not a table: {error}") from None
    if not has_jobs:
        raise TraceError(f"{path}: found no jobs; allowed: at least one line below the header")
    return [[list(column) for column in zip(names, *rows, strict=True)]]


def _check(given: dict[str, str], where: str) -> None:
    """Raise TraceError for what is wrong with a job's cells."""
    for name in REQUIRED:
        if name not in given:
            raise TraceError(f"{where}: {name}: found nothing; this value is required")
    for name, text in given.items():
        if name != "outcome":
            value_of(name, text, where, name)


def _check_number(name: str, text: str, where: str) -> None:
    try:
        numbers_of([text])
    except ValueError:
        raise TraceError(
            f"{where}: {name}: found {text!r:.60}; allowed: a number of seconds"
        ) from None


def _happened(
    arrived: Floats, found: Gathered, places: Mapping[str, int], rows: Rows
) -> Happened | None:
    """Return what happened to a run's jobs, by its columns ``RECORDED``."""
    nothing = Coded.same("", len(arrived))
    started, finished = (
        found.numbers[places[name]][rows] if name in places else np.full(len(arrived), np.nan)
        for name in RECORDED[:2]
    )
    words, builders = (
        found.coded[places[name]][rows] if name in places else nothing for name in RECORDED[2:]
    )
    results = words.with_values([result_of(word, 0.0, 0.0) for word in words.values])
    outcomes = results if any(words.values) else None
    runners = builders.with_values(_given(builders.values))
    return Happened.between(arrived, started, finished, runners, outcomes)


def write_csv(
    jobs: Iterable[Job],
    path: str | Path,
    happened: Happened | None = None,
    *,
    needs: bool = False,
) -> int:
    """Write jobs as a table that reads back as the same jobs; return their number.

    Numbers are written so that nothing is lost. An unknown arrival counts as 0. What really
    ``happened`` to each job is in the columns ``RECORDED``. ``needs``: the jobs may need others;
    without it there are no columns of that.
    """
    count, recorded = 0, None if happened is None else _cells_of(happened)
    width = len(COLUMNS) if needs else len(COLUMNS) - len(OF_NEEDS)
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([*list(COLUMNS)[:width], *(RECORDED if recorded else ())])
        for job in jobs:
            row = _row(job if job.arrived_at is not None else replace(job, arrived_at=0))[:width]
            if recorded is not None:
                waited, ran, *names = next(recorded)
                started = (job.arrived_at or 0.0) + waited
                ends = started, started + ran
                row += [*("" if math.isnan(at) else at for at in ends), *names]
            table.writerow(row)
            count += 1
    return count


def _cells_of(happened: Happened) -> Iterator[tuple[float, float, str, str]]:
    """Return the wait and the run time of each job (nan: unknown), its result and runner."""
    nothing = Coded.same("", len(happened.ran))
    texts = (
        map(harmless, (one or nothing).tolist()) for one in (happened.results, happened.runners)
    )
    return zip(happened.waited.tolist(), happened.ran.tolist(), *texts, strict=True)


def _row(job: Job) -> list[object]:
    pairs = zip(astuple(job), _LEFT_OUT, strict=False)  # a class of the user may have more fields
    return ["" if value == default else _cell(value) for value, default in pairs]


def _cell(value: object) -> object:
    if isinstance(value, tuple):
        return harmless(";".join(value))
    return (
        msgspec.json.encode(value).decode() if isinstance(value, (bool, dict)) else harmless(value)
    )


def _used(names: list[str], where: str) -> dict[str, int]:
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
    return {name: place for place, name in enumerate(names) if name in known}


def value_of(column: str, text: str, where: str, name: str) -> object:
    """Return what a cell holds; a TraceError says where it is, and the name of its column."""
    if column == "platform":
        return platform_of(text, f"{where}: {name}") if "/" in text else Platform(text)
    try:
        return JOB_FIELDS[COLUMNS[column]].of_text(text)
    except FieldError as error:
        raise TraceError(f"{where}: {name}: {error}") from None


def _unique(ids: list[str], path: Path) -> list[str] | None:
    if not any(ids):
        return None
    if len({*ids}) == len(ids) and all(ids):
        return ids
    seen: set[str] = set()
    for name in ids:
        if not name or name in seen:
            found = f"{name!r:.60} twice" if name else "a job without one"
            raise TraceError(f"{path}: job_id: found {found}; allowed: distinct ids, or no ids")
        seen.add(name)
    return ids
