"""The jobs of a scenario: all sources, merged by arrival, generated lazily."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise, takewhile
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec import UNSET

from farm.core.errors import ScenarioError, TraceError
from farm.core.jobs.needs import needs_of
from farm.core.model import Job, Platform
from farm.records.attempt import Happened
from farm.records.traces import format_of, read_records
from farm.records.traces.trace_records import Records
from farm.scenario import Scenario
from farm.scenario.checks import default_platform, refuse_unrunnable
from farm.scenario.workload import Arrivals, Generator, Matrices, Source, Trace
from farm.workload import generators
from farm.workload.blocks import Block, JobColumns, joined
from farm.workload.drawn_traits import Streams, source_streams
from farm.workload.own_jobs import distinct, generated
from farm.workload.recorded import trace_jobs
from farm.workload.submissions import Batch, FeedbackLoad, Submissions

arrival = attrgetter("arrived_at")
R = TypeVar("R", Arrivals, Matrices)


class Workload(NamedTuple):
    """The jobs of a scenario, and what its traces say beside them."""

    jobs: Iterable[Job]
    #: parts of the traces that make no jobs, with the reason
    remarks: list[str]
    #: of each trace that knows it, its jobs' ids and what really happened to them
    recorded: list[tuple[Callable[[], list[str]], Happened]]


def build_jobs(scenario: Scenario) -> Iterable[Job]:
    """Return the scenario's jobs, as ``build_workload`` does."""
    return build_workload(scenario).jobs


def build_workload(scenario: Scenario) -> Workload:
    """Return the scenario's jobs by (arrival, source's position, serial within the source).

    Generated jobs are made one by one, so a million of them take no memory; traces are read
    before this returns. With phases nothing arrives after the last one (``quiesce``: none in
    the ramp-down). Ids are unique: they
    begin with the source's prefix; the jobs of a csv trace that is the only source keep their own.

    Raises ScenarioError (an empty workload, a job that no pool could run) and TraceError.
    """
    horizon = scenario.phases.load_ends_at if scenario.phases else math.inf
    found = Workload((), [], [])
    if is_answered(scenario):
        begun = _Begun(scenario, horizon, _submissions(scenario, horizon, found))
        return found._replace(jobs=FeedbackLoad(begun))
    prefixes = source_prefixes(scenario)
    sources = [
        _source_jobs(scenario, index, prefixes[index], horizon, found)
        for index in range(len(scenario.workload))
    ]
    # with ids of the user's, prefixes do not suffice: "a-" and "b-1", "a-b-" and "1"
    of_user = any(isinstance(source.options, Generator | Trace) for source in scenario.workload)
    of_user = of_user and len(sources) > 1
    by_column = [one for one in sources if isinstance(one, JobColumns)]
    if len(by_column) == len(sources) and not of_user:
        made = JobColumns.merged(by_column).before(horizon)
        if made.is_empty:
            raise _no_job(scenario)
        return found._replace(jobs=made)
    merged: Iterable[Job] = heapq.merge(*sources, key=arrival)
    if of_user:
        merged = distinct(merged, f"{scenario.name}: workload")
    jobs = takewhile(lambda job: (job.arrived_at or 0.0) < horizon, merged)
    first = next(jobs, None)
    if first is None:
        raise _no_job(scenario)
    return found._replace(jobs=chain((first,), jobs))


def is_answered(scenario: Scenario) -> bool:
    """Return whether people answer verdicts: what is submitted depends on how jobs end."""
    return any(map(_is_answered, scenario.workload))


def _is_answered(source: Source) -> bool:
    """Return whether people answer the verdicts on a source's jobs."""
    options = source.options
    if isinstance(options, Generator):
        return False
    return options.reruns is not None or getattr(options, "users", None) is not None


