"""``farm submit``: one job, a file of jobs, a trace at its own pace, or standard input."""

from __future__ import annotations

import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress

from farm.cli.connection import DEFAULT_DIR, Dir, Redis, reach, warn_if_unattended
from farm.cli.job_lines import parse_lines, parse_platform
from farm.cli.options import AsJson, Quiet
from farm.core.errors import InputError, TraceError
from farm.core.model import Job, Platform
from farm.live.operator import AT_ONCE, Operator
from farm.live.pool_report import PoolReport
from farm.scenario import TraceOptions
from farm.units import parse_duration
from farm.workload import batches, read_trace
from farm.workload.traces import FORMATS


def submit(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="Jobs as JSON lines (.jsonl) or csv, or a trace; - reads JSON lines from stdin. "
            "(with --format: a trace of that format). Absent: one job, described by the options.",
        ),
    ] = None,
    service_time: Annotated[
        str | None, typer.Option(help="One job: how long it takes alone, such as 90s or 5m.")
    ] = None,
    job_id: Annotated[
        str | None, typer.Option("--id", help="One job: its id; absent: one is made up.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="So many such jobs (ids get a number).")] = 1,
    platform: Annotated[
        str | None,
        typer.Option(help="Such as amd64/virtual or any/native; absent: the only pool's."),
    ] = None,
    kind: Annotated[str, typer.Option(help="One job: what sort of work it is.")] = "job",
    user: Annotated[
        str | None, typer.Option(help="One job: who wants it (attribute user).")
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="One job: further attributes; may be repeated."),
    ] = None,
    matrix: Annotated[str | None, typer.Option(help="One job: the matrix that it is of.")] = None,
    level: Annotated[int, typer.Option(help="One job: static priority level.")] = 0,
    score: Annotated[float, typer.Option(help="One job: Launchpad's score.")] = 0.0,
    priority: Annotated[int, typer.Option(help="One job: fair-share weight, as in REv2.")] = 0,
    mode: Annotated[str, typer.Option(help="One job: timed, stress, memory or mixed.")] = "timed",
    threads: Annotated[int, typer.Option(min=1, help="One job: processes of a stress job.")] = 1,
    trace_format: Annotated[
        str | None, typer.Option("--format", help=f"Of a trace: {', '.join(FORMATS)}.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Only a trace's first so many.")] = None,
    pace: Annotated[
        float | None,
        typer.Option(
            "--speed",
            metavar="N",
            help="Hand jobs in at their own times, N seconds of them in a real second; "
            "absent: all at once.",
        ),
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(help="Put before every id, to submit the same file again.")
    ] = None,
    skip_known: Annotated[
        bool, typer.Option("--skip-known", help="Leave out jobs whose ids are known already.")
    ] = False,
    allow_unrunnable: Annotated[
        bool, typer.Option(help="Also jobs that no pool of the farm could run.")
    ] = False,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Submit work to a live farm.

    What is acknowledged is in the farm's inbox, as durable as its server. An id is taken once
    for good: with an id that is known already nothing is submitted.
    """
    if (source is None) == (service_time is None):
        raise InputError(
            "found "
            + ("neither" if source is None else "both FILE and --service-time")
            + "; allowed: a FILE (or -), or --service-time for one job"
        )
    if pace is not None and not 0 < pace < float("inf"):
        raise InputError(f"--speed: found {pace:g}; allowed: a positive number")
    streamed = str(source) == "-" and trace_format is None
    with reach(redis, folder) as operator:
        warn_if_unattended(operator)
        pools = operator.pools()
        wanted = None if platform is None else parse_platform(platform, "--platform", None)
        default = wanted or _only_platform(pools)
        if source is None:
            one = _described(
                service_time or "", job_id, kind, user, attribute, matrix, mode,
                parse_platform(None, "--platform", default),
            )  # fmt: skip
            one = msgspec.structs.replace(
                one, level=level, score=score, priority=priority, threads=threads
            )
            found: Iterable[Job] = _copies(one, count)
        elif streamed:
            found = parse_lines(sys.stdin, "stdin", prefix or _made_up("stdin"), default)
        elif str(source) == "-":
            found = _of_stdin(trace_format, jobs, wanted, default)
        else:
            found = _of_file(source, trace_format, jobs, wanted, default)
        if prefix is not None and not streamed:
            found = (msgspec.structs.replace(job, id=f"{prefix}{job.id}") for job in found)
        if not allow_unrunnable:
            found = _runnable(found, pools)
        counter = _Submission(operator, skip_known=skip_known)
        if pace is not None:
            counter.paced(found, pace)
        elif streamed:
            counter.stream(found)
        else:
            counter.at_once(list(found), quiet=quiet or as_json)
    if as_json:
        typer.echo(msgspec.json.encode(counter.outcome()).decode())
    elif not quiet:
        for line in counter.told():
            typer.echo(line)


class _Submission:
    """Hands jobs in and counts them."""

    def __init__(self, operator: Operator, *, skip_known: bool) -> None:
        self._operator = operator
        self._skip_known = skip_known
        self.submitted = 0
        self.skipped = 0
        self._first: list[str] = []

    def at_once(self, jobs: list[Job], *, quiet: bool) -> None:
        """All of them, or none if one is known already (or its id stands there twice)."""
        ids = [job.id for job in jobs]
        if len(set(ids)) < len(ids):
            twice = next(name for place, name in enumerate(ids) if name in ids[:place])
            raise InputError(f"job id {twice!r} stands there twice; allowed: distinct ids")
        jobs = self._new(jobs)
        with Progress(console=Console(stderr=True), transient=True, disable=quiet) as progress:
            for part in progress.track(
                [jobs[first : first + AT_ONCE] for first in range(0, len(jobs), AT_ONCE)],
                description="submitting",
            ):
                self._hand_in(part)

    def stream(self, jobs: Iterable[Job]) -> None:
        """Each as it comes."""
        for job in jobs:
            self._hand_in(self._new([msgspec.structs.replace(job, arrived_at=None)]))

    def paced(self, jobs: Iterable[Job], pace: float) -> None:
        """Each at its own time."""
        began = time.monotonic()
        for at, together in batches(jobs):
            pause = at / pace - (time.monotonic() - began)
            if pause > 0:
                time.sleep(pause)
            self._hand_in(self._new(list(together)))

    def outcome(self) -> dict[str, object]:
        """Return what happened, for machines."""
        return {"submitted": self.submitted, "known": self.skipped, "first": self._first}

    def told(self) -> list[str]:
        """Return what happened, for people."""
        if self.submitted == 1 and not self.skipped:
            return [self._first[0]]
        known = f", {self.skipped:,} known already" if self.skipped else ""
        return [f"{self.submitted:,} jobs submitted{known}"]

    def _hand_in(self, jobs: list[Job]) -> None:
        # the farm's clock says when they arrive, not the file's
        jobs = [msgspec.structs.replace(job, arrived_at=None) for job in jobs]
        self._first.extend(job.id for job in jobs[: 1 - len(self._first)])
        self.submitted += self._operator.submit(jobs)

    def _new(self, jobs: list[Job]) -> list[Job]:
        known = self._operator.known([job.id for job in jobs])
        if known and not self._skip_known:
            first = next(job.id for job in jobs if job.id in known)
            raise InputError(
                f"{len(known):,} of {len(jobs):,} job ids are known to the farm already, "
                f"{first!r} the first; allowed: new ids (see --prefix), or --skip-known; "
                f"farm retry runs an ended job again"
            )
        self.skipped += len(known)
        return [job for job in jobs if job.id not in known]


def _described(
    service_time: str,
    job_id: str | None,
    kind: str,
    user: str | None,
    attributes: list[str] | None,
    matrix: str | None,
    mode: str,
    platform: Platform,
) -> Job:
    try:
        seconds = parse_duration(service_time)
    except ValueError as error:
        raise InputError(f"--service-time: {error}") from None
    if mode not in ("timed", "stress", "memory", "mixed"):
        raise InputError(f"--mode: found {mode!r}; allowed: timed, stress, memory, mixed")
    given = dict(_pair(text) for text in attributes or ())
    return Job(
        id=job_id or _made_up("job"),
        service_time=seconds,
        declared_time=seconds,
        platform=platform,
        kind=kind,
        matrix=matrix,
        mode=mode,
        attributes={**given, **({} if user is None else {"user": user})},
    )


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise InputError(f"--attribute: found {text!r}; allowed: KEY=VALUE")
    return key, value


def _made_up(stem: str) -> str:
    return f"{stem}-{uuid.uuid4().hex[:8]}"


def _copies(job: Job, count: int) -> Iterator[Job]:
    if count == 1:
        yield job
        return
    for number in range(1, count + 1):
        yield msgspec.structs.replace(job, id=f"{job.id}-{number}")


def _of_file(
    source: Path,
    trace_format: str | None,
    jobs: int | None,
    forced: Platform | None,
    default: Platform | None,
) -> Iterator[Job]:
    name = source.name.split(".")[0]
    if trace_format is None and source.suffix in (".jsonl", ".ndjson"):
        try:
            text = source.read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"{source}: cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise InputError(f"{source}: byte {error.start} is not UTF-8 text") from None
        yield from parse_lines(text.splitlines(), str(source), name, default)
        return
    for job in read_trace(source, trace_format, TraceOptions(jobs=jobs)):
        changes: dict[str, object] = {}
        if job.id.isdigit():
            changes["id"] = f"{name}-{job.id:>06}"
        if forced is not None:
            changes["platform"] = forced
        elif job.platform == Platform() and default is not None:
            changes["platform"] = default
        yield msgspec.structs.replace(job, **changes) if changes else job


def _of_stdin(
    trace_format: str | None, jobs: int | None, forced: Platform | None, default: Platform | None
) -> Iterator[Job]:
    """Yield the jobs of a trace that comes through standard input (readers want a file)."""
    with tempfile.TemporaryDirectory(prefix="farm-submit-") as folder:
        copy = Path(folder) / _made_up("stdin")
        copy.write_bytes(sys.stdin.buffer.read())
        try:
            yield from _of_file(copy, trace_format, jobs, forced, default)
        except TraceError as error:
            raise TraceError(str(error).replace(str(copy), "stdin")) from None


def _only_platform(pools: dict[str, PoolReport]) -> Platform | None:
    """Return the platform of jobs that name none: the only pool's; None if pools differ."""
    kinds = {(pool.processors, pool.virtualized) for pool in pools.values()}
    if len(kinds) != 1:
        return None
    processors, virtualized = kinds.pop()
    return Platform(processors[0] if processors else None, virtualized)


def _runnable(jobs: Iterable[Job], pools: dict[str, PoolReport]) -> Iterator[Job]:
    """Pass jobs on; raises InputError for one that no pool could run."""
    able: set[Platform] = set()
    for job in jobs:
        platform = job.platform
        if platform not in able:
            if not any(_can_run(pool, platform) for pool in pools.values()):
                kinds = sorted(
                    {
                        f"{'+'.join(pool.processors) or 'any'}/"
                        f"{'virtual' if pool.virtualized else 'native'}"
                        for pool in pools.values()
                    }
                )
                raise InputError(
                    f"job {job.id!r}: no pool of the farm could run {platform}; allowed: jobs for "
                    f"{', '.join(kinds)} (or --allow-unrunnable)"
                )
            able.add(platform)
        yield job


def _can_run(pool: PoolReport, platform: Platform) -> bool:
    return pool.virtualized == platform.needs_virtual and (
        platform.processor is None or platform.processor in pool.processors
    )
