"""The jobs of a trace: its records, with the traits that the scenario gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from msgspec import UNSET

from farm.columns import Coded
from farm.core.jobs.needs import need_of
from farm.core.model import Job, Platform
from farm.records.traces import read_records
from farm.records.traces.trace_records import Records
from farm.scenario.workload import TraceOptions
from farm.workload.blocks import JobColumns, Names
from farm.workload.drawn_traits import (
    Columns,
    Streams,
    longest,
    longest_rules,
    source_streams,
    traits_adder,
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
) -> JobColumns:
    """Return the jobs of the records, in their order, made on demand.

    ``name`` makes the id of the n-th job, from 1; ``default`` is the platform of jobs for which
    neither the options nor the trace name one.
    """
    streams = streams or source_streams(0, "trace")
    forced = None if options.platform is None else options.platform.platform
    count = len(records.arrived)
    columns: Columns = {
        "id": Names.by(name, np.arange(1, count + 1)),
        "service_time": records.service,
        "platform": Coded.same(forced or default or Platform(), count),
        "arrived_at": records.arrived,
    }
    for field, known in records.details.items():
        found = known.as_they_appear()
        if field == "needs":
            columns[field] = _named_needs(found, records, name)
        elif field == "platform":
            if forced is None:
                columns[field] = found.replaced(default or Platform())
        else:
            columns[field] = found
    for field, rule in longest_rules(options).items():
        columns[field] = longest(records.service, rule.longest or 0.0)
    made = JobColumns([traits_adder(options, streams)(columns)])
    if "needs" in columns:
        made.needed = frozenset(
            need_of(text).job for needs in columns["needs"].values for text in needs
        )
    return made


def _named_needs(found: Coded, records: Records, name: Callable[[int], str]) -> Coded:
    """Return the needs by the jobs' ids; rows that the trace's options leave out count as met."""
    places = {own: place for place, own in enumerate(records.ids or (), 1)}

    def named(text: str) -> str:
        job = need_of(text).job
        return f"{name(places[job])}{text[len(job) :]}"

    return found.with_values(
        [
            ()
            if needs is UNSET
            else tuple(named(text) for text in needs if need_of(text).job in places)
            for needs in found.values
        ]
    ).distinct()
