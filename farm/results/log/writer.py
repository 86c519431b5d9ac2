"""The event log of a run (``events.jsonl``): every event and command, one per line.

The writer is an observer of the driver; :mod:`farm.results.log.reader` reads its lines back
exactly. :mod:`farm.results.log.lines` defines the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec

from farm.core.commands import Command, EndJob, Ignored, RequestBuilder, StartJob, log_name
from farm.core.errors import InputError, RunError, file_access
from farm.core.events import BuilderJoined, Event, JobFinished, JobsSubmitted
from farm.core.model import Job
from farm.results.log.lines import (
    PLAIN_COMMANDS,
    PLAIN_EVENTS,
    DispatchedLine,
    EmptyBatchLine,
    EndedLine,
    FinishedLine,
    JobDetail,
    JoinedLine,
    RequestedLine,
    SubmittedLine,
    builder_values,
    job_values,
    story_values,
    values_of,
)

_SUBMITTED, _JOINED = log_name(JobsSubmitted), log_name(BuilderJoined)
_DISPATCHED, _FINISHED = log_name(StartJob), log_name(JobFinished)
_finished_values = values_of(JobFinished, "at")
_end_values = values_of(EndJob, "job", "pool")

EventWriter = Callable[[Any, Sequence[Command]], int]
CommandWriter = Callable[[float, Any], None]


class EventLogLines:
    """Observer that makes the lines of each event and its commands.

    The same events and commands give the same bytes.
    """

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder().encode_lines
        self._lines: list[msgspec.Struct] = []
        self._batch = 0
        #: the jobs that have not ended, as they were submitted
        self._jobs: dict[str, Job] = {}
        self._event_writers: dict[type[Event], EventWriter] = {
            kind: self._plain_event(line, log_name(kind), values_of(kind, "at"))
            for kind, line in PLAIN_EVENTS.items()
        }
        self._event_writers[JobsSubmitted] = self._write_submission
        self._event_writers[JobFinished] = self._write_finish
        self._event_writers[BuilderJoined] = self._write_join
        self._command_writers: dict[type[Command], CommandWriter] = {
            kind: self._plain_command(line, log_name(kind), values_of(kind))
            for kind, line in PLAIN_COMMANDS.items()
        }
        self._command_writers[StartJob] = self._write_dispatch
        self._command_writers[EndJob] = self._write_end
        self._command_writers[RequestBuilder] = self._write_request

    def __call__(self, event: Event, commands: Sequence[Command]) -> None:
        """Write one event and its commands; ``Ignored`` marks a stale event."""
        written = self._event_writers[type(event)](event, commands)
        if len(commands) > written:
            at, writers = event.at, self._command_writers
            for command in commands[written:] if written else commands:
                writers[type(command)](at, command)

    def take(self) -> bytes:
        """Return the lines made since the last call, in whole events; may be empty."""
        lines = list(self._lines)
        self._lines.clear()
        return self._encode(lines) if lines else b""

    # Each event's writer returns how many of the commands its line includes (0 or 1).

    def _plain_event(self, line: Any, kind: str, values: Any) -> EventWriter:
        append = self._lines.append

        def write(event: Any, commands: Sequence[Command]) -> int:
            append(line(event.at, kind, *values(event), type(commands) is Ignored))
            return 0

        return write

    def _write_submission(self, event: Any, commands: Sequence[Command]) -> int:
        jobs, ignored = event.jobs, type(commands) is Ignored
        batch = None
        if len(jobs) != 1:
            self._batch += 1
            batch = self._batch
        if not jobs:
            self._lines.append(EmptyBatchLine(event.at, _SUBMITTED, self._batch, True, ignored))
        for job in jobs:
            self._lines.append(
                SubmittedLine(event.at, _SUBMITTED, *job_values(job), batch, ignored)
            )
            if not ignored:
                self._jobs.setdefault(job.id, job)
        return 0

    def _write_join(self, event: Any, commands: Sequence[Command]) -> int:
        values = builder_values(event.builder)
        self._lines.append(JoinedLine(event.at, _JOINED, *values, type(commands) is Ignored))
        return 0

    def _write_finish(self, event: Any, commands: Sequence[Command]) -> int:
        values = _finished_values(event)
        first = commands[0] if commands else None
        if type(first) is not EndJob or not _tells_the_end(event, first):
            self._lines.append(
                FinishedLine(event.at, _FINISHED, *values, type(commands) is Ignored)
            )
            return 0
        story, now = story_values(first), self._end(first.job)
        line = FinishedLine(event.at, _FINISHED, *values, False, True, *story, now)
        self._lines.append(line)
        return 1

    def _plain_command(self, line: Any, kind: str, values: Any) -> CommandWriter:
        append = self._lines.append

        def write(at: float, command: Any) -> None:
            append(line(at, kind, *values(command)))

        return write

    def _write_request(self, at: float, command: Any) -> None:
        builder, outside = command.builder, command.outside
        values = builder_values(builder)
        self._lines.append(RequestedLine(at, log_name(RequestBuilder), *values, outside))

    def _write_dispatch(self, at: float, command: Any) -> None:
        job = command.job
        known = self._jobs.get(job.id)
        now = None if known is job or known == job else JobDetail(*job_values(job))
        self._lines.append(
            DispatchedLine(
                at,
                _DISPATCHED,
                job.id,
                command.attempt,
                command.builder,
                command.slot,
                command.size,
                now,
            )
        )

    def _write_end(self, at: float, command: Any) -> None:
        cancelled = command.outcome == "cancelled"
        kind = "job-cancelled" if cancelled else _FINISHED
        *values, cause = _end_values(command)
        now = self._end(command.job)
        self._lines.append(
            EndedLine(at, kind, command.job.id, *values, cause, True, not cancelled, now)
        )

    def _end(self, job: Job) -> Any:
        """Forget a job; return its detail if it has changed since its submission."""
        known = self._jobs.pop(job.id, None)
        return None if known is job or known == job else JobDetail(*job_values(job))


def _tells_the_end(event: JobFinished, end: EndJob) -> bool:
    """Return whether the event's line can include this end without loss."""
    return (
        end.job.id == event.job
        and end.outcome == event.outcome != "cancelled"
        and end.finished_at == event.at
        and end.builder == event.builder
        and end.attempts == event.attempt
        and end.reason == event.reason
    )


