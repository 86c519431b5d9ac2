"""A first, commented scenario for a trace: its platforms as pools, of the sizes that it shows."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from unicodedata import normalize

import msgspec

from farm.core.errors import InputError, TraceError
from farm.core.model import Job, Platform
from farm.records.attempt_columns import AttemptColumns
from farm.records.bundle import Bundle, is_bundle, write_bundle
from farm.records.foreign_columns import CALENDAR
from farm.records.reading import OnShare, part, unseen
from farm.records.traces import FORMATS, format_of, read_records
from farm.records.traces.bundle import UNLABELLED
from farm.results.descriptive_statistics import quantile
from farm.results.formatting import readable_span
from farm.scenario import TraceOptions
from farm.scenario.file.document import value_text
from farm.units import many
from farm.workload.recorded import trace_jobs
from farm_twin.diagnosis.evidence import Finding
from farm_twin.diagnosis.figures import FarmFigures, PlatformFigures, examine
from farm_twin.diagnosis.sanity import Examined, findings
from farm_twin.importing import load_records, source_of
from farm_twin.sources import TABLES
from farm_twin.twins.candidates import Candidate, Document
from farm_twin.twins.pool_shapes import PoolLoad, Shape, pools_of
from farm_twin.twins.scenario_text import pool_keys, scheduling_lines
from farm_twin.twins.timetable import start_of
from farm_twin.twins.twin import order_of, sizing_of

BUSY = 0.7
"""The share of its time that a pool of the size proposed is busy on average."""
ENOUGH = 10
"""Pairs of jobs from which the time between two jobs is taken."""


def scenario_of_trace(
    trace: Path,
    path: str,
    fields: Mapping[str, str] | None,
    on_read: OnShare = unseen,
    *,
    strict: bool = False,
    beside: Path | None = None,
) -> tuple[str, list[str]]:
    """Return a scenario that plays a trace, with a pool for each of its platforms, as YAML.

    Platforms whose jobs the same runners ran have one pool. And what of the trace is not among its
    jobs, and why, and what the checks of it have found.

    Args:
        trace: recorded jobs, in a format of traces.
        path: where the scenario finds them.
        fields: of a table: for each part of a job the column that has it.
        on_read: is given how much is done, 0 to 1.
        strict: a trace that a check finds doubtful is refused.
        beside: where records that are no trace, of a CI system or in a folder, become a bundle,
            which the scenario plays; None: they are refused.

    Raises TraceError for a trace that cannot be read, or is refused.
    """
    try:
        return _scenario_of(trace, path, fields, on_read, strict=strict)
    except TraceError as error:
        if beside is None or is_bundle(trace):
            raise
        bundle = _records_in(trace, fields, error)
    if beside.exists():
        raise InputError(f"{beside}: exists already, and the records would be kept there")
    write_bundle(beside, bundle)
    try:
        text, remarks = _scenario_of(beside, beside.name, None, on_read, strict=strict)
    except BaseException:
        shutil.rmtree(beside)
        raise
    kept = f"{beside}: written; the scenario plays the jobs in it"
    return text, [*bundle.manifest.remarks, *remarks, kept]


def scenario_of_bundle(folder: Path, bundle: Bundle, figures: FarmFigures) -> str:
    """Return a scenario that plays a bundle, as ``scenario_of_trace`` does, without its checks.

    Nothing is examined again.

    Args:
        folder: where the bundle was written; the scenario is beside it.
        bundle: what was written.
        figures: of these records; in which zone, and by which objective, does not matter.
    """
    jobs, _ = _jobs_of(folder, TraceOptions())
    return _fitting(jobs, folder.name, None, _recorded_in(bundle, figures))


def _records_in(trace: Path, fields: Mapping[str, str] | None, error: TraceError) -> Bundle:
    """Return the records in files that are no trace. Raises what reading them as one raised."""
    try:
        source = source_of([trace])
        columns = fields if source in TABLES else None
        return load_records([trace], source, columns)
    except TraceError as reason:
        is_trace = trace.name.lower().endswith((*FORMATS["csv"].endings, *FORMATS["swf"].endings))
        raise (error if is_trace else reason) from None


def _scenario_of(
    trace: Path,
    path: str,
    fields: Mapping[str, str] | None,
    on_read: OnShare,
    *,
    strict: bool,
) -> tuple[str, list[str]]:
    options = TraceOptions(fields=None if fields is None else dict(fields))
    jobs, of_reading = _jobs_of(trace, options)
    on_read(0.3)
    recorded = _recorded(trace, fields, part(on_read, 0.3, 0.7))
    for finding in recorded.findings:
        if strict and finding.effect != "noted":
            raise TraceError(f"{trace}: --strict: {finding.rule}: {finding.text}")
    remarks = [*of_reading, *_in_words(recorded.findings)]
    return _fitting(jobs, path, fields, recorded), remarks


def _jobs_of(trace: Path, options: TraceOptions) -> tuple[list[Job], Sequence[str]]:
    """Return the jobs of a trace, and what of it is not among them. Raises TraceError."""
    records = read_records(trace, None, options)
    jobs = list(trace_jobs(records, options, records.name))
    _refuse_some_without_platform(jobs, trace)
    return jobs, records.remarks


def _refuse_some_without_platform(jobs: Sequence[Job], trace: Path) -> None:
    """Where pools differ, no scenario can say which of them such jobs are for."""
    without = sum(job.platform == Platform() for job in jobs)
    if 0 < without < len(jobs):
        raise TraceError(
            f"{trace}: {without:,} of {many(len(jobs), 'job')} without a platform; allowed: all "
            "of them or none (any/virtual: whichever pool is free)"
        )


class SeenPool(NamedTuple):
    """What a trace tells of a pool: of runners that ran the same jobs."""

    #: the platforms of these jobs
    platforms: tuple[str, ...]
    builders: int
    slots: int
    #: what these numbers are, and how jobs waited for them
    reason: str
    #: the keys beside them, a line each
    keys: str = ""
    #: what sizes it; None: it is fixed, or that is not known
    sized: Candidate | None = None


class Recorded(NamedTuple):
    """What a trace tells of the farm that ran it, if it says who ran when."""

    pools: tuple[SeenPool, ...] = ()
    #: of jobs, common to all pools
    order: Mapping[str, object] = MappingProxyType({})
    #: a line of the scenario: when the first job arrived, if the trace has dates
    starts: str = ""
    findings: tuple[Finding, ...] = ()


def _in_words(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield what the checks of a trace have found, and what was assumed."""
    for finding in findings:
        yield f"{finding.rule}: {finding.text}"
        if finding.assumed is not None:
            assumed = finding.assumed
            yield f"assumed: {assumed.what}: {assumed.value}; otherwise: {assumed.otherwise}"


