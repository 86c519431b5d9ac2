"""Where submitted jobs come from: options, a file of JSON lines, a trace, standard input.

A JSON line is an object with the columns of our csv table as keys. Spans and instants are in
seconds; only ``service_time_s`` is required.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from farm.core.errors import InputError, TraceError, did_you_mean, file_access, not_among
from farm.core.fields import FieldError, record_of
from farm.core.jobs.needs import renamed
from farm.core.model import JOB_FIELDS, MODES, Job, Platform
from farm.live.wire.pool_report import PoolReport
from farm.live.wire.report_checks import flaw_of
from farm.records.trace_columns import COLUMNS, platform_of
from farm.records.traces import FORMATS
from farm.whole_files import STDIN, ending
from farm.whole_files import standard_input as standard_bytes

KEYS = {name: key for key, name in COLUMNS.items()}
"""The key of each field of a job."""


def standard_input() -> Iterator[str]:
    """Yield the lines of standard input, as they come; raises InputError if it is closed."""
    given = standard_bytes()
    try:
        lines = _read_lines(given.fileno())
    except OSError:  # something else stands in for it
        lines = iter(given)
    return _decoded(lines, "stdin")


def _read_lines(descriptor: int) -> Iterator[bytes]:
    """Yield lines as they come, past Python's own buffer.

    A thread that waits for that buffer would crash the interpreter when it ends (on Ctrl-C).
    """
    rest = b""
    while chunk := os.read(descriptor, 65536):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    if rest:
        yield rest


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file; raises TraceError."""
    with file_access(path, "be read", TraceError), ending(path).open("rb") as file:
        yield from _decoded(file, str(path))


def _decoded(lines: Iterable[bytes], source: str) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            # some editors mark the beginning of a file
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            found = f"byte {error.start} of the line is not UTF-8 text"
            raise TraceError(f"{source}:{number}: {found}") from None


def parse_lines(
    lines: Iterable[str], source: str, prefix: str, default: Platform | None
) -> Iterator[Job]:
    """Yield the jobs of the lines, as they come; empty lines are passed over.

    A job without an id is named after ``prefix`` and its line; one without a platform gets the
    default. Raises TraceError that names the line, what was found and what is allowed.
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _job(line, f"{source}:{number}", f"{prefix}-{number:06d}", default)


def _job(line: str, where: str, name: str, default: Platform | None) -> Job:
    try:
        given = msgspec.json.decode(line, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as error:
        raise TraceError(f"{where}: not a job: {str(error).replace('`', '')}") from None
    fields: dict[str, object] = {"id": name}
    for key, value in given.items():
        if key not in COLUMNS:
            hint = did_you_mean(key, COLUMNS)
            raise TraceError(f"{where}: unknown key {key!r}; {hint}allowed: {', '.join(COLUMNS)}")
        if value not in (None, ""):
            is_listed = COLUMNS[key] == "needs" and isinstance(value, str)
            fields[COLUMNS[key]] = JOB_FIELDS["needs"].read(str(value)) if is_listed else value
    platform = fields.pop("platform", None)
    fields.setdefault("declared_time", fields.get("service_time"))
    try:
        job = record_of(Job, fields)
    except FieldError as error:
        raise TraceError(f"{where}: {KEYS[error.name]}: {error}") from None
    platform = parse_platform(platform, f"{where}: platform", default)
    job = msgspec.structs.replace(job, platform=platform)
    if (flaw := flaw_of(job)) is not None:
        raise TraceError(f"{where}: {flaw}")
    return job


def parse_platform(text: object, where: str, default: Platform | None) -> Platform:
    """Return the platform that is written, else the default; TraceError if there is neither."""
    if text is None:
        if default is None:
            raise TraceError(
                f"{where}: found nothing, and the farm's pools differ; "
                "allowed: processor/virtual or processor/native, such as amd64/virtual"
            )
        return default
    return platform_of(text, where)


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

    ``forced``: the platform of all; ``default``: of those that name none. Raises TraceError, which
    names file and line, or InputError.
    """
    piped = source == STDIN
    name = made_up("stdin") if piped else source.name.split(".")[0]
    if trace_format is None and (piped or source.suffix.lower() in LINES):
        lines, where = (standard_input(), "stdin") if piped else (lines_of(source), str(source))
        are_enough = piped  # from a pipe none may come
        # as they come: none is read after the last
        for job in islice(parse_lines(lines, where, name, forced or default), jobs):
            are_enough = True
            yield job
        if not are_enough:
            raise TraceError(f"{source}: found no jobs; allowed: at least one line with a job")
        return
    guessed = tuple(ending for known in FORMATS.values() for ending in known.endings)
    if trace_format is None and not source.name.lower().endswith(guessed):
        raise TraceError(
            f"{source}: format: cannot be guessed from the name; allowed: {', '.join(LINES)} "
            f"(JSON lines), or --format {', '.join(FORMATS)}"
        )
    from farm.workload import TraceOptions, read_trace  # noqa: PLC0415 - slow, few submit a trace

    def named(own: str) -> str:
        return f"{name}-{own:>06}" if own.isdigit() else own

    for job in read_trace(source, trace_format, TraceOptions(jobs=jobs)):
        changes: dict[str, object] = {}
        if job.id.isdigit():
            changes["id"] = named(job.id)
        if job.needs:
            changes["needs"] = renamed(job.needs, named)
        if forced is not None:
            changes["platform"] = forced
        elif job.platform == Platform() and default is not None:
            changes["platform"] = default
        yield msgspec.structs.replace(job, **changes) if changes else job


def only_platform(pools: dict[str, PoolReport]) -> Platform | None:
    """Return the platform of jobs that name none: the only pool's; None if pools differ."""
    kinds = {(pool.processors, pool.virtualized) for pool in pools.values()}
    if len(kinds) != 1:
        return None
    processors, virtualized = kinds.pop()
    return Platform(processors[0] if processors else None, virtualized)


def chosen_platform(text: str | None, pools: dict[str, PoolReport]) -> Platform:
    """Return the platform of ``--platform``, else the only pool's.

    Raises InputError, which lists what the farm has.
    """
    platform = only_platform(pools)
    if text is not None:
        with contextlib.suppress(TraceError):
            return platform_of(text, "--platform")
        platform = None
    if platform is None:
        found = "nothing, and its pools differ" if text is None else repr(text)
        raise InputError(f"--platform: found {found}; allowed: {', '.join(kinds_of(pools))}")
    return platform


def kinds_of(pools: dict[str, PoolReport]) -> list[str]:
    """Return the platforms of a farm's builders, as they are written."""
    return sorted({kind_of(pool) for pool in pools.values()})


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
                kinds = kinds_of(pools)
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
