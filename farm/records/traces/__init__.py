"""Traces: recorded jobs, in files that a workload plays. One file per format; the registry is here.

To add a format: a module with ``read(path, options) -> Records`` and one line in ``FORMATS``.
Readers raise TraceError, which names the record or line, for any problem of a file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from farm.core.errors import TraceError, not_among
from farm.records.traces import batsim, bundle, csv_table, firefox_ci, swf, taskcluster
from farm.records.traces.foreign_table import read_foreign
from farm.records.traces.records import Records, selected, widened
from farm.scenario.workload import TraceOptions


class Format(NamedTuple):
    """A trace format: how it is read, and the file names that it is guessed from."""

    read: Callable[[Path, TraceOptions], Records]
    endings: tuple[str, ...]
    #: whether the option ``fields`` maps parts of a job to parts of the file
    takes_fields: bool = False


def _read_csv(path: Path, options: TraceOptions) -> Records:
    """Return the jobs of the project's own table, or of one whose columns the options name."""
    if options.fields:
        return read_foreign(path, options.fields)
    return csv_table.read(path, options)


FORMATS: dict[str, Format] = {
    "firefox-ci": Format(firefox_ci.read, (".dat",)),
    "swf": Format(swf.read, (".swf", ".swf.gz"), takes_fields=True),
    "csv": Format(_read_csv, (".csv", ".csv.gz"), takes_fields=True),
    "taskcluster": Format(taskcluster.read, ("datastore.json",)),
    "batsim": Format(batsim.read, (".json", ".json.gz")),
    "bundle": Format(bundle.read, ()),
}


def read_records(path: Path, format: str | None, options: TraceOptions) -> Records:  # noqa: A002 - the scenario's word
    """Return the selected records of a trace file, as arrays."""
    name = format_of(path, format)
    if options.fields and not FORMATS[name].takes_fields:
        able = ", ".join(other for other, known in FORMATS.items() if known.takes_fields)
        raise TraceError(
            f"{path}: fields (--column): found with format {name}; allowed: with {able}"
        )
    records = selected(FORMATS[name].read(path, options), options)
    return widened(records, options, str(path))


def format_of(path: Path, format: str | None) -> str:  # noqa: A002 - the scenario's word
    """Return the name of a trace's format, given or guessed; TraceError for an unknown one."""
    if format is None:
        if path.is_dir():
            return "bundle"
        for name, known in FORMATS.items():
            if path.name.lower().endswith(known.endings):
                return name
        raise TraceError(f"{path}: format: cannot be guessed; allowed: {', '.join(FORMATS)}")
    if format not in FORMATS:
        raise TraceError(f"{path}: format: {not_among(format, FORMATS)}")
    return format


__all__ = ["FORMATS", "Format", "Records", "format_of", "read_records"]