def _recorded(trace: Path, fields: Mapping[str, str] | None, on_share: OnShare) -> Recorded:
    """Return what a trace tells of the farm that ran it."""
    trace_format = format_of(trace, None)
    if trace_format not in ("bundle", "csv", "swf"):
        return Recorded()
    try:
        source = None if is_bundle(trace) else trace_format
        columns = None if trace_format == "swf" else fields
        # as the trace itself is read: times without a zone are of UTC
        bundle = load_records([trace], source, columns, UTC, part(on_share, 0.0, 0.3))
    except TraceError:  # the jobs were read: it does not say when they started
        return Recorded()
    figures = examine(bundle, None, 0.0, part(on_share, 0.5, 0.5))
    examined = Examined(bundle, AttemptColumns.of(bundle.attempts), figures, math.inf)
    return _recorded_in(bundle, figures)._replace(findings=tuple(findings(examined)))


def _recorded_in(bundle: Bundle, figures: FarmFigures) -> Recorded:
    """Return what records with these figures tell of the farm, without what checks of them find."""
    pools = pools_of(bundle)
    order = order_of(pools)
    by_platform = {platform.platform: platform for platform in figures.platforms}
    widths = {attempt.slots for attempt in bundle.attempts}
    width = widths.pop() if len(widths) == 1 else None
    seen = []
    for shape, load in pools:
        if len(shape.platforms) > 1 and shape.ever:
            seen.append(_shared_pool(shape, load))
        else:
            sized = sizing_of(shape, load, order) if len(shape.platforms) == 1 else None
            seen += [
                _own_pool(by_platform[name], shape.turnaround, sized, width)
                for name in shape.platforms
            ]
    first = min((one.arrived_at for one in bundle.attempts if one.ran is not None), default=0.0)
    starts = ""
    clock = bundle.clock
    if first >= CALENDAR:
        starts = f"starts: {start_of(first, clock.ahead)}    # the clock ({clock.zone}) when the "
        starts += "first job arrived\n"
    return Recorded(tuple(seen), order, starts)


