"""Traces: recorded jobs, in files that a workload plays. One file per format; the registry is here.

To add a format: a module with ``read(path) -> Records`` and one line in ``FORMATS``.
Readers raise TraceError, which names the record or line, for any problem of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from farm.core.errors import TraceError, not_among

if TYPE_CHECKING:
    from farm.records.traces.trace_records import Records
    from farm.scenario.workload import TraceOptions


class Format(NamedTuple):
    """A trace format: the module that reads it, and the file names that it is guessed from.

    The module is imported on first use: most commands only name the formats.
    """

    module: str
    endings: tuple[str, ...]
    #: reads it with the option ``fields`` too, which maps parts of a job to parts of the file
    maps: bool = False
    function: str = "read"

    def read(self, path: Path, fields: Mapping[str, str] | None = None) -> Records:
        """Return the records of a file, in its order."""
        read = getattr(import_module(f"{__name__}.{self.module}"), self.function)
        found: Records = read(path, fields) if fields else read(path)
        return found


FORMATS: dict[str, Format] = {
    "firefox-ci": Format("firefox_ci", (".dat",)),
    "swf": Format("swf", (".swf", ".swf.gz"), maps=True),
    "csv": Format("foreign_table", (".csv", ".csv.gz"), maps=True),
    "taskcluster": Format("taskcluster", ("datastore.json",)),
    "batsim": Format("batsim", (".json", ".json.gz")),
    "bundle": Format("bundle", ()),
    "bundle-retries-first": Format("bundle", (), function="read_retries_first"),
    "bundle-without-losses": Format("bundle", (), function="read_without_losses"),
}


def read_records(path: Path, given: str | None, options: TraceOptions) -> Records:
    """Return the selected records of a trace file, as arrays; ``given``: its format, if any."""
    from farm.records.traces.trace_records import selected, widened  # noqa: PLC0415 - as a reader is

    name = format_of(path, given)
    known = FORMATS[name]
    if options.fields and not known.maps:
        able = ", ".join(other for other, one in FORMATS.items() if one.maps)
        raise TraceError(
            f"{path}: fields (--column): found with format {name}; allowed: with {able}"
        )
    return widened(selected(known.read(path, options.fields), options), options, str(path))


def format_of(path: Path, given: str | None) -> str:
    """Return the name of a trace's format, given or guessed; TraceError for an unknown one."""
    if given is None:
        if path.is_dir():
            return "bundle"
        for name, known in FORMATS.items():
            if path.name.lower().endswith(known.endings):
                return name
        if not path.exists():
            raise TraceError(f"{path}: no such file")
        raise TraceError(f"{path}: format: cannot be guessed; allowed: {', '.join(FORMATS)}")
    if given not in FORMATS:
        raise TraceError(f"{path}: format: {not_among(given, FORMATS)}")
    return given


__all__ = ["FORMATS", "Format", "format_of", "read_records"]
