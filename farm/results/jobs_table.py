"""``jobs.csv``: one row per job."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TextIO

import msgspec
from msgspec.structs import astuple

from farm.core.commands import EndJob
from farm.core.errors import InputError, file_access
from farm.core.model import Job, Outcome, Platform
from farm.results.json_names import json_name
from farm.results.summary.records import RunRecords

AT_ONCE = 4096
"""Rows that are written together."""


class JobRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One row of jobs.csv; the columns are these fields, in this order. None is an empty cell.

    ``outcome`` is succeeded, failed, cancelled, or lost if the job had not ended when the run
    did. ``builder`` and the instants are those of the last attempt.
    """

    job_id: str
    matrix: str
    invocation: str
    platform: str
    kind: str
    submitted_at: float
    dispatched_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    outcome: Outcome | Literal["lost"]
    attempts: int
    builder: str
    #: started - arrived, at least 0; None: never started
    waiting_time: float | None = None
    #: finished - started; None: not running when it ended
    service_time: float | None = None
    #: finished - arrived
    response_time: float | None = None
    #: response time ÷ service time alone on a builder of speed 1
    stretch: float | None = None
    declared_time: float | None = None
    #: the first dispatch estimate, as an instant
    estimated_dispatch_at: float | None = None
    #: the job's fields that are marked as a ``Column``, in order (as text when read back)
    more: tuple[Any, ...] = ()

    @property
    def arrived_at(self) -> float:
        """The intended arrival, from which the response time counts."""
        if self.finished_at is None or self.response_time is None:
            return self.submitted_at
        return self.finished_at - self.response_time


_FIELDS = JobRow.__struct_fields__[:-1]
_MARKED = tuple(
    field.name
    for field in msgspec.structs.fields(Job)
    if any((meta.extra or {}).get("jobs_csv") for meta in getattr(field.type, "__metadata__", ()))
)
COLUMNS = tuple(map(json_name, _FIELDS))
#: the columns of ``JobRow.more``, after the others
MORE_COLUMNS = tuple(map(json_name, _MARKED))
#: the numeric columns
_NUMBERS = (*range(5, 9), *range(12, 18))
OPTIONAL_COLUMNS = frozenset(
    json_name(field.name)
    for field in msgspec.structs.fields(JobRow)
    if field.type == (float | None)
)


def job_rows(records: RunRecords, fair_share: Sequence[str] = ()) -> Iterator[JobRow]:
    """Yield a row for every submitted job, in order of ending; those that never ended come last.

    ``fair_share`` names the attributes whose values, joined by ``/``, are the invocation.
    """
    for end in records.ends:
        yield _ended_row(end, fair_share, records.estimates.get(end.job.id))
    for job, submitted_at in records.unended:
        estimate = records.estimates.get(job.id)
        story = {"outcome": "lost", "attempts": 0, "builder": ""}
        yield _row_of(job, submitted_at, fair_share, estimate, **story)


def invocation_of(attributes: Mapping[str, str], fair_share: Sequence[str]) -> str:
    """Return the invocation to which jobs with these attributes are charged.

    It is their fair-share path, or their team and user if there is none.
    """
    if not attributes:
        return ""
    keys = fair_share or ("team", "user")
    return "/".join([attributes[key] for key in keys if key in attributes])


def write_jobs(path: Path | str, rows: Iterable[JobRow]) -> int:
    """Write rows as CSV with a header; return their number."""
    rows, count = iter(rows), 0
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*COLUMNS, *MORE_COLUMNS])
        while some := list(islice(rows, AT_ONCE)):
            columns: list[Any] = list(zip(*map(astuple, some), strict=True))
            for place in _NUMBERS:
                columns[place] = _printed(columns[place])
            more = zip(*columns.pop(), strict=True)
            writer.writerows(zip(*columns, *more, strict=True))
            count += len(some)
    return count


def _printed(numbers: Sequence[float | None]) -> list[str]:
    """Return numbers as csv prints them, many times as fast; None is empty."""
    return msgspec.json.encode(numbers).decode()[1:-1].replace("null", "").split(",")


def read_jobs(path: Path | str) -> Iterator[JobRow]:
    """Yield the rows of a jobs.csv. Raises InputError with the line number."""
    path = Path(path)
    with file_access(path, "read the jobs"):
        file = path.open(newline="", encoding="utf-8")
    with file:
        lines = _lines(path, file)
        _, header = next(lines, (1, []))
        if tuple(header[: len(COLUMNS)]) != COLUMNS:
            raise InputError(
                f"{path}, line 1: the columns are {', '.join(header) or 'missing'}; "
                f"expected {', '.join(COLUMNS)}"
            )
        for line, cells in lines:
            if len(cells) != len(header):
                wrong = f"{len(cells)} cells; expected {len(header)}"
                raise InputError(f"{path}, line {line}: {wrong}")
            yield _row(path, line, cells)


def _lines(path: Path, file: TextIO) -> Iterator[tuple[int, list[str]]]:
    """Yield each row's cells, with the number of its (last) line."""
    reader = csv.reader(file)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except UnicodeDecodeError:  # it is decoded in blocks: which line it was is not known
        raise InputError(f"{path}, after line {reader.line_num}: not UTF-8 text") from None
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not a table: {error}") from None


def _row(path: Path, line: int, cells: list[str]) -> JobRow:
    values: dict[str, Any] = dict(zip(_FIELDS, cells, strict=False))
    values["more"] = tuple(cells[len(COLUMNS) :])
    for name, column in zip(_FIELDS, COLUMNS, strict=True):
        if column in OPTIONAL_COLUMNS and values[name] == "":
            values[name] = None
    try:
        return msgspec.convert(values, JobRow, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}, line {line}: {error}") from None


@lru_cache(maxsize=1024)
def _platform_name(platform: Platform) -> str:
    return str(platform)


def _ended_row(end: EndJob, fair_share: Sequence[str], estimate: float | None) -> JobRow:
    job, started_at, finished_at = end.job, end.started_at, end.finished_at
    arrived_at = job.arrival(end.submitted_at)
    response = finished_at - arrived_at
    return _row_of(
        job,
        end.submitted_at,
        fair_share,
        estimate,
        dispatched_at=end.dispatched_at,
        started_at=started_at,
        finished_at=finished_at,
        outcome=end.outcome,
        attempts=end.attempts,
        builder=end.builder or "",
        waiting_time=None if started_at is None else max(0.0, started_at - arrived_at),
        service_time=finished_at - started_at if end.builder and started_at is not None else None,
        response_time=response,
        stretch=response / job.service_time if job.service_time > 0 else None,
    )


def _row_of(
    job: Job, submitted_at: float, fair_share: Sequence[str], estimate: float | None, **story: Any
) -> JobRow:
    return JobRow(
        job_id=job.id,
        matrix=job.matrix or "",
        invocation=invocation_of(job.attributes, fair_share),
        platform=_platform_name(job.platform),
        kind=job.kind,
        submitted_at=submitted_at,
        declared_time=job.declared_time,
        estimated_dispatch_at=estimate,
        more=tuple([getattr(job, name) for name in _MARKED]) if _MARKED else (),
        **story,
    )