def _own_pool(
    figures: PlatformFigures, boot_time: float, sized: Candidate | None, width: float | None
) -> SeenPool:
    """Return the pool of one platform, as the trace shows it.

    Args:
        figures: of the platform.
        boot_time: how long the next runner of one job takes, seconds.
        sized: what sizes it, if that was found.
        width: slots that each job took; None: they differ.
    """
    waited = f"jobs waited {readable_span(figures.waits.mean)}, p95 "
    waited += readable_span(figures.wait_p95)
    slots = 1
    builders = max(1, figures.busy_at_once)
    reason = f"jobs at once in the records, where {waited}"
    told = figures.slots_told
    if figures.runners and not figures.ephemeral:
        slots = figures.runner_slots
        builders = max(1, round(figures.slots_seen / slots))
        reason = f"runners at once in the records, where {waited}"
    elif told is not None and width is not None and told >= width * figures.busy_at_once:
        builders = max(1, int(told / width))
        reason = f"as the records say, where {waited}"
    keys = ""
    if figures.ephemeral:
        boot = readable_span(boot_time)
        keys = (
            "\n    uses: 1               # a runner ran one job"
            f"\n    boot_time: {boot}        # from its end to the start on the next one"
        )
    elif figures.turnaround.count >= ENOUGH and figures.turnaround.p50:
        # a span that a person can read is near enough
        span_between = readable_span(figures.turnaround.p50)
        keys = f"\n    inter_job_time: {span_between}    # between two jobs of a runner"
    return SeenPool((figures.platform,), builders, slots, reason, keys, sized)


def _shared_pool(shape: Shape, load: PoolLoad) -> SeenPool:
    """Return the pool of platforms whose jobs the same runners ran: they are counted once."""
    waited = f"jobs waited {readable_span(float(load.waited.mean()))}, p95 "
    waited += readable_span(quantile(load.waited, 0.95))
    keys = ""
    if shape.ephemeral:
        boot = readable_span(shape.turnaround)
        keys = (
            "\n    uses: 1               # a runner ran one job"
            f"\n    boot_time: {boot}        # from its end to the start on the next one"
        )
    elif shape.turnarounds >= ENOUGH and shape.turnaround:
        span_between = readable_span(shape.turnaround)
        keys = f"\n    inter_job_time: {span_between}    # between two jobs of a runner"
    reason = f"runners at once in the records, which ran jobs of each, where {waited}"
    return SeenPool(shape.platforms, max(1, shape.runners), shape.slots, reason, keys)


class ScenarioPool(NamedTuple):
    """The jobs of a pool in the scenario, and what the trace tells of it."""

    platforms: list[Platform]
    service_times: list[float]
    seen: SeenPool | None


def _scenario_pools(jobs: Sequence[Job], seen: Sequence[SeenPool]) -> list[ScenarioPool]:
    """Return the pools of a scenario: by platform, or by the runners that a trace shows."""
    pool_of_platform = {name or UNLABELLED: pool for pool in seen for name in pool.platforms}
    pools: dict[object, ScenarioPool] = {}
    for job in jobs:
        platform = job.platform
        by_name = pool_of_platform.get(str(platform))
        pool = pool_of_platform.get(platform.processor or UNLABELLED, by_name)
        key: object = platform
        if pool is not None and len(pool.platforms) > 1:
            key = pool.platforms
        known = pools.setdefault(key, ScenarioPool([], [], pool))
        if platform not in known.platforms:
            known.platforms.append(platform)
        known.service_times.append(job.service_time)
    return list(pools.values())