class _Begun:
    """Begins the load of a scenario; what was begun to check it is used first."""

    def __init__(self, scenario: Scenario, horizon: float, first: Submissions) -> None:
        self._scenario = scenario
        self._horizon = horizon
        self._first: Submissions | None = first

    def __call__(self, until: float) -> Submissions:
        """Return the submissions before an instant, from the beginning."""
        first, self._first = self._first, None
        if first is not None and until >= self._horizon:
            return first
        nothing = Workload((), [], [])
        return _submissions(self._scenario, min(until, self._horizon), nothing)


def _submissions(scenario: Scenario, horizon: float, found: Workload) -> Submissions:
    """Return what is submitted before an instant, with the people who answer verdicts.

    Raises as ``build_workload``.
    """
    from farm.workload.feedback import SourceFeedback  # noqa: PLC0415 - few loads are answered

    prefixes = source_prefixes(scenario)
    people: list[SourceFeedback | None] = []
    source_of: dict[str, int] = {}
    sources: list[Iterable[Job]] = []
    for index, source in enumerate(scenario.workload):
        options = source.options
        if isinstance(options, Generator) or not _is_answered(source):
            people.append(None)
            sources.append(_source_jobs(scenario, index, prefixes[index], horizon, found))
            continue
        prefix, platform = prefixes[index], None
        by_users = False
        if isinstance(options, Arrivals | Matrices) and options.users is not None:
            by_users = True
            where = f"{scenario.name}: workload.{index}.{source.sort}"
            platform = _platform_without_one(scenario, options, where)
        answers = SourceFeedback(
            options,
            seed=scenario.seed,
            name=options.name or index,
            starts=scenario.time_of_week,
            horizon=horizon,
            prefix=prefix,
            platform=platform,
        )
        people.append(answers)
        jobs: Iterable[Job] = answers.first_pushes()
        if not by_users:
            jobs = _source_jobs(scenario, index, prefix, horizon, found)
        sources.append(_with_source(jobs, index, source_of))
    merged: Iterable[Job] = heapq.merge(*sources, key=arrival)
    if len(sources) > 1:
        merged = distinct(merged, f"{scenario.name}: workload")
    before = takewhile(lambda job: (job.arrived_at or 0.0) < horizon, merged)
    first = next(before, None)
    if first is None:
        raise _no_job(scenario)
    return Submissions(chain((first,), before), people, source_of)


def _with_source(jobs: Iterable[Job], source: int, source_of: dict[str, int]) -> Iterator[Job]:
    """Pass jobs on, and note their source."""
    for job in jobs:
        source_of[job.id] = source
        yield job


def jobs_of_records(scenario: Scenario, records: Records) -> JobColumns:
    """Return the jobs of a scenario with one trace, as if these records were in its file.

    Raises ScenarioError for jobs that no pool could run.
    """
    [options] = (one.options for one in scenario.workload if isinstance(one.options, Trace))
    [prefix], streams = source_prefixes(scenario), source_streams(scenario.seed, 0)
    found, where = Workload((), [], []), f"{scenario.name}: workload.0.trace"
    return _recorded(scenario, options, records, prefix, where, streams, found)


def _no_job(scenario: Scenario) -> ScenarioError:
    return ScenarioError(
        f"{scenario.name}: workload: found no job at all; allowed: at least one that arrives "
        "within the limits of its source and the phases"
    )


def batches(jobs: Iterable[Job]) -> Iterator[Batch]:
    """Return (instant, the jobs that arrive at it), by arrival: these are submitted together.

    Of a load that people answer they are ``Submissions``, to be told how jobs end.
    """
    if isinstance(jobs, FeedbackLoad):
        return jobs.begun()
    return _by_instant(jobs)


def _by_instant(jobs: Iterable[Job]) -> Iterator[Batch]:
    for at, together in groupby(jobs, key=arrival):
        yield at or 0.0, tuple(together)


def needed_of(jobs: Iterable[Job]) -> Container[str]:
    """Return the ids of the jobs that others need; any id where that is not known beforehand."""
    if isinstance(jobs, JobColumns):
        return jobs.needed
    if isinstance(jobs, Sequence):
        return {need.job for job in jobs if job.needs for need in needs_of(job)}
    return _AnyId()


