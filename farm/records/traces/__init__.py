"""Traces: recorded jobs, in files that a workload plays. One file per format; the registry is here.

To add a format: a module with ``read(path) -> Records`` and one line in ``FORMATS``.
Readers raise TraceError, which names the record or line, for any problem of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from farm.core.errors import TraceError, not_among
from farm.records.traces import (
    batsim,
    bundle,
    firefox_ci,
    foreign_table,
    swf,
    taskcluster,
)
from farm.records.traces.records import Records, selected, widened
from farm.scenario.workload import TraceOptions


class Format(NamedTuple):
    """A trace format: how it is read, and the file names that it is guessed from."""

    read: Callable[[Path], Records]
    endings: tuple[str, ...]
    #: reads it with the option ``fields``, which maps parts of a job to parts of the file
    read_mapped: Callable[[Path, Mapping[str, str]], Records] | None = None


FORMATS: dict[str, Format] = {
    "firefox-ci": Format(firefox_ci.read, (".dat",)),
    "swf": Format(swf.read, (".swf", ".swf.gz"), swf.read),
    "csv": Format(foreign_table.read_own, (".csv", ".csv.gz"), foreign_table.read),
    "taskcluster": Format(taskcluster.read, ("datastore.json",)),
    "batsim": Format(batsim.read, (".json", ".json.gz")),
    "bundle": Format(bundle.read, ()),
}


def read_records(path: Path, given: str | None, options: TraceOptions) -> Records:
    """Return the selected records of a trace file, as arrays; ``given``: its format, if any."""
    name = format_of(path, given)
    known = FORMATS[name]
    if not options.fields:
        found = known.read(path)
    elif known.read_mapped is not None:
        found = known.read_mapped(path, options.fields)
    else:
        able = ", ".join(other for other, one in FORMATS.items() if one.read_mapped)
        raise TraceError(
            f"{path}: fields (--column): found with format {name}; allowed: with {able}"
        )
    return widened(selected(found, options), options, str(path))


def format_of(path: Path, given: str | None) -> str:
    """Return the name of a trace's format, given or guessed; TraceError for an unknown one."""
    if given is None:
        if path.is_dir():
            return "bundle"
        for name, known in FORMATS.items():
            if path.name.lower().endswith(known.endings):
                return name
        raise TraceError(f"{path}: format: cannot be guessed; allowed: {', '.join(FORMATS)}")
    if given not in FORMATS:
        raise TraceError(f"{path}: format: {not_among(given, FORMATS)}")
    return given


__all__ = ["FORMATS", "Format", "Records", "format_of", "read_records"]
