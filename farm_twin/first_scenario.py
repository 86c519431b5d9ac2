"""A first, commented scenario for a trace: its platforms as pools, of the sizes that it shows."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from unicodedata import normalize

import msgspec

from farm.core.errors import FarmError, InputError, TraceError
from farm.core.model import Job, Platform
from farm.records.bundle import is_bundle
from farm.records.columns import CALENDAR
from farm.records.reading import OnShare, part, unseen
from farm.records.traces import format_of, read_records
from farm.results.formatting import readable_span
from farm.scenario import TraceOptions
from farm.scenario.file.document import value_text
from farm.units import many
from farm.workload.recorded import trace_jobs
from farm_twin.diagnosis.figures import PlatformFigures, examine
from farm_twin.importing import load_records, source_of
from farm_twin.sources import SOURCES
from farm_twin.twins.candidates import Candidate, Document
from farm_twin.twins.pools import pools_of
from farm_twin.twins.scenario_text import pool_keys, scheduling_lines
from farm_twin.twins.timetable import start_of
from farm_twin.twins.twin import order_of, sizing_of

BUSY = 0.7
"""The share of its time that a pool of the size proposed is busy on average."""
ENOUGH = 10
"""Pairs of jobs from which the time between two jobs is taken."""


def scenario_of_trace(
    trace: Path, path: str, fields: Mapping[str, str] | None, on_read: OnShare = unseen
) -> tuple[str, list[str]]:
    """Return a scenario that plays a trace, with a pool for each of its platforms, as YAML.

    And what of the trace is not among its jobs, and why.

    Args:
        trace: recorded jobs, in a format of traces.
        path: where the scenario finds them.
        fields: of a table: for each part of a job the column that has it.
        on_read: is given how much is done, 0 to 1.

    Raises TraceError for a trace that cannot be read, InputError for other records.
    """
    options = TraceOptions(fields=None if fields is None else dict(fields))
    try:
        records = read_records(trace, None, options)
    except TraceError:
        _refuse_records(trace)
        raise
    jobs = list(trace_jobs(records, options, records.name))
    _refuse_some_without_platform(jobs, trace)
    on_read(0.3)
    seen = _seen(trace, fields, part(on_read, 0.3, 0.7))
    return _fitting(jobs, path, fields, *seen), records.remarks


def _refuse_records(trace: Path) -> None:
    """Raise InputError if this is no trace but records of a CI system, with what makes it one."""
    source = None
    with suppress(FarmError):
        source = source_of([trace])
    if source in SOURCES:
        raise InputError(
            f"{trace}: found records of {source}; allowed: a bundle of them, as by farm import "
            f"{source} {trace} -o BUNDLE"
        )


def _refuse_some_without_platform(jobs: Sequence[Job], trace: Path) -> None:
    """Where pools differ, no scenario can say which of them such jobs are for."""
    without = sum(job.platform == Platform() for job in jobs)
    if 0 < without < len(jobs):
        raise TraceError(
            f"{trace}: {without:,} of {many(len(jobs), 'job')} without a platform; allowed: all "
            "of them or none (any/virtual: whichever pool is free)"
        )


Seen = tuple[PlatformFigures, float, Candidate | None]
"""What a trace tells of a platform, how long the next runner of one job takes (s), and what sizes
it; None: nothing, or it serves several platforms."""


def _seen(
    trace: Path, fields: Mapping[str, str] | None, on_share: OnShare
) -> tuple[dict[str, Seen], Document, str]:
    """Return what a trace tells of the farm that ran it, if it says who ran when.

    That is by platform; the order of jobs is common to all. Last a line of the scenario: when
    the first job arrived, if the trace has dates.
    """
    if format_of(trace, None) not in ("bundle", "csv"):
        return {}, {}, ""
    try:
        source = None if is_bundle(trace) else "csv"
        bundle = load_records([trace], source, fields, on_read=part(on_share, 0.0, 0.3))
    except TraceError:  # the jobs were read: it does not say when they started
        return {}, {}, ""
    pools = pools_of(bundle)
    order = order_of(pools)
    sized = {
        shape.platforms[0]: sizing_of(shape, load, order)
        for shape, load in pools
        if len(shape.platforms) == 1
    }
    boots = {name: one.turnaround for one, _ in pools for name in one.platforms}
    seen = {
        one.platform: (one, boots.get(one.platform, 0.0), sized.get(one.platform))
        for one in examine(bundle, None, 0.0, part(on_share, 0.5, 0.5)).platforms
    }
    first = min((one.arrived_at for one in bundle.attempts if one.ran is not None), default=0.0)
    starts, clock = "", bundle.clock
    if first >= CALENDAR:
        starts = f"starts: {start_of(first, clock.ahead)}    # the clock ({clock.zone}) when the "
        starts += "first job arrived\n"
    return seen, order, starts


def _fitting(
    jobs: Sequence[Job],
    path: str,
    fields: Mapping[str, str] | None,
    seen: Mapping[str, Seen],
    order: Document,
    starts: str,
) -> str:
    arrivals = [job.arrived_at or 0.0 for job in jobs]
    span = max(max(arrivals) - min(arrivals), 1.0)
    work: dict[Platform, list[float]] = {}
    for job in jobs:
        work.setdefault(job.platform, []).append(job.service_time)
    pools = [
        _pool(
            name, platform, times, span, seen.get(platform.processor or "", seen.get(str(platform)))
        )
        for name, (platform, times) in zip(_names(list(work)), work.items(), strict=True)
    ]
    columns = "" if not fields else f"\n      fields: {value_text(dict(fields))}"
    return f"""# {len(jobs):,} jobs of {path}, which arrive within {readable_span(span)}.