class _AnyId:
    """Contains every id."""

    def __contains__(self, name: object) -> bool:
        return True


def source_prefixes(scenario: Scenario) -> list[str]:
    """Return the prefix of each source's job ids: its name, or its content."""
    given = (_wanted_prefix(scenario, source) for source in scenario.workload)
    wanted = [re.sub(r"[^A-Za-z0-9._-]", "-", prefix) for prefix in given]
    named = {source.options.name for source in scenario.workload}
    prefixes: list[str] = []
    for source, prefix in zip(scenario.workload, wanted, strict=True):
        free, number = prefix, 2
        while free in prefixes or (source.options.name is None and free in named):
            free, number = f"{prefix}.{number}", number + 1
        prefixes.append(free)
    return prefixes


def _wanted_prefix(scenario: Scenario, source: Source) -> str:
    options = source.options
    if options.name is not None:
        return options.name
    if isinstance(options, Generator):
        return options.function.rpartition(":")[2]
    if isinstance(options, Trace):
        return Path(options.path).name.split(".")[0] or "trace"
    given = {one.processor for one in options.platform or ()}
    default = scenario.default_platform
    processors = given or {default.processor if default else None}
    return (processors.pop() if len(processors) == 1 else None) or "job"


def _source_jobs(
    scenario: Scenario, index: int, prefix: str, horizon: float, found: Workload
) -> Iterable[Job]:
    """Return the jobs of one source, in order of arrival.

    Its random streams hang on its name, or if it has none on its place: a named source keeps its
    draws when others are added before it, and giving a source a name draws its jobs anew.
    """
    source = scenario.workload[index]
    options = source.options
    streams = source_streams(scenario.seed, options.name or index)
    where = f"{scenario.name}: workload.{index}.{source.sort}"
    if isinstance(options, Generator):
        first = "" if len(scenario.workload) == 1 else f"{prefix}-"
        return generated(scenario, options, where, first, streams("generator"))
    if isinstance(options, Trace):
        path = Path(options.path)
        if options.origin is not None and not path.exists():
            raise TraceError(
                f"{path}: no such file; get it from {options.origin}, and put it there or name it "
                "with --set workload.0.path=FILE"
            )
        records = read_records(path, options.format, options)
        found.remarks.extend(f"{path}: {remark}" for remark in records.remarks)
        return _recorded(scenario, options, records, prefix, where, streams, found)
    if isinstance(options, Arrivals):
        released = _released(scenario, options, prefix, where)
        return JobColumns(generators.arrivals(*released, streams, horizon))
    together = _released(scenario, options, prefix, where)
    return JobColumns(generators.matrices(*together, streams, horizon))


def _released(
    scenario: Scenario, options: R, prefix: str, where: str
) -> tuple[R, str, Platform | None]:
    """Return a source with the scenario's start, and the platform of its jobs without one."""
    platform = _platform_without_one(scenario, options, where)
    if options.cycle_start is None:
        options = options.model_copy(update={"cycle_start": scenario.time_of_week})
    return options, prefix, platform


def _platform_without_one(
    scenario: Scenario, options: Arrivals | Matrices, where: str
) -> Platform | None:
    """Return the platform of a source's jobs without one; None: all have one."""
    named = options.jobs if isinstance(options, Matrices) else None
    have_own = bool(named) and all(job.platform is not None for job in named or ())
    given = options.platform is not None or have_own
    return None if given else default_platform(scenario, where)


class Several(NamedTuple):
    """The jobs of several seeds, held, one seed's after the other's."""

    jobs: Block
    #: where each seed's end
    ends: list[int]

    def each(self) -> list[Workload]:
        """Return what ``build_workload`` returns with each seed."""
        pairs = zip([0, *self.ends], self.ends, strict=False)
        pieces = [self.jobs.taken(slice(begin, end)) for begin, end in pairs]
        return [Workload(JobColumns.of(one), [], []) for one in pieces]


