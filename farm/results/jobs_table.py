"""The table of a run's jobs, with the columns of jobs.csv; it is made from the ends of the jobs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from farm.core.commands import EndJob
from farm.core.errors import InputError, not_among
from farm.core.fields import json_name
from farm.core.model import Job
from farm.results.summary.descriptive_statistics import Floats
from farm.results.summary.job_columns import OUTCOMES, Ends, Flags, Numbers, floats
from farm.results.summary.records import RunRecords

Column = NDArray[Any]

AT_ONCE = 4096
"""Rows that are made, written and read together."""

#: the fields of a job that are marked as a ``Column``, by the names of their columns
_MARKED = {
    json_name(field.name): field.name
    for field in msgspec.structs.fields(Job)
    if any((meta.extra or {}).get("jobs_csv") for meta in getattr(field.type, "__metadata__", ()))
}


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

    def counted(self, column: str) -> Floats:
        """Return a column of numbers, NaN for the jobs that the summary leaves out of it.

        A cancelled job was not served: if it started, only its waiting time counts.
        """
        left_out = (self["outcome"] == "cancelled") & (column != "waiting_time_s")
        return np.where(left_out, np.nan, self[column])

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
    """Return one table of the rows of all these, which have the same columns."""
    parts = list(tables)
    filled = [part for part in parts if len(part)] or [*parts, EMPTY][:1]
    return JobTable(
        {name: np.concatenate([part[name] for part in filled]) for name in filled[0].columns}
    )


def tables_of(records: RunRecords, fair_share: Sequence[str] = ()) -> Iterator[JobTable]:
    """Yield a run's table in parts: jobs in order of ending; those that never ended come last.

    ``fair_share`` names the attributes whose values, joined by ``/``, are the invocation.
    """
    for place in range(0, len(records.ends), AT_ONCE):
        yield _table(records.ends[place : place + AT_ONCE], records.estimates, fair_share)
    endless = [
        records.running.get(job.id) or EndJob(job, "cancelled", 0, at, math.nan)
        for job, at in records.unended
    ]
    lost = _table(endless, records.estimates, fair_share)
    lost["outcome"][:] = "lost"
    yield lost


def invocation_of(attributes: Mapping[str, str], fair_share: Sequence[str]) -> str:
    """Return the invocation to which jobs with these attributes are charged.

    It is their fair-share path, or their team and user if there is none.
    """
    if not attributes:
        return ""
    keys = fair_share or ("team", "user")
    return "/".join([attributes[key] for key in keys if key in attributes])


def _table(
    jobs: Sequence[EndJob], estimates: Mapping[str, float | None], fair_share: Sequence[str]
) -> JobTable:
    builders: dict[str, int] = {}
    ends = Ends.of(jobs, builders)
    invocations = [invocation_of(one, fair_share) for one in ends.attributions]
    response_time, alone = ends.finished_at - ends.arrived_at, ends.service_time
    columns = {
        "job_id": np.array([end.job.id for end in jobs], np.str_),
        "matrix": _texts(ends.matrices, ends.matrix),
        "invocation": _texts(invocations, ends.attribution),
        "platform": _texts(ends.platforms, ends.platform),
        "kind": np.array([end.job.kind for end in jobs], np.str_),
        "submitted_at_s": floats([end.submitted_at for end in jobs]),
        "dispatched_at_s": ends.dispatched_at,
        "started_at_s": ends.started_at,
        "finished_at_s": ends.finished_at,
        "outcome": _texts(OUTCOMES, ends.outcome),
        "attempts": ends.attempts,
        "builder": _texts(builders, ends.builder),
        "waiting_time_s": ends.waiting_time,
        "service_time_s": np.where(ends.builder < 0, np.nan, ends.finished_at - ends.started_at),
        "response_time_s": response_time,
        "stretch": response_time / np.where(alone > 0, alone, np.nan),
        "declared_time_s": floats([end.job.declared_time for end in jobs]),
        "estimated_dispatch_at_s": floats([estimates.get(end.job.id) for end in jobs]),
    }
    marked = {
        name: np.array([getattr(end.job, field) for end in jobs]) for name, field in _MARKED.items()
    }
    return JobTable(columns | marked)


def _texts(values: Iterable[object], numbers: Numbers) -> Column:
    """Return the values of these numbers as text; -1: empty."""
    return np.array([*map(str, values), ""])[numbers]


EMPTY = _table((), {}, ())
"""A table of no jobs, with the types of the columns."""
COLUMNS = tuple(name for name in EMPTY.columns if name not in _MARKED)
"""The columns of every run, in order (docs/reference/results.md)."""
