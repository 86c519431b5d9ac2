"""Jobs as JSON lines: one object a line, with the columns of our csv table as keys.

Spans and instants are in seconds; only ``service_time_s`` is required.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from farm.core.errors import InputError, TraceError, did_you_mean, file_access
from farm.core.fields import FieldError, record_of
from farm.core.model import Job, Platform
from farm.live.wire.report_checks import flaw_of
from farm.records.traces.csv_table import COLUMNS, platform_of
from farm.whole_files import ending

KEYS = {name: key for key, name in COLUMNS.items()}
"""The key of each field of a job."""


def standard_input() -> Iterator[str]:
    """Yield the lines of standard input, as they come; raises InputError if it is closed."""
    if sys.stdin is None:
        raise InputError("standard input is closed; allowed: lines to read")
    try:
        lines = _read_lines(sys.stdin.fileno())
    except OSError:  # something else stands in for it
        lines = iter(sys.stdin.buffer)
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
            fields[COLUMNS[key]] = value
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