def _fitting(
    jobs: Sequence[Job], path: str, fields: Mapping[str, str] | None, recorded: Recorded
) -> str:
    arrivals = [job.arrived_at or 0.0 for job in jobs]
    span = max(max(arrivals) - min(arrivals), 1.0)
    of_scenario = _scenario_pools(jobs, recorded.pools)
    names = _names([pool.platforms[0] for pool in of_scenario])
    pools = [_pool(name, pool, span) for name, pool in zip(names, of_scenario, strict=True)]
    columns = "" if not fields else f"\n      fields: {value_text(dict(fields))}"
    checks = "".join(f"# {line}.\n" for line in _in_words(recorded.findings))
    return f"""# {len(jobs):,} jobs of {path}, which arrive within {readable_span(span)}.
{checks}# What every key means, and which others there are: farm init --schema, \
docs/reference/scenario.md
version: 1
seed: 1
{recorded.starts}pools:
{"".join(pools)}workload:
  - trace:
      path: {value_text(path)}{columns}
      # time_scale: 0.5     # arrivals twice as dense
scheduling:
{_scheduling(recorded.order)}"""


def _scheduling(order: Document) -> str:
    if not order:
        return "  policy: fifo            # or sjf, ljf, ljf-aging, …\n"
    why = "  # younger jobs overtook older ones: of the orders tried, this one waits as recorded\n"
    return why + "".join(f"{line}\n" for line in scheduling_lines({"policy": "fifo", **order}))


def _pool(name: str, pool: ScenarioPool, span: float) -> str:
    """Return the text of a pool.

    Args:
        name: of the pool.
        pool: its jobs, and what the trace tells of it.
        span: within which all jobs arrive, seconds.
    """
    seconds = sum(pool.service_times)
    seen = pool.seen
    if seen is None:
        builders = max(1, math.ceil(seconds / span / BUSY))
        seen = SeenPool(
            platforms=(),
            builders=min(len(pool.service_times), builders),
            slots=1,
            reason=f"{readable_span(seconds)} of work: busy {BUSY:.0%} of the time",
        )
    fixed = f"builders: {seen.builders}       # {seen.reason}{seen.keys}"
    other = f"""or sized by an algorithm, instead of builders:
    # provisioner: {{algorithm: taskcluster, min: 0, max: {2 * seen.builders}, scaling_ratio: 1.0}}
    # boot_time: 1m
    # idle_timeout: 15m"""
    if seen.sized is not None:
        fixed = f"""# {seen.reason}
    # their number follows the queue; found in a few seconds: farm twin searches, and checks
{_sizing(seen.sized)}{seen.keys}"""
        other = f"""or a fixed number, instead of the provisioner:
    # builders: {seen.builders}"""
    return f"""  - name: {name}
    platform: {_platform_text(pool.platforms)}
    slots: {seen.slots}
    {fixed}
    # {other}
    price: 1.0            # of a builder-hour
"""


def _platform_text(platforms: Sequence[Platform]) -> str:
    """Return what a pool's builders are for, as a scenario has it."""
    if len(platforms) > 1:
        names = sorted(platform.processor or "amd64" for platform in platforms)
        processors = ", ".join(map(value_text, names))
        return f"{{processors: [{processors}]}}"
    [platform] = platforms
    processor = value_text(platform.processor or "amd64")
    virtualized = "true" if platform.virtualized is not False else "false"
    return f"{{processor: {processor}, virtualized: {virtualized}}}"


def _sizing(sized: Candidate) -> str:
    """Return the keys of a pool that is sized by an algorithm; when it plans first is not known."""
    free = msgspec.structs.replace(sized, first_plan=None)
    found = {key: value for key, value in free.document().items() if key != "slots"}
    return "\n".join(f"    {line}" for line in pool_keys(found))


def _names(platforms: Sequence[Platform]) -> list[str]:
    """Return a name for the pool of each platform, as scenarios allow them."""
    names: list[str] = []
    for platform in platforms:
        plain = normalize("NFKD", platform.processor or "any").encode("ascii", "ignore").decode()
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", plain).strip("-") or "pool"
        name += "-native" if platform.virtualized is False else ""
        names.append(name if name not in names else f"{name}-{len(names) + 1}")
    return names
