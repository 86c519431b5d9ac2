"""Traces: recorded jobs. One file per format; the registry is here.

To add a format: a module with ``read(path, options) -> Records`` and one line in ``FORMATS``.
Readers raise TraceError, which names the record or line, for any problem of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from farm.core.errors import TraceError, not_among
from farm.core.model import Job, Platform
from farm.scenario.workload import TraceOptions
from farm.workload.alike import AlikeJobs
from farm.workload.heavy import longest, longest_rules
from farm.workload.traces import batsim, bundle, csv_table, firefox_ci, swf, taskcluster
from farm.workload.traces.csv_table import write_csv
from farm.workload.traces.foreign_table import read_foreign
from farm.workload.traces.records import Records, selected, widened
from farm.workload.traits import Fields, Streams, job_maker, source_streams, trait_steps


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
    return iter(trace_jobs(records, options, records.name))


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


def trace_jobs(
    records: Records,
    options: TraceOptions,
    name: Callable[[int], str],
    default: Platform | None = None,
    streams: Streams | None = None,
) -> Iterable[Job]:
    """Return the jobs of the records, in their order, made on demand.

    ``name`` makes the id of the n-th job, from 1; ``default`` is the platform of jobs for which
    neither the options nor the trace name one.
    """
    streams = streams or source_streams(0, "trace")
    forced = None if options.platform is None else options.platform.platform
    platform = forced or default or Platform()
    if records.details is None and not longest_rules(options) and not trait_steps(options, streams):
        pairs = zip(records.arrived.tolist(), records.service.tolist(), strict=True)
        return AlikeJobs(pairs, name, {"platform": platform})
    return _each(records, options, name, platform, forced, job_maker(options, streams))


def _each(
    records: Records,
    options: TraceOptions,
    name: Callable[[int], str],
    platform: Platform,
    forced: Platform | None,
    make: Callable[[Fields], Job],
) -> Iterator[Job]:
    chosen = _longest_of(records, options)
    names = map(name, range(1, len(records.arrived) + 1))
    times = zip(names, records.arrived.tolist(), records.service.tolist(), strict=True)
    for place, (job_id, arrived_at, service_time) in enumerate(times):
        fields: Fields = {
            "id": job_id,
            "service_time": service_time,
            "platform": platform,
            "arrived_at": arrived_at,
        }
        if records.details is not None:
            fields.update(records.details[place])
            if forced is not None:
                fields["platform"] = forced
        for field, places in chosen.items():
            fields[field] = place in places
        yield make(fields)


def _longest_of(records: Records, options: TraceOptions) -> dict[str, set[int]]:
    """Return which jobs are heavy by ``longest``: in a trace, that share of all selected jobs."""
    times = records.service.tolist()
    rules = longest_rules(options)
    return {name: longest(times, rule.longest or 0.0) for name, rule in rules.items()}


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