class EventLogWriter(EventLogLines):
    """Observer that writes the event log of a run to a file.

    At most about ``buffer_lines`` lines are kept in memory; they are written together, in whole
    events, and at :meth:`close`. A live run calls :meth:`flush` between batches of events. Raises
    InputError if the file exists.
    """

    def __init__(self, path: Path | str, buffer_lines: int = 4096) -> None:
        super().__init__()
        self._path = path
        self._limit = buffer_lines
        try:
            self._file = Path(path).open("xb")  # noqa: SIM115 - closed by close()
        except FileExistsError:
            raise InputError(f"{path}: exists already; an event log is never overwritten") from None
        except OSError as error:
            raise InputError(f"{path}: cannot write the event log: {error.strerror}") from None

    def __call__(self, event: Event, commands: Sequence[Command]) -> None:
        """Write one event and its commands; ``Ignored`` marks a stale event."""
        super().__call__(event, commands)
        if len(self._lines) >= self._limit:
            self.flush()

    def flush(self) -> None:
        """Pass everything written so far to the operating system. Raises RunError if it cannot."""
        self.write(self.take())

    def write(self, lines: bytes) -> None:
        """Hand lines to the operating system. Raises RunError if it cannot."""
        with file_access(self._path, "write the event log", RunError):
            self._file.write(lines)
            self._file.flush()

    def close(self) -> None:
        """Write the remaining lines and close the file; may be called twice."""
        if not self._file.closed:
            try:
                self.flush()
            finally:
                with suppress(OSError):  # flush() has raised the error already
                    self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
