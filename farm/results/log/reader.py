"""Reads back an event log: exactly the events and commands that were written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

import msgspec

from farm.core.commands import (
    IGNORED,
    Command,
    EndJob,
    Ignored,
    RequestBuilder,
    StartJob,
    log_name,
)
from farm.core.errors import InputError
from farm.core.events import BuilderJoined, Event, JobFinished, JobsSubmitted
from farm.core.model import Builder, Cause, Job
from farm.results.log.lines import (
    PLAIN_COMMANDS,
    PLAIN_EVENTS,
    STORY,
    DispatchedLine,
    EmptyBatchLine,
    EndedLine,
    FinishedLine,
    JoinedLine,
    RequestedLine,
    SubmittedLine,
)


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


_LINES: dict[tuple[str, bool], Any] = {
    ("job-submitted", False): SubmittedLine,
    ("builder-joined", False): JoinedLine,
    ("builder-requested", False): RequestedLine,
    ("job-dispatched", False): DispatchedLine,
    ("job-finished", False): FinishedLine,
    ("job-finished", True): EndedLine,
    ("job-cancelled", False): EndedLine,
    **{(log_name(struct), False): line for struct, line in (PLAIN_EVENTS | PLAIN_COMMANDS).items()},
}
_PLAIN: dict[Any, type[msgspec.Struct]] = {
    line: struct for struct, line in (PLAIN_EVENTS | PLAIN_COMMANDS).items()
}
#: why a job ended, if an older log does not say
_CAUSES = {"succeeded": Cause.FINISHED, "failed": Cause.FAILED, "cancelled": Cause.REQUESTED}
_COMMAND_LINES = {RequestedLine, DispatchedLine, EndedLine, *PLAIN_COMMANDS.values()}


def read_log(path: Path | str, on_note: Callable[[str], None] | None = None) -> Iterator[Entry]:
    """Yield the entries of an event log in order.

    A truncated last line (its writer was killed) is left out with a note to ``on_note``. Raises
    InputError, with the line number, for a file that is missing or invalid.
    """
    path = Path(path)
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"{path}: cannot read the event log: {error.strerror}") from None
    with file:
        reader = _LogReader(path)
        for number, raw in enumerate(file, 1):
            whole = raw.endswith(b"\n")
            try:
                line = reader.decode(raw, number)
            except InputError:
                if whole:
                    raise
                if on_note:
                    on_note(f"{path}, line {number}: cut short; the log ends before it")
                reader.mark_cut()
                break
            if (done := reader.take(line, number)) is not None:
                yield done
        if (last := reader.finish()) is not None:
            yield last


class _LogReader:
    """Assembles lines into entries; keeps the jobs that have not ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entry: Entry | None = None
        self._batch: int | None = None
        self._batch_jobs: list[Job] = []
        self._jobs: dict[str, Job] = {}
        self._kind = msgspec.json.Decoder(_Kind)
        self._decoders = {key: msgspec.json.Decoder(line) for key, line in _LINES.items()}
        self._empty = msgspec.json.Decoder(EmptyBatchLine)

    def decode(self, raw: bytes, number: int) -> Any:
        """Return the line's struct; raises InputError."""
        try:
            kind = self._kind.decode(raw)
            if kind.empty and kind.event == log_name(JobsSubmitted):
                return self._empty.decode(raw)
            decoder = self._decoders.get((kind.event, kind.decided))
            if decoder is not None:
                return decoder.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InputError(
                f"{self.path}, line {number}: not a line of an event log: {error}"
            ) from None
        known = ", ".join(sorted({kind for kind, _ in _LINES}))
        raise InputError(
            f"{self.path}, line {number}: unknown event {kind.event!r}; known: {known}"
        )

    def mark_cut(self) -> None:
        """Mark the current entry as one whose commands may be incomplete."""
        if self.entry is not None:
            self.entry.cut = True

    def take(self, line: Any, number: int) -> Entry | None:
        """Take in one line; return the previous entry if this line completes it."""
        if type(line) in _COMMAND_LINES:
            self._append(self._command(line, number), number)
            return None
        if type(line) is SubmittedLine and line.batch is not None and line.batch == self._batch:
            self._batch_jobs.append(self._submitted(line))
            return None
        done = self.finish()
        self.entry = Entry(self._event(line), IGNORED if line.ignored else [], number)
        if type(line) is FinishedLine and line.ended:
            self._append(self._merged_end(line, number), number)
        return done

    def finish(self) -> Entry | None:
        """Return the current entry, now complete; None before the first."""
        entry = self.entry
        if entry is not None and self._batch is not None:
            entry.event = JobsSubmitted(entry.event.at, tuple(self._batch_jobs))
        self._batch, self._batch_jobs = None, []
        self.entry = None
        return entry

    def _event(self, line: Any) -> Any:
        kind = type(line)
        if kind is SubmittedLine:
            job = self._submitted(line)
            if line.batch is not None:
                self._batch, self._batch_jobs = line.batch, [job]
            return JobsSubmitted(line.at, (job,))
        if kind is EmptyBatchLine:
            return JobsSubmitted(line.at, ())
        if kind is JoinedLine:
            return BuilderJoined(line.at, _builder(line))
        if kind is FinishedLine:
            return JobFinished(
                line.at, line.job, line.attempt, line.builder, line.outcome, line.reason
            )
        return _PLAIN[kind](at=line.at, **_same_fields(_PLAIN[kind], line, "at"))

    def _submitted(self, line: Any) -> Job:
        job = Job(id=line.job, **_same_fields(Job, line, "id"))
        if not line.ignored:
            self._jobs.setdefault(job.id, job)
        return job

    def _command(self, line: Any, number: int) -> Command:
        kind = type(line)
        if kind is RequestedLine:
            return RequestBuilder(_builder(line), line.outside)
        if kind is DispatchedLine:
            job = self._job(line, number)
            return StartJob(job, line.attempt, line.builder, line.slot)
        if kind is EndedLine:
            job = self._job(line, number)
            self._jobs.pop(line.job, None)
            told = _same_fields(EndJob, line, "job") | {"cause": _cause_of(line)}
            return EndJob(job, **told)
        command: Any = _PLAIN[kind](**_same_fields(_PLAIN[kind], line))
        return cast("Command", command)

    def _merged_end(self, line: Any, number: int) -> EndJob:
        job = self._job(line, number)
        self._jobs.pop(line.job, None)
        return EndJob(
            job,
            outcome=line.outcome,
            attempts=line.attempt,
            finished_at=line.at,
            builder=line.builder,
            reason=line.reason,
            **({name: getattr(line, name) for name in STORY} | {"cause": _cause_of(line)}),
        )

    def _append(self, command: Command, number: int) -> None:
        if self.entry is None or self.entry.ignored:
            self._refuse(number, "a command that no event led to")
        assert isinstance(self.entry.commands, list)  # noqa: S101 - made so in take()
        self.entry.commands.append(command)

    def _job(self, line: Any, number: int) -> Job:
        if line.job_now is not None:
            return Job(**_same_fields(Job, line.job_now))
        if (job := self._jobs.get(line.job)) is None:
            self._refuse(number, f"job {line.job!r} was never submitted, or has ended already")
        return job

    def _refuse(self, number: int, why: str) -> NoReturn:
        raise InputError(f"{self.path}, line {number}: not a line of an event log: {why}")


def _cause_of(line: Any) -> Any:
    return line.cause or _CAUSES[line.outcome]


def _builder(line: Any) -> Builder:
    return Builder(id=line.builder, **_same_fields(Builder, line, "id"))


def _same_fields(struct: type[msgspec.Struct], line: Any, *leave_out: str) -> dict[str, Any]:
    """Return the line's value for each of the struct's fields."""
    names = struct.__struct_fields__
    return {name: getattr(line, name) for name in names if name not in leave_out}
