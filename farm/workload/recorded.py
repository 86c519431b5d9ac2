"""The jobs of a trace: its records, with the traits that the scenario gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from farm.core.model import Job, Platform
from farm.records.traces import Records, read_records
from farm.scenario.workload import TraceOptions
from farm.workload.alike import AlikeJobs
from farm.workload.traits import (
    Fields,
    Streams,
    job_maker,
    longest,
    longest_rules,
    source_streams,
    trait_steps,
)


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
