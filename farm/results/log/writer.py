"""The event log of a run (``events.jsonl``): every event and command, one per line.

The writer is an observer of the driver; :mod:`farm.results.log.reader` reads its lines back
exactly. :mod:`farm.results.log.lines` defines the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec.structs import astuple

from farm.core.commands import Command, EndJob, Ignored, StartJob
from farm.core.errors import InputError, file_access
from farm.core.events import Event, JobFinished, JobsSubmitted
from farm.core.model import Job
from farm.results.log.lines import CANCELLED, EMPTY, LINES, STORY, JobDetail

#: makes a line, its kind, and takes the values that are in it
Form = tuple[Callable[..., msgspec.Struct], str, Callable[[Any], tuple[object, ...]]]


class _Forms(dict[object, Form]):
    """How each event and command is written."""

    def __missing__(self, of: object) -> Form:
        line = LINES[of]
        self[of] = line.written, line.name, line.values
        return self[of]


_FORMS = _Forms()
_story = attrgetter(*(part.name for part in STORY))


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

    def __call__(self, event: Any, commands: Sequence[Any]) -> None:
        """Write one event and its commands; ``Ignored`` marks a stale event."""
        at, of = event.at, type(event)
        written, name, values = _FORMS[of]
        if of is JobsSubmitted:
            self._submission(event, type(commands) is Ignored)
        elif of is JobFinished and commands and _folds(event, commands[0]):
            end, commands = commands[0], commands[1:]
            story, now = _story(end), self._forget(end.job)
            self._lines.append(written(at, name, *values(event), False, True, *story, now))
        else:
            self._lines.append(written(at, name, *values(event), type(commands) is Ignored))
        for command in commands:
            of = type(command)
            written, name, values = _FORMS[of]
            if of is StartJob:
                now = _changed(command.job, self._jobs.get(command.job.id))
                self._lines.append(written(at, name, *values(command), now))
            elif of is EndJob:
                cancelled = command.outcome == "cancelled"
                parts = [*values(command), True, not cancelled, self._forget(command.job)]
                self._lines.append(written(at, CANCELLED.name if cancelled else name, *parts))
            else:
                self._lines.append(written(at, name, *values(command)))

    def take(self) -> bytes:
        """Return the lines made since the last call, in whole events; may be empty."""
        lines = list(self._lines)
        self._lines.clear()
        return self._encode(lines) if lines else b""

    def _submission(self, event: JobsSubmitted, ignored: bool) -> None:
        written, name, values = _FORMS[JobsSubmitted]
        batch = None
        if len(event.jobs) != 1:
            batch = self._batch = self._batch + 1
        if not event.jobs:
            self._lines.append(EMPTY.written(event.at, name, batch, True, ignored))
        ended = event.ended or None
        for job in event.jobs:
            self._lines.append(written(event.at, name, *values(job), batch, ended, ignored))
            ended = None
            if not ignored:
                self._jobs.setdefault(job.id, job)

    def _forget(self, job: Job) -> object:
        """Return a job that ends, if it has changed since its submission."""
        return _changed(job, self._jobs.pop(job.id, None))


def _changed(job: Job, submitted: Job | None) -> object:
    """Return the job in full, if it is not as it was submitted."""
    return None if submitted is job or submitted == job else JobDetail(*astuple(job))


def _folds(event: JobFinished, end: object) -> bool:
    """Return whether the event's line can include this command, its job's end, without loss."""
    # FOLDED, spelled out: tuples of these values would take a sixth more time
    return (
        type(end) is EndJob
        and end.job.id == event.job
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
        """Pass everything written so far to the operating system; raises InputError."""
        self.write(self.take())

    def write(self, lines: bytes) -> None:
        """Hand lines to the operating system; raises InputError."""
        with file_access(self._path, "write the event log"):
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
