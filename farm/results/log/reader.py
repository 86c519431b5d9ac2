"""Reads back an event log: exactly the events and commands that were written."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from farm.core.commands import IGNORED, Command, EndJob, Ignored, StartJob
from farm.core.errors import InputError, file_access
from farm.core.events import BuilderJoined, Event, JobFinished, JobsSubmitted
from farm.core.model import Builder, Cause, Job, Outcome
from farm.results.log.lines import CANCELLED, COMMANDS, EMPTY, EVENTS, FOLDED, LINES, values_of
from farm.whole_files import pieces_of

BEGINNING = b'{"at_s":'
"""Of every line, so of a last one that was cut off."""


class Entry(msgspec.Struct):
    """One event with the resulting commands, as the driver's observer received them.

    ``commands`` is IGNORED for a stale event. ``cut`` is True for the last entry of a log whose
    writer was killed: some of its commands may be missing.
    """

    event: Event
    commands: Sequence[Command]
    line: int
    cut: bool = False

    @property
    def ignored(self) -> bool:
        """Whether the scheduler recognised the event as stale; folds skip such events."""
        return type(self.commands) is Ignored


class _Kind(msgspec.Struct):
    event: str
    decided: bool = False
    empty: bool = False


class _Instant(msgspec.Struct):
    at_s: float


_DECIDED = LINES[EndJob]
#: all lines but those few that share their kind with others
_USUAL = [line for line in LINES.values() if line is not _DECIDED] + [CANCELLED]
_all_usual = msgspec.json.Decoder(reduce(or_, [line.read for line in _USUAL])).decode_lines
_decode_instant = msgspec.json.Decoder(_Instant).decode
_decode_kind = msgspec.json.Decoder(_Kind).decode
_by_name = {line.name: line for line in _USUAL}


def _maker(of: type[msgspec.Struct]) -> Callable[..., Any]:
    """Return a fast function from a line, and its job if it names one, to what was written."""
    fields = msgspec.structs.fields(of)
    values = values_of([field.name for field in fields if field.type is not Job])
    if fields[0].type is Job:
        return lambda line, job: of(job, *values(line))
    if all(field.type is not Builder for field in fields):
        return lambda line: of(*values(line))

    def inlined(line: object) -> object:
        builder = msgspec.convert(line, Builder, from_attributes=True)
        return of(*[builder if f.type is Builder else getattr(line, f.name) for f in fields])

    return inlined


_EVENTS = {LINES[of].read: _maker(of) for of in EVENTS if of is not JobsSubmitted}
_COMMANDS = {LINES[of].read: _maker(of) for of in COMMANDS}
_COMMANDS[CANCELLED.read] = _COMMANDS[_DECIDED.read]
_STARTED, _FINISHED, _JOINED = (LINES[of].read for of in (StartJob, JobFinished, BuilderJoined))
_ENDED, _EMPTY = (_DECIDED.read, CANCELLED.read), EMPTY.read
#: what a line holds of an end, in the order of EndJob's fields
_END = [name for name in EndJob.__struct_fields__ if name not in ("job", "cause", "pool")]
_decided_values, _folded_values = values_of(_END), values_of([FOLDED.get(n, n) for n in _END])
#: why a job ended, where an older log has no cause
_CAUSES = {"succeeded": Cause.FINISHED, "failed": Cause.FAILED, "cancelled": Cause.REQUESTED}


def read_log(path: Path | str) -> Generator[Entry, None, None]:
    """Yield the entries of an event log in order.

    A truncated last line (its writer was killed) is left out. Raises InputError, with the line
    number, for a file that is missing or invalid.
    """
    path = Path(path)
    with file_access(path, "read the event log"):
        yield from entries_of(pieces_of(path), str(path))


def select(
    lines: Iterable[bytes], kinds: Collection[type[msgspec.Struct]]
) -> Iterator[tuple[float, Any]]:
    """Yield when and what, of kinds of events and commands that name no job; none that is stale.

    No other line is decoded, and a last one that was cut off is left out. Raises InputError, with
    the line number.
    """
    names = b"|".join(LINES[of].name.encode() for of in kinds)
    wanted, reader = re.compile(rb'"event":\s*"(?:%b)"' % names).search, _LogReader("event log")
    for number, raw in enumerate(lines, 1):
        if wanted(raw):
            line: Any = reader.decode_whole(raw, number)
            if line is not None and not getattr(line, "ignored", False):
                make = _EVENTS.get(type(line)) or _COMMANDS[type(line)]
                yield line.at, make(line)


def last_instant(pieces: Iterable[bytes], source: str) -> float:
    """Return the farm time of an event log's last line, 0 without any; only that is decoded.

    The log comes in pieces of whole lines. Raises InputError for one that is missing or invalid.
    """
    last = b""
    with file_access(source, "read the event log"):
        for piece in pieces:
            last = piece
    try:
        return _decode_instant(last.splitlines()[-1]).at_s if last else 0.0
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"{source}: the last line is not of an event log: {error}") from None


def entries_of(pieces: Iterable[bytes], source: str = "event log") -> Generator[Entry, None, None]:
    """Yield the entries of an event log that comes in pieces of whole lines, as ``read_log``."""
    reader, before = _LogReader(source), 0
    for piece in pieces:
        for number, line in enumerate(_decoded(piece, reader, before), before + 1):
            if (done := reader.take(line, number)) is not None:
                yield done
        before += piece.count(b"\n")
    if (last := reader.finish()) is not None:
        yield last


def _decoded(piece: bytes, reader: _LogReader, before: int) -> Iterable[object]:
    """Return the lines of a piece; whether all are well and usual shows when they are decoded."""
    try:
        lines = _all_usual(piece)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        lines = []
    if len(lines) == piece.count(b"\n") and piece.endswith(b"\n"):
        return lines
    return _one_by_one(piece, reader, before)


def _one_by_one(piece: bytes, reader: _LogReader, before: int) -> Iterator[object]:
    for number, raw in enumerate(piece.splitlines(keepends=True), before + 1):
        if (line := reader.decode_whole(raw, number)) is None:
            return
        yield line


class _LogReader:
    """Assembles lines into entries; keeps the jobs that have not ended, and builders' pools."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.entry: Entry | None = None
        self._batch: int | None = None
        self._batch_jobs: list[Job] = []
        #: how those ended that the jobs of the current submission need
        self._ended: dict[str, Outcome] = {}
        self._jobs: dict[str, Job] = {}
        #: of every builder that has joined
        self._pools: dict[str | None, str] = {}

    def decode(self, raw: bytes, number: int) -> object:
        """Return the line's struct; raises InputError."""
        try:
            kind = _decode_kind(raw)
            odd = EMPTY if kind.empty else _DECIDED if kind.decided else None
            if (line := _by_name.get(kind.event)) is None:
                known = ", ".join(sorted(_by_name))
                self._refuse(number, f"unknown event {kind.event!r}; known: {known}")
            return (odd if odd and odd.name == kind.event else line).decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._refuse(number, f"not a line of an event log: {error}")

    def decode_whole(self, raw: bytes, number: int) -> object | None:
        """Return the line's struct; None of a last one that was cut off; raises InputError."""
        try:
            return self.decode(raw, number)
        except InputError:
            if raw.endswith(b"\n") or not raw.startswith(BEGINNING[: len(raw)]):
                raise
            if self.entry is not None:
                self.entry.cut = True
            return None

    def take(self, line: Any, number: int) -> Entry | None:
        """Read one line; return the previous entry if this line completes it."""
        read = type(line)
        if (make := _COMMANDS.get(read)) is not None:
            if read is _STARTED:
                command = make(line, self._job(line, number))
            elif read in _ENDED:
                command = self._end(_decided_values(line), line, number)
            else:
                command = make(line)
            self._append(command, number)
            return None
        if self._batch is not None and getattr(line, "batch", None) == self._batch:
            self._batch_jobs.append(self._submitted(line))
            return None
        done = self.finish()
        make = _EVENTS.get(read)
        event: Any = self._submission(line) if make is None else make(line)
        self.entry = Entry(event, IGNORED if line.ignored else [], number)
        if read is _FINISHED and line.ended:
            self._append(self._end(_folded_values(line), line, number), number)
        elif read is _JOINED and not line.ignored:
            self._pools[event.builder.id] = event.builder.pool
        return done

    def finish(self) -> Entry | None:
        """Return the current entry, now complete; None before the first."""
        entry, self.entry = self.entry, None
        if entry is not None and self._batch is not None:
            entry.event = JobsSubmitted(entry.event.at, tuple(self._batch_jobs), self._ended)
            self._batch = None
        return entry

    def _submission(self, line: Any) -> JobsSubmitted:
        at: float = line.at
        if type(line) is _EMPTY:
            return JobsSubmitted(at, ())
        self._ended = line.ended_needs or {}
        job = self._submitted(line)
        if line.batch is not None:
            self._batch, self._batch_jobs = line.batch, [job]
        return JobsSubmitted(at, (job,), self._ended)

    def _submitted(self, line: Any) -> Job:
        job = msgspec.convert(line, Job, from_attributes=True)
        if not line.ignored:
            self._jobs.setdefault(job.id, job)
        return job

    def _end(self, values: tuple[Any, ...], line: Any, number: int) -> EndJob:
        job = self._job(line, number)
        self._jobs.pop(line.job, None)
        values = *values, line.cause or _CAUSES[line.outcome], self._pools.get(line.builder)
        return EndJob(job, *values)

    def _append(self, command: Command, number: int) -> None:
        commands = None if self.entry is None else self.entry.commands
        if not isinstance(commands, list):
            self._refuse(number, "not a line of an event log: a command that no event led to")
        commands.append(command)

    def _job(self, line: Any, number: int) -> Job:
        if line.job_now is not None:
            return msgspec.convert(line.job_now, Job, from_attributes=True)
        if (job := self._jobs.get(line.job)) is None:
            why = f"job {line.job!r} was never submitted, or has ended already"
            self._refuse(number, f"not a line of an event log: {why}")
        return job

    def _refuse(self, number: int, why: str) -> NoReturn:
        raise InputError(f"{self.source}, line {number}: {why}") from None
