"""From a trace's records to jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farm.core.model import Job, Platform
from farm.scenario.workload import TraceOptions
from farm.workload.heavy import longest
from farm.workload.traces.records import Records
from farm.workload.traits import Fields, Streams, job_maker, source_streams


def trace_jobs(
    records: Records,
    options: TraceOptions,
    ids: Sequence[str],
    default: Platform | None = None,
    streams: Streams | None = None,
) -> Iterator[Job]:
    """Yield the jobs of the records, in their order, made as they are asked for.

    ``default`` is the platform of jobs of which neither the options nor the trace say one.
    """
    make = job_maker(options, streams or source_streams(0, "trace"))
    forced = None if options.platform is None else options.platform.platform
    platform = forced or default or Platform()
    chosen = _longest_of(records, options)
    times = zip(ids, records.arrived.tolist(), records.service.tolist(), strict=True)
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
        for name, places in chosen.items():
            fields[name] = place in places
        yield make(fields)


def _longest_of(records: Records, options: TraceOptions) -> dict[str, set[int]]:
    """Return which jobs are heavy by ``longest``: of a trace, that share of all jobs taken."""
    rules = {"heavy": options.heavy, "memory_heavy": options.memory_heavy}
    return {
        name: longest(records.service.tolist(), rule.longest)
        for name, rule in rules.items()
        if rule is not None and rule.longest is not None
    }
