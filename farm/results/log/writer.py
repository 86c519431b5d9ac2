"""The event log of a run (``events.jsonl``): every fact and every order, one a line.

The writer is an observer of the driver; :mod:`farm.results.log.reader` reads its lines back
exactly. What each line looks like is :mod:`farm.results.log.lines`' business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec

from farm.core.commands import IGNORED, Command, EndJob, RequestBuilder, StartJob
from farm.core.errors import InputError, RunError
from farm.core.events import BuilderJoined, Event, JobFinished, JobsSubmitted
from farm.core.model import Job
from farm.results.log.lines import (
    PLAIN_FACTS,
    PLAIN_ORDERS,
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

_finished_values = values_of(JobFinished, "at")
_end_values = values_of(EndJob, "job")

FactWriter = Callable[[Any, Sequence[Command]], int]
OrderWriter = Callable[[float, Any], None]


class EventLogWriter:
    """Observer that writes each fact and the orders it led to, in the order they happened.

    At most about ``buffer_lines`` lines are held in memory; they are written together, whole
    facts at a time, and at :meth:`close`. A live run calls :meth:`flush` between batches of facts.
    The same facts and orders give the same bytes. Raises InputError if the file exists.
    """

    def __init__(self, path: Path | str, buffer_lines: int = 4096) -> None:
        self._path = path
        try:
            self._file = Path(path).open("xb")  # noqa: SIM115 - closed by close()
        except FileExistsError:
            raise InputError(f"{path}: exists already; an event log is never overwritten") from None
        except OSError as error:
            raise InputError(f"{path}: cannot write the event log: {error.strerror}") from None
        self._encode = msgspec.json.Encoder().encode_lines
        self._limit = buffer_lines
        self._lines: list[msgspec.Struct] = []
        self._batch = 0
        #: the jobs that have not ended, as they were submitted
        self._jobs: dict[str, Job] = {}
        self._facts: dict[type[Event], FactWriter] = {
            fact: self._plain_fact(line, values_of(fact, "at"))
            for fact, line in PLAIN_FACTS.items()
        }
        self._facts[JobsSubmitted] = self._write_submission
        self._facts[JobFinished] = self._write_finish
        self._facts[BuilderJoined] = self._write_join
        self._orders: dict[type[Command], OrderWriter] = {
            order: self._plain_order(line, values_of(order)) for order, line in PLAIN_ORDERS.items()
        }
        self._orders[StartJob] = self._write_dispatch
        self._orders[EndJob] = self._write_end
        self._orders[RequestBuilder] = self._write_request

    def __call__(self, event: Event, commands: Sequence[Command]) -> None:
        """Take in one fact and its orders; IGNORED (by identity) marks a stale fact."""
        written = self._facts[type(event)](event, commands)
        if len(commands) > written:
            at, orders = event.at, self._orders
            for command in commands[written:] if written else commands:
                orders[type(command)](at, command)
        if len(self._lines) >= self._limit:
            self.flush()

    def flush(self) -> None:
        """Hand everything taken in so far to the operating system. Raises RunError if it cannot."""
        lines = list(self._lines)
        self._lines.clear()
        try:
            if lines:
                self._file.write(self._encode(lines))
            self._file.flush()
        except OSError as error:
            raise RunError(f"{self._path}: cannot write the event log: {error.strerror}") from None

    def close(self) -> None:
        """Write what is left and close the file; closing twice does nothing."""
        if not self._file.closed:
            try:
                self.flush()
            finally:
                with suppress(OSError):  # flush() has said what there is to say
                    self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Each fact's writer returns how many of the orders its line tells as well (0 or 1).

    def _plain_fact(self, line: Any, values: Any) -> FactWriter:
        append = self._lines.append

        def write(event: Any, commands: Sequence[Command]) -> int:
            append(line(event.at, event.kind, *values(event), commands is IGNORED))
            return 0

        return write

    def _write_submission(self, event: Any, commands: Sequence[Command]) -> int:
        jobs, ignored = event.jobs, commands is IGNORED
        batch = None
        if len(jobs) != 1:
            self._batch += 1
            batch = self._batch
        if not jobs:
            self._lines.append(EmptyBatchLine(event.at, event.kind, self._batch, True, ignored))
        for job in jobs:
            self._lines.append(
                SubmittedLine(event.at, event.kind, *job_values(job), batch, ignored)
            )
            if not ignored:
                self._jobs.setdefault(job.id, job)
        return 0

    def _write_join(self, event: Any, commands: Sequence[Command]) -> int:
        values = builder_values(event.builder)
        self._lines.append(JoinedLine(event.at, event.kind, *values, commands is IGNORED))
        return 0

    def _write_finish(self, event: Any, commands: Sequence[Command]) -> int:
        values = _finished_values(event)
        first = commands[0] if commands else None
        if type(first) is not EndJob or not _tells_the_end(event, first):
            self._lines.append(FinishedLine(event.at, event.kind, *values, commands is IGNORED))
            return 0
        story, now = story_values(first), self._end(first.job)
        line = FinishedLine(event.at, event.kind, *values, False, True, *story, now)
        self._lines.append(line)
        return 1

    def _plain_order(self, line: Any, values: Any) -> OrderWriter:
        append = self._lines.append

        def write(at: float, command: Any) -> None:
            append(line(at, command.kind, *values(command)))

        return write

    def _write_request(self, at: float, command: Any) -> None:
        builder, outside = command.builder, command.outside
        values = builder_values(builder)
        self._lines.append(RequestedLine(at, command.kind, *values, outside))

    def _write_dispatch(self, at: float, command: Any) -> None:
        job = command.job
        known = self._jobs.get(job.id)
        now = None if known is job or known == job else JobDetail(*job_values(job))
        self._lines.append(
            DispatchedLine(
                at, command.kind, job.id, command.attempt, command.builder, command.slot, now
            )
        )

    def _write_end(self, at: float, command: Any) -> None:
        cancelled = command.outcome == "cancelled"
        kind = "job-cancelled" if cancelled else "job-finished"
        values = _end_values(command)
        now = self._end(command.job)
        self._lines.append(EndedLine(at, kind, command.job.id, *values, True, not cancelled, now))

    def _end(self, job: Job) -> Any:
        """Forget a job; return its detail if it is not as it was submitted."""
        known = self._jobs.pop(job.id, None)
        return None if known is job or known == job else JobDetail(*job_values(job))


def _tells_the_end(event: JobFinished, end: EndJob) -> bool:
    """Whether the fact's line can tell this end too: nothing in it would be lost."""
    return (
        end.job.id == event.job
        and end.outcome == event.outcome != "cancelled"
        and end.finished_at == event.at
        and end.builder == event.builder
        and end.attempts == event.attempt
        and end.reason == event.reason
    )
