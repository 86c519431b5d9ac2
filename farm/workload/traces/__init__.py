"""Traces: jobs that were recorded somewhere. One format a file, the registry here.

To add a format: a module with ``read(path, options) -> Records`` and one line in ``FORMATS``.
Readers raise TraceError, which names the record or line, for whatever is wrong with a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from farm.core.errors import TraceError, did_you_mean
from farm.core.model import Job
from farm.scenario.workload import TraceOptions
from farm.workload.traces import csv_table, firefox_ci, swf
from farm.workload.traces.csv_table import write_csv
from farm.workload.traces.jobs import trace_jobs
from farm.workload.traces.records import Records, selected


class Format(NamedTuple):
    """A trace format: how it is read, and the file names that it is guessed from."""

    read: Callable[[Path, TraceOptions], Records]
    endings: tuple[str, ...]


FORMATS: dict[str, Format] = {
    "firefox-ci": Format(firefox_ci.read, (".dat",)),
    "swf": Format(swf.read, (".swf", ".swf.gz")),
    "csv": Format(csv_table.read, (".csv", ".csv.gz")),
}


def read_trace(
    path: str | Path,
    format: str | None = None,  # noqa: A002 - the name that the scenario has for it
    options: TraceOptions | None = None,
) -> Iterator[Job]:
    """Return the jobs of a trace by ascending arrival; the file is read before this returns.

    ``format`` is guessed from the name if absent. Jobs keep the trace's own ids where it has
    unique ones, else they are numbered from 1. Raises TraceError.
    """
    options = options or TraceOptions()
    records = read_records(Path(path), format, options)
    count = len(records.arrived)
    ids = records.ids or [f"{number:06d}" for number in range(1, count + 1)]
    return trace_jobs(records, options, ids)


def read_records(path: Path, format: str | None, options: TraceOptions) -> Records:  # noqa: A002 - the scenario's word
    """Return what the options select of a trace file, as arrays."""
    return selected(FORMATS[format_of(path, format)].read(path, options), options)


def format_of(path: Path, format: str | None) -> str:  # noqa: A002 - the scenario's word
    """Return the name of a trace's format, given or guessed; TraceError if there is none such."""
    if format is None:
        for name, known in FORMATS.items():
            if path.name.lower().endswith(known.endings):
                return name
        raise TraceError(f"{path}: format: cannot be guessed; allowed: {', '.join(FORMATS)}")
    if format not in FORMATS:
        hint = did_you_mean(format, FORMATS)
        raise TraceError(
            f"{path}: format: found {format!r:.60}; {hint}allowed: {', '.join(FORMATS)}"
        )
    return format


__all__ = [
    "FORMATS",
    "Format",
    "Records",
    "format_of",
    "read_records",
    "read_trace",
    "trace_jobs",
    "write_csv",
]