def build_several(scenario: Scenario, seeds: Sequence[int]) -> Several | None:
    """Return the jobs of the scenario with each of these seeds.

    Their columns are drawn together, which takes a fraction of the time where runs are short.
    None: a source is made job by job, or with one of the seeds there is no job. Raises
    ScenarioError.
    """
    horizon = scenario.phases.load_ends_at if scenario.phases else math.inf
    blocks, runs = [], []
    for index, prefix in enumerate(source_prefixes(scenario)):
        source = scenario.workload[index]
        options, where = source.options, f"{scenario.name}: workload.{index}.{source.sort}"
        if not isinstance(options, Arrivals) or options.action is not None:
            return None
        if _is_answered(source):
            return None
        streams = [source_streams(seed, options.name or index) for seed in seeds]
        released = _released(scenario, options, prefix, where)
        block, counts = generators.arrivals_of_several(*released, streams, horizon)
        blocks.append(block)
        runs.append(np.repeat(np.arange(len(seeds)), counts))
    whole, run = joined(blocks), np.concatenate(runs)
    arrived = whole.array("arrived_at")
    # run by run, which takes a fraction of the time of all together
    order = np.argsort(run.astype(np.int16), kind="stable")
    for some in np.split(order, np.cumsum(np.bincount(run, minlength=len(seeds)))[:-1]):
        some[:] = some[np.argsort(arrived[some], kind="stable")]
    order = order[arrived[order] < horizon]
    ends = np.searchsorted(run[order], np.arange(len(seeds) + 1)).tolist()
    if any(begin == end for begin, end in pairwise(ends)):
        return None
    return Several(whole.taken(order), ends[1:])


def _recorded(
    scenario: Scenario,
    options: Trace,
    records: Records,
    prefix: str,
    where: str,
    streams: Streams,
    found: Workload,
) -> JobColumns:
    path = Path(options.path)
    if not len(records.arrived):
        raise TraceError(f"{path}: found no job in the window of {where}")
    platform = _check_platforms(scenario, options, records, where)
    alone = len(scenario.workload) == 1
    keep = records.ids and alone and format_of(path, options.format) == "csv"
    if not alone and (matrix := records.details.get("matrix")) is not None:
        # apart from those of other sources
        own = [f"{prefix}-{one}" if isinstance(one, str) and one else one for one in matrix.values]
        details = {**records.details, "matrix": matrix.with_values(own)}
        records = records._replace(details=details)

    name = records.name if keep else _names_below(prefix, records.ids)
    if records.happened is not None:
        numbers = range(1, len(records.arrived) + 1)
        found.recorded.append((lambda: list(map(name, numbers)), records.happened))
    return trace_jobs(records, options, name, platform, streams)


def _names_below(prefix: str, ids: Sequence[str] | None) -> Callable[[int], str]:
    """Return what names the n-th job of a trace: by its own id, or else by its number.

    A prefix has no braces (``source_prefixes``).
    """
    if not ids:
        return f"{prefix}-{{:06d}}".format
    width = 6 if _may_be_padded(ids) else 0
    return lambda number: f"{prefix}-{ids[number - 1].rjust(width, '0')}"


def _may_be_padded(ids: Sequence[str]) -> bool:
    """Return whether ids stay apart with zeros before the short ones."""
    if not any(one.startswith("0") for one in ids):
        return True
    return len({one.rjust(6, "0") for one in ids}) == len(ids)


def _check_platforms(
    scenario: Scenario, options: Trace, records: Records, where: str
) -> Platform | None:
    """Refuse platforms of the trace that no pool has; return the platform of jobs without one."""
    if options.platform is not None:
        return options.platform.platform
    known = records.details.get("platform")
    found = [UNSET] if known is None else known.as_they_appear().values
    for platform in sorted((one for one in found if one is not UNSET), key=str):
        refuse_unrunnable(scenario, platform, where)
    return default_platform(scenario, where) if UNSET in found else None
