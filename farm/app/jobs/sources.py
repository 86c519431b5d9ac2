"""Where submitted jobs come from: one that options describe, a file, a trace, standard input."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from farm.app.jobs.json_lines import lines_of, parse_lines, standard_input
from farm.core.errors import InputError, TraceError, not_among
from farm.core.model import MODES, Job, Platform
from farm.live.wire.pool_report import PoolReport
from farm.live.wire.report_checks import flaw_of
from farm.records.content import STDIN
from farm.records.traces import FORMATS
from farm.scenario import TraceOptions
from farm.workload import read_trace

LINES = (".jsonl", ".ndjson")


def described(
    like: Job, seconds: float, job_id: str | None, platform: Platform, user: str | None
) -> Job:
    """Return a job of these seconds, of which ``like`` says the rest; raises InputError."""
    if like.mode not in MODES:
        raise InputError(f"--mode: {not_among(like.mode, MODES)}")
    return msgspec.structs.replace(
        like,
        id=made_up("job") if job_id is None else job_id,
        service_time=seconds,
        declared_time=seconds,
        platform=platform,
        attributes=like.attributes | ({} if user is None else {"user": user}),
    )


def made_up(stem: str) -> str:
    """Return a new id."""
    return f"{stem}-{uuid.uuid4().hex[:8]}"


def jobs_of(
    source: Path,
    trace_format: str | None,
    jobs: int | None,
    forced: Platform | None,
    default: Platform | None,
) -> Iterator[Job]:
    """Yield the jobs of a source, or its first ``jobs``: a file, or - for standard input.

    ``forced``: the platform of all; ``default``: of those that name none. Raises as they do.
    """
    if str(source) != "-":
        return of_file(source, trace_format, jobs, forced, default)
    if trace_format is None:
        return streamed(jobs, forced or default)
    if sys.stdin is None:
        raise InputError("standard input is closed; allowed: a trace, or a FILE")
    return of_file(STDIN, trace_format, jobs, forced, default)


def of_file(
    source: Path,
    trace_format: str | None,
    jobs: int | None,
    forced: Platform | None,
    default: Platform | None,
) -> Iterator[Job]:
    """Yield the jobs of a file, or its first ``jobs``.

    Raises TraceError, which names file and line, or InputError.
    """
    name = made_up("stdin") if source == STDIN else source.name.split(".")[0]
    if trace_format is None and source.suffix.lower() in LINES:
        lines = lines_of(source)
        empty = True
        for job in islice(parse_lines(lines, str(source), name, forced or default), jobs):
            empty = False
            yield job
        if empty:
            raise TraceError(f"{source}: found no jobs; allowed: at least one line with a job")
        return
    if trace_format is None and not _is_guessable(source):
        raise TraceError(
            f"{source}: format: cannot be guessed from the name; allowed: {', '.join(LINES)} "
            f"(JSON lines), or --format {', '.join(FORMATS)}"
        )
    for job in read_trace(source, trace_format, TraceOptions(jobs=jobs)):
        changes: dict[str, object] = {}
        if job.id.isdigit():
            changes["id"] = f"{name}-{job.id:>06}"
        if forced is not None:
            changes["platform"] = forced
        elif job.platform == Platform() and default is not None:
            changes["platform"] = default
        yield msgspec.structs.replace(job, **changes) if changes else job


def _is_guessable(source: Path) -> bool:
    endings = tuple(ending for known in FORMATS.values() for ending in known.endings)
    return source.name.lower().endswith(endings)


def streamed(jobs: int | None, default: Platform | None) -> Iterator[Job]:
    """Yield the jobs of JSON lines from standard input as they come; none is read after the last.

    Raises InputError if it is closed, and TraceError, which names the line.
    """
    return islice(parse_lines(standard_input(), "stdin", made_up("stdin"), default), jobs)


def only_platform(pools: dict[str, PoolReport]) -> Platform | None:
    """Return the platform of jobs that name none: the only pool's; None if pools differ."""
    kinds = {(pool.processors, pool.virtualized) for pool in pools.values()}
    if len(kinds) != 1:
        return None
    processors, virtualized = kinds.pop()
    return Platform(processors[0] if processors else None, virtualized)


def sound(jobs: Iterable[Job], where: str) -> Iterator[Job]:
    """Pass jobs on; raises InputError for one that the farm would refuse."""
    for job in jobs:
        if (flaw := flaw_of(job)) is not None:
            raise InputError(f"{where}: {flaw}")
        yield job


def runnable(
    jobs: Iterable[Job], pools: dict[str, PoolReport], where: str, otherwise: str
) -> Iterator[Job]:
    """Pass jobs on; raises InputError for one that no pool could run.

    ``otherwise``: what allows such jobs, for the message.
    """
    able: set[Platform] = set()
    for job in jobs:
        platform = job.platform
        if platform not in able:
            if not any(pool.can_run(platform) for pool in pools.values()):
                kinds = sorted({kind_of(pool) for pool in pools.values()})
                raise InputError(
                    f"{where}: job {job.id!r}: no pool of the farm could run {platform}; allowed: "
                    f"jobs for {', '.join(kinds) or 'nothing'} (or {otherwise}, and it waits)"
                )
            able.add(platform)
        yield job


def kind_of(pool: PoolReport) -> str:
    """Return the platform of a pool's builders, as it is written."""
    processors = "+".join(pool.processors) or "any"
    return f"{processors}/{'virtual' if pool.virtualized else 'native'}"