# What every key means, and which others there are: farm init --schema, docs/reference/scenario.md
version: 1
seed: 1
{starts}pools:
{"".join(pools)}workload:
  - trace:
      path: {value_text(path)}{columns}
      # time_scale: 0.5     # arrivals twice as dense
scheduling:
{_scheduling(order)}"""


def _scheduling(order: Document) -> str:
    if not order:
        return "  policy: fifo            # or sjf, ljf, ljf-aging, …\n"
    why = "  # younger jobs overtook older ones: of the orders tried, this one waits as recorded\n"
    return why + "".join(f"{line}\n" for line in scheduling_lines({"policy": "fifo", **order}))


def _pool(
    name: str, platform: Platform, times: Sequence[float], span: float, seen: Seen | None
) -> str:
    processor = value_text(platform.processor or "amd64")
    virtualized = "true" if platform.virtualized is not False else "false"
    seconds = sum(times)
    builders, slots = min(len(times), max(1, math.ceil(seconds / span / BUSY))), 1
    why, between = f"{readable_span(seconds)} of work: busy {BUSY:.0%} of the time", ""
    sized: Candidate | None = None
    if seen is not None:
        figures, boot_time, sized = seen
        builders, slots, why = _recorded(figures)
        if figures.ephemeral:
            boot = readable_span(boot_time)
            between = (
                "\n    uses: 1               # a runner ran one job"
                f"\n    boot_time: {boot}        # from its end to the start on the next one"
            )
        elif figures.turnaround.count >= ENOUGH and figures.turnaround.p50:
            # a span that a person can read is near enough
            span_between = readable_span(figures.turnaround.p50)
            between = f"\n    inter_job_time: {span_between}    # between two jobs of a runner"
    fixed = f"builders: {builders}       # {why}{between}"
    other = f"""or sized by an algorithm, instead of builders:
    # provisioner: {{algorithm: taskcluster, min: 0, max: {2 * builders}, scaling_ratio: 1.0}}
    # boot_time: 1m
    # idle_timeout: 15m"""
    if sized is not None:
        fixed = f"""# {why}
    # their number follows the queue; found in a few seconds: farm twin searches, and checks
{_sizing(sized)}{between}"""
        other = f"""or a fixed number, instead of the provisioner:
    # builders: {builders}"""
    return f"""  - name: {name}
    platform: {{processor: {processor}, virtualized: {virtualized}}}
    slots: {slots}
    {fixed}
    # {other}
    price: 1.0            # of a builder-hour
"""


def _sizing(sized: Candidate) -> str:
    """Return the keys of a pool that is sized by an algorithm; when it plans first is not known."""
    free = msgspec.structs.replace(sized, first_plan=None)
    found = {key: value for key, value in free.document().items() if key != "slots"}
    return "\n".join(f"    {line}" for line in pool_keys(found))


def _recorded(seen: PlatformFigures) -> tuple[int, int, str]:
    """Return builders and slots as the trace shows them, and how jobs waited for these."""
    waited = f"jobs waited {readable_span(seen.waits.mean)}, p95 {readable_span(seen.wait_p95)}"
    if seen.runners and not seen.ephemeral:
        slots = seen.runner_slots
        builders = max(1, round(seen.slots_seen / slots))
        return builders, slots, f"runners at once in the records, where {waited}"
    return max(1, seen.busy_at_once), 1, f"jobs at once in the records, where {waited}"


def _names(platforms: Sequence[Platform]) -> list[str]:
    """Return a name for the pool of each platform, as scenarios allow them."""
    names: list[str] = []
    for platform in platforms:
        plain = normalize("NFKD", platform.processor or "any").encode("ascii", "ignore").decode()
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", plain).strip("-") or "pool"
        name += "-native" if platform.virtualized is False else ""
        names.append(name if name not in names else f"{name}-{len(names) + 1}")
    return names
