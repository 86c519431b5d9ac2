"""The table of a run's jobs as files and users see it: the public columns, by their names there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from farm.columns import Array, Coded, Floats, Rows
from farm.core.errors import InputError, not_among
from farm.core.fields import json_name
from farm.results.table.job_columns import (
    MARKED,
    NAMES_IN_FILES,
    PUBLIC,
    Jobs,
    RecordedColumns,
)
from farm.results.table.recorder import RunRecords

AT_ONCE = 4096
"""Rows that are made, written and read together."""


class ColumnTable:
    """Named columns of one length, for users: NumPy arrays of numbers (NaN: no value) or texts."""

    #: what a row is, for messages
    rows_are = "rows"

    def __init__(self, columns: Mapping[str, Array]) -> None:
        self._columns = columns

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in the order of their file."""
        return tuple(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, column: str) -> Array:
        try:
            return self._columns[column]
        except KeyError:
            raise InputError(
                f"{self.rows_are}: column: {not_among(column, self._columns)}"
            ) from None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        lists = [column.tolist() for column in self._columns.values()]
        return (dict(zip(self._columns, row, strict=True)) for row in zip(*lists, strict=True))

    def has(self, column: str) -> bool:
        """Return whether there is such a column."""
        return column in self._columns

    def parts(self, column: str) -> Sequence[Coded | Array]:
        """Return a column in pieces as they are held: values that repeat as numbers for them."""
        return [self[column]]

    def to_dict(self) -> dict[str, Array]:
        """Return the columns as a dict."""
        return dict(self._columns)

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``. Raises InputError if pandas is not installed."""
        return _library("pandas").DataFrame(self.to_dict())

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame``. Raises InputError if polars is not installed."""
        return _library("polars").DataFrame(self.to_dict())

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table``. Raises InputError if pyarrow is not installed."""
        return _library("pyarrow").table(self.to_dict())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Pass the table to any library that reads Arrow streams (needs pyarrow)."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


class JobTable(ColumnTable):
    """The jobs of a run, one row each, with the columns of jobs.csv.

    ``len(table)`` is the number of jobs, ``table["waiting_time_s"]`` a NumPy array of floats (NaN
    where there is no value) or strings. Iterating yields a dict for each job.

    >>> jobs = farm.simulate("quickstart").jobs
    >>> len(jobs), jobs.columns[:2], float(jobs["waiting_time_s"].min())
    (655, ('job_id', 'matrix'), 0.0)
    >>> sorted({job["platform"] for job in jobs})
    ['amd64/virtual', 'win10-64/virtual']
    """

    rows_are = "jobs"

    def __len__(self) -> int:
        # a run's columns are made at their first use: its names, which are first, take long
        by = "submitted_at_s" if "submitted_at_s" in self._columns else next(iter(self._columns))
        return len(self._columns[by])

    def parts(self, column: str) -> Sequence[Coded | Array]:
        """Return a column in pieces as they are held: values that repeat as numbers for them."""
        if isinstance(self._columns, ColumnsOf):
            return self._columns.parts(column)
        return super().parts(column)

    def __repr__(self) -> str:
        return f"<farm.JobTable: {len(self):,} jobs, columns {', '.join(self.columns)}>"

    @property
    def arrived_at(self) -> Floats:
        """The intended arrivals, from which response times count, seconds."""
        arrived_at = self["finished_at_s"] - self["response_time_s"]
        return np.where(np.isnan(arrived_at), self["submitted_at_s"], arrived_at)

    @property
    def waits_since(self) -> Floats:
        """The releases, from which waiting times count, seconds; NaN: there was none."""
        return self["released_at_s"] if "released_at_s" in self._columns else self.arrived_at

    def counted(self, column: str) -> Floats:
        """Return a column of numbers, NaN for the jobs that the summary leaves out of it.

        A cancelled job was not served: if it started, only its waiting time counts.
        """
        left_out = (self["outcome"] == "cancelled") & (column != "waiting_time_s")
        return np.where(left_out, np.nan, self[column])

    def taken(self, rows: Rows) -> JobTable:
        """Return the table of some rows, by flags or by numbers."""
        return JobTable({name: column[rows] for name, column in self._columns.items()})


class ColumnsOf(Mapping[str, Array]):
    """The public columns of some tables together; each is made at its first use."""

    def __init__(self, *tables: Jobs) -> None:
        self._tables = [table for table in tables if len(table)] or tables[:1]
        self._made: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._made:
            self._made[name] = np.concatenate(list(map(_plain, self.parts(name))))
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        field = FIELDS.get(str(name))
        return field is not None and all(
            getattr(table, field) is not None for table in self._tables
        )

    def parts(self, name: str) -> Sequence[Coded | Array]:
        """Return a column of each table. Raises KeyError where one has no such column."""
        parts = [getattr(table, FIELDS[name]) for table in self._tables]
        if any(part is None for part in parts):
            raise KeyError(name)
        return parts

    def __iter__(self) -> Iterator[str]:
        return (
            name
            for name, field in FIELDS.items()
            if all(getattr(table, field) is not None for table in self._tables)
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"{name} is not installed; allowed: pip install {name}") from None


def joined(tables: Iterable[JobTable]) -> JobTable:
    """Return one table of the rows of all these, with the columns that all of them have."""
    parts = list(tables)
    filled = [part.to_dict() for part in parts if len(part)] or [[*parts, EMPTY][0].to_dict()]
    common = [name for name in filled[0] if all(name in part for part in filled)]
    return JobTable({name: np.concatenate([part[name] for part in filled]) for name in common})


def table_of(records: RunRecords, fair_share: Sequence[str]) -> JobTable:
    """Return a run's table: jobs in order of ending; those that never ended come last.

    ``fair_share`` names the attributes whose values, joined by ``/``, are the invocation.
    """
    charged = records.having(fair_share=fair_share)
    return JobTable(ColumnsOf(charged.jobs, charged.lost))


def tables_of(records: RunRecords, fair_share: Sequence[str] = ()) -> Iterator[JobTable]:
    """Yield the same table in parts."""
    charged = records.having(fair_share=fair_share)
    for jobs in (charged.jobs, charged.lost):
        for begin in range(0, len(jobs), AT_ONCE):
            yield JobTable(ColumnsOf(jobs.taken(slice(begin, begin + AT_ONCE))))
    yield EMPTY


def _plain(column: Coded | Array) -> Array:
    """Return a column without numbers for values."""
    if isinstance(column, Coded):
        return column.texts()
    return column.astype(np.str_) if column.dtype == np.object_ else column


FIELDS = {NAMES_IN_FILES.get(name, json_name(name)): name for name in PUBLIC}
"""The columns of a table of jobs, by their names in files."""
EMPTY = JobTable(ColumnsOf(Jobs.of(())))
"""A table of no jobs, with the types of the columns."""
RECORDED = RecordedColumns(
    np.zeros(0), np.zeros(0), Coded(np.arange(0), ()), Coded(np.arange(0), ())
)
_ALL = ColumnsOf(Jobs.of((), recorded=RECORDED, recorded_row=np.arange(0), has_needs=True))
TYPES = {name: column.dtype for name, column in _ALL.items() if name not in MARKED}
"""The types of all columns that a run may have, but for fields of the user's own."""
COLUMNS = tuple(name for name in EMPTY.columns if name not in MARKED)
"""The columns of every run, in order (docs/reference/results.md)."""
