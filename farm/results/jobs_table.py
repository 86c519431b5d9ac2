"""The table of a run's jobs, with the columns of jobs.csv; it is made from the ends of the jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from farm.core.commands import EndJob
from farm.core.errors import InputError, not_among
from farm.core.model import Job, Platform
from farm.results.json_names import json_name
from farm.results.summary.descriptive_statistics import Floats
from farm.results.summary.job_columns import Flags, Numbers, floats
from farm.results.summary.records import RunRecords

Column = NDArray[Any]

AT_ONCE = 4096
"""Rows that are made, written and read together."""

KINDS: Mapping[str, Any] = {
    "job_id": np.str_,
    "matrix": np.str_,
    "invocation": np.str_,
    "platform": np.str_,
    "kind": np.str_,
    "submitted_at_s": np.float64,
    "dispatched_at_s": np.float64,
    "started_at_s": np.float64,
    "finished_at_s": np.float64,
    "outcome": np.str_,
    "attempts": np.int64,
    "builder": np.str_,
    "waiting_time_s": np.float64,
    "service_time_s": np.float64,
    "response_time_s": np.float64,
    "stretch": np.float64,
    "declared_time_s": np.float64,
    "estimated_dispatch_at_s": np.float64,
}
"""The columns of every run, in order, with their types (docs/reference/results.md)."""
COLUMNS = tuple(KINDS)

#: the fields of a job that are marked as a ``Column``; they follow the others
_MARKED = tuple(
    field.name
    for field in msgspec.structs.fields(Job)
    if any((meta.extra or {}).get("jobs_csv") for meta in getattr(field.type, "__metadata__", ()))
)


class JobTable:
    """The jobs of a run, one row each, with the columns of jobs.csv.

    ``len(table)`` is the number of jobs, ``table["waiting_time_s"]`` a NumPy array of floats (NaN
    where there is no value) or strings. Iterating yields a dict for each job.

    >>> jobs = farm.simulate("quickstart").jobs
    >>> len(jobs), jobs.columns[:2], float(jobs["waiting_time_s"].min())
    (655, ('job_id', 'matrix'), 0.0)
    >>> sorted({job["platform"] for job in jobs})
    ['amd64/virtual', 'win10-64/virtual']
    """

    def __init__(self, columns: dict[str, Column]) -> None:
        self._columns = columns

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in the order of jobs.csv."""
        return tuple(self._columns)

    def __len__(self) -> int:
        return len(self._columns["job_id"])

    def __getitem__(self, column: str) -> Column:
        try:
            return self._columns[column]
        except KeyError:
            raise InputError(f"jobs: column: {not_among(column, self._columns)}") from None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        lists = [column.tolist() for column in self._columns.values()]
        return (dict(zip(self._columns, row, strict=True)) for row in zip(*lists, strict=True))

    def __repr__(self) -> str:
        return f"<farm.JobTable: {len(self):,} jobs, columns {', '.join(self.columns)}>"

    @property
    def arrived_at(self) -> Floats:
        """The intended arrivals, from which response times count, seconds."""
        arrived_at = self["finished_at_s"] - self["response_time_s"]
        return np.where(np.isnan(arrived_at), self["submitted_at_s"], arrived_at)

    def of_served(self, column: str) -> Floats:
        """Return a column of numbers, NaN for cancelled jobs: they were not served."""
        return np.where(self["outcome"] == "cancelled", np.nan, self[column])

    def taken(self, rows: Flags | Numbers | slice) -> JobTable:
        """Return the table of some rows, by flags or by numbers."""
        return JobTable({name: column[rows] for name, column in self._columns.items()})

    def to_dict(self) -> dict[str, Column]:
        """Return the columns as a dict."""
        return dict(self._columns)

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``. Raises InputError if pandas is not installed."""
        return _library("pandas").DataFrame(self._columns)

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame``. Raises InputError if polars is not installed."""
        return _library("polars").DataFrame(self._columns)

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table``. Raises InputError if pyarrow is not installed."""
        return _library("pyarrow").table(self._columns)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Pass the table to any library that reads Arrow streams (needs pyarrow)."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"{name} is not installed; allowed: pip install {name}") from None


def joined(tables: Iterable[JobTable]) -> JobTable:
    """Return one table of the rows of one table or more, which have the same columns."""
    first, *others = tables
    filled = [table for table in (first, *others) if len(table)] or [first]
    return JobTable(
        {name: np.concatenate([table[name] for table in filled]) for name in first.columns}
    )


def tables_of(records: RunRecords, fair_share: Sequence[str] = ()) -> Iterator[JobTable]:
    """Yield a run's table in parts: jobs in order of ending; those that never ended come last.

    ``fair_share`` names the attributes whose values, joined by ``/``, are the invocation.
    """
    for place in range(0, len(records.ends), AT_ONCE):
        ends = records.ends[place : place + AT_ONCE]
        jobs = [(end.job, end.submitted_at) for end in ends]
        yield _table(jobs, records.estimates, fair_share, _lives(ends))
    lost = {"outcome": ["lost"] * len(records.unended)}
    yield _table(records.unended, records.estimates, fair_share, lost)


def invocation_of(attributes: Mapping[str, str], fair_share: Sequence[str]) -> str:
    """Return the invocation to which jobs with these attributes are charged.

    It is their fair-share path, or their team and user if there is none.
    """
    if not attributes:
        return ""
    keys = fair_share or ("team", "user")
    return "/".join([attributes[key] for key in keys if key in attributes])


@lru_cache(maxsize=1024)
def _platform_name(platform: Platform) -> str:
    return str(platform)


def _table(
    submitted: Sequence[tuple[Job, float]],
    estimates: Mapping[str, float | None],
    fair_share: Sequence[str],
    lives: Mapping[str, Any],
) -> JobTable:
    """Return the table of submitted jobs and their ``lives``; what they lack is empty."""
    jobs = [job for job, _ in submitted]
    known = {
        "job_id": [job.id for job in jobs],
        "matrix": [job.matrix or "" for job in jobs],
        "invocation": [invocation_of(job.attributes, fair_share) for job in jobs],
        "platform": [_platform_name(job.platform) for job in jobs],
        "kind": [job.kind for job in jobs],
        "submitted_at_s": [submitted_at for _, submitted_at in submitted],
        "declared_time_s": [job.declared_time for job in jobs],
        "estimated_dispatch_at_s": [estimates.get(job.id) for job in jobs],
        **lives,
    }
    empty = {np.str_: "", np.int64: 0, np.float64: np.nan}
    columns = {
        name: np.array(known[name], kind) if name in known else np.full(len(jobs), empty[kind])
        for name, kind in KINDS.items()
    }
    marked = {json_name(name): np.array([getattr(job, name) for job in jobs]) for name in _MARKED}
    return JobTable(columns | marked)


def _lives(ends: Sequence[EndJob]) -> dict[str, Any]:
    """Return what the ends of jobs say of their lives, by column."""
    arrived_at = floats([end.job.arrival(end.submitted_at) for end in ends])
    started_at, finished_at = floats([e.started_at for e in ends]), [e.finished_at for e in ends]
    response_time = finished_at - arrived_at
    alone = floats([end.job.service_time for end in ends])
    ran = np.array([end.builder is not None for end in ends], np.bool_)
    none = np.full(len(ends), np.nan)
    return {
        "dispatched_at_s": [end.dispatched_at for end in ends],
        "started_at_s": started_at,
        "finished_at_s": finished_at,
        "outcome": [end.outcome for end in ends],
        "attempts": [end.attempts for end in ends],
        "builder": [end.builder or "" for end in ends],
        "waiting_time_s": started_at - arrived_at,
        "service_time_s": np.where(ran, finished_at - started_at, np.nan),
        "response_time_s": response_time,
        "stretch": np.divide(response_time, alone, out=none, where=alone > 0),
    }
