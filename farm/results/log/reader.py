"""Reads back an event log: exactly the events and commands that were written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from operator import attrgetter, or_
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import msgspec

from farm.core.commands import IGNORED, Command, EndJob, Ignored, RequestBuilder, StartJob, log_name
from farm.core.errors import InputError, file_access
from farm.core.events import BuilderJoined, Event, JobFinished, JobsSubmitted
from farm.core.model import Builder, Cause, Job
from farm.results.log.lines import (
    LINES,
    PLAIN_COMMANDS,
    PLAIN_EVENTS,
    EmptyBatchLine,
    fields_of,
    values_of,
)

PIECE = 1 << 20
"""Bytes of a log, and up to the end of a line, that are decoded together."""


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


def _tagged(line: Any, name: str) -> Any:
    """Return the type of line that is recognised by its kind, so that all are decoded as one."""
    keys = {field.name: field.encode_name for field in msgspec.structs.fields(line)}
    return msgspec.defstruct(
        line.__name__, fields_of(line, "event"), rename=keys, gc=False, tag=name, tag_field="event"
    )


_TAGGED = {struct: _tagged(line, log_name(struct)) for struct, line in LINES.items()}
_DECIDED = _tagged(LINES[EndJob], log_name(JobFinished))
_CANCELLED = _tagged(LINES[EndJob], "job-cancelled")
_EMPTY = _tagged(EmptyBatchLine, log_name(JobsSubmitted))
#: all lines but those few that share their kind with others
_USUAL = [*(line for struct, line in _TAGGED.items() if struct is not EndJob), _CANCELLED]
_DECODERS = {
    **{(line.__struct_config__.tag, False): msgspec.json.Decoder(line) for line in _USUAL},
    (log_name(JobFinished), True): msgspec.json.Decoder(_DECIDED),
}
_all_usual = msgspec.json.Decoder(reduce(or_, _USUAL)).decode_lines
_decode_instant = msgspec.json.Decoder(_Instant).decode
_decode_kind = msgspec.json.Decoder(_Kind).decode
_decode_empty = msgspec.json.Decoder(_EMPTY).decode

#: why a job ended, if an older log does not say
_CAUSES = {"succeeded": Cause.FINISHED, "failed": Cause.FAILED, "cancelled": Cause.REQUESTED}
_END = [name for name in EndJob.__struct_fields__ if name not in ("job", "cause", "pool")]
#: what a line says of an end, in the order of EndJob's fields
_decided_values = attrgetter(*_END)
_told_values = attrgetter(*[{"attempts": "attempt", "finished_at": "at"}.get(n, n) for n in _END])


def read_log(path: Path | str) -> Iterator[Entry]:
    """Yield the entries of an event log in order.

    A truncated last line (its writer was killed) is left out. Raises InputError, with the line
    number, for a file that is missing or invalid.
    """
    path = Path(path)
    with file_access(path, "read the event log"):
        file = path.open("rb")
    with file:
        yield from entries_of(_pieces(file), str(path))


def last_instant(path: Path) -> float:
    """Return the farm time of an event log's last line, 0 without any; only that is decoded.

    Raises InputError for a file that is missing or invalid.
    """
    last = b""
    with file_access(path, "read the event log"), path.open("rb") as file:
        for line in file:
            last = line
    try:
        return _decode_instant(last).at_s if last else 0.0
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: the last line is not of an event log: {error}") from None


def entries_of(pieces: Iterable[bytes], source: str = "event log") -> Iterator[Entry]:
    """Yield the entries of an event log that comes in pieces of whole lines, as ``read_log``."""
    reader, before = _LogReader(source), 0
    for piece in pieces:
        for number, line in enumerate(_decoded(piece, reader, before), before + 1):
            if (done := reader.take(line, number)) is not None:
                yield done
        before += piece.count(b"\n")
    if (last := reader.finish()) is not None:
        yield last


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(PIECE) + file.readline():
        yield piece


def _decoded(piece: bytes, reader: _LogReader, before: int) -> Iterable[Any]:
    """Return the lines of a piece; whether all are well and usual shows when they are decoded."""
    try:
        lines = _all_usual(piece)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        lines = []
    if len(lines) == piece.count(b"\n"):
        return lines
    return _one_by_one(piece, reader, before)


def _one_by_one(piece: bytes, reader: _LogReader, before: int) -> Iterator[Any]:
    for number, raw in enumerate(piece.splitlines(keepends=True), before + 1):
        try:
            line = reader.decode(raw, number)
        except InputError:
            if raw.endswith(b"\n"):
                raise
            reader.mark_cut()
            return
        yield line


class _LogReader:
    """Assembles lines into entries; keeps the jobs that have not ended, and builders' pools."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.entry: Entry | None = None
        self._batch: int | None = None
        self._batch_jobs: list[Job] = []
        self._jobs: dict[str, Job] = {}
        #: of every builder that has joined
        self._pools: dict[str | None, str] = {}
        self._events: dict[Any, Callable[[Any], Event]] = {
            **{_TAGGED[struct]: _plain_event(struct) for struct in PLAIN_EVENTS},
            _TAGGED[JobsSubmitted]: self._submission,
            _EMPTY: lambda line: JobsSubmitted(line.at, ()),
            _TAGGED[BuilderJoined]: self._joined,
            _TAGGED[JobFinished]: _finish,
        }
        self._commands: dict[Any, Callable[[Any, int], Command]] = {
            **{_TAGGED[struct]: _plain_command(struct) for struct in PLAIN_COMMANDS},
            _TAGGED[RequestBuilder]: lambda line, _: RequestBuilder(_builder(line), line.outside),
            _TAGGED[StartJob]: self._dispatch,
            _DECIDED: partial(self._end, _decided_values),
            _CANCELLED: partial(self._end, _decided_values),
        }

    def decode(self, raw: bytes, number: int) -> Any:
        """Return the line's struct; raises InputError."""
        try:
            kind = _decode_kind(raw)
            if kind.empty and kind.event == log_name(JobsSubmitted):
                return _decode_empty(raw)
            decided = kind.decided and kind.event == log_name(JobFinished)
            decoder = _DECODERS.get((kind.event, decided))
            if decoder is not None:
                return decoder.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InputError(
                f"{self.source}, line {number}: not a line of an event log: {error}"
            ) from None
        known = ", ".join(sorted({kind for kind, _ in _DECODERS}))
        raise InputError(
            f"{self.source}, line {number}: unknown event {kind.event!r}; known: {known}"
        )

    def mark_cut(self) -> None:
        """Mark the current entry as one whose commands may be incomplete."""
        if self.entry is not None:
            self.entry.cut = True

    def take(self, line: Any, number: int) -> Entry | None:
        """Read one line; return the previous entry if this line completes it."""
        kind = type(line)
        if (command := self._commands.get(kind)) is not None:
            self._append(command(line, number), number)
            return None
        if self._batch is not None and getattr(line, "batch", None) == self._batch:
            self._batch_jobs.append(self._submitted(line))
            return None
        done = self.finish()
        event = self._events[kind](line)
        self.entry = Entry(event, IGNORED if line.ignored else [], number)
        if kind is _TAGGED[JobFinished] and line.ended:
            self._append(self._end(_told_values, line, number), number)
        return done

    def finish(self) -> Entry | None:
        """Return the current entry, now complete; None before the first."""
        entry = self.entry
        if entry is not None and self._batch is not None:
            entry.event = JobsSubmitted(entry.event.at, tuple(self._batch_jobs))
        self._batch, self._batch_jobs = None, []
        self.entry = None
        return entry

    def _submission(self, line: Any) -> JobsSubmitted:
        job = self._submitted(line)
        if line.batch is not None:
            self._batch, self._batch_jobs = line.batch, [job]
        return JobsSubmitted(line.at, (job,))

    def _submitted(self, line: Any) -> Job:
        job = msgspec.convert(line, Job, from_attributes=True)
        if not line.ignored:
            self._jobs.setdefault(job.id, job)
        return job

    def _joined(self, line: Any) -> BuilderJoined:
        builder = _builder(line)
        if not line.ignored:
            self._pools[builder.id] = builder.pool
        return BuilderJoined(line.at, builder)

    def _dispatch(self, line: Any, number: int) -> StartJob:
        return StartJob(self._job(line, number), line.attempt, line.builder, line.slot, line.size)

    def _end(self, values: Callable[[Any], Iterable[Any]], line: Any, number: int) -> EndJob:
        job = self._job(line, number)
        self._jobs.pop(line.job, None)
        told = [*values(line), line.cause or _CAUSES[line.outcome], self._pools.get(line.builder)]
        return EndJob(job, *told)

    def _append(self, command: Command, number: int) -> None:
        commands = None if self.entry is None else self.entry.commands
        if not isinstance(commands, list):
            self._refuse(number, "a command that no event led to")
        commands.append(command)

    def _job(self, line: Any, number: int) -> Job:
        if line.job_now is not None:
            return msgspec.convert(line.job_now, Job, from_attributes=True)
        if (job := self._jobs.get(line.job)) is None:
            self._refuse(number, f"job {line.job!r} was never submitted, or has ended already")
        return job

    def _refuse(self, number: int, why: str) -> NoReturn:
        raise InputError(f"{self.source}, line {number}: not a line of an event log: {why}")


def _plain_event(struct: Any) -> Callable[[Any], Event]:
    values = values_of(struct)
    return lambda line: struct(*values(line))


def _plain_command(struct: Any) -> Callable[[Any, int], Command]:
    values = values_of(struct)
    return lambda line, _: struct(*values(line))


def _finish(line: Any) -> JobFinished:
    return JobFinished(line.at, line.job, line.attempt, line.builder, line.outcome, line.reason)


def _builder(line: Any) -> Builder:
    return msgspec.convert(line, Builder, from_attributes=True)
