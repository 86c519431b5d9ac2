"""Records a run of either world: in memory, and in a run directory if one is wanted."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Self

from farm.app.result import Result
from farm.assembly import run_info
from farm.core.commands import Command
from farm.core.driver import Observer
from farm.core.errors import InputError
from farm.core.events import Event
from farm.results.jobs_table import JobRow, job_rows
from farm.results.log.writer import EventLogWriter
from farm.results.run_directory import EVENTS, RunDirectory, RunState, load_run
from farm.results.summary.records import Recorder, RunRecords
from farm.results.summary.summary import Summary, WorldName, summarise
from farm.scenario import Scenario

History = list[tuple[Event, Sequence[Command]]]


class RunRecorder:
    """A run being recorded; its files are closed at the end of its ``with`` block.

    Args:
        scenario: what is run.
        world: where.
        out: the run directory to make; None: the run is kept in memory only.
        keep_events: in memory, the events are kept too.
    """

    def __init__(
        self, scenario: Scenario, world: WorldName, out: Path | None, *, keep_events: bool = False
    ) -> None:
        self._scenario = scenario
        self._world: WorldName = world
        self._recorder = Recorder()
        self._stack = ExitStack()
        self._directory: RunDirectory | None = None
        self._log: EventLogWriter | None = None
        self._history: History | None = None
        self.observers: list[Observer] = [self._recorder]
        self._started = _now()
        if out is not None:
            self._directory = RunDirectory.create(
                out, scenario=scenario.to_yaml(), world=world, started=self._started
            )
            self._log = self._stack.enter_context(EventLogWriter(self._directory.events_path))
            self.observers.append(self._log)
        elif keep_events:
            self._history = []
            self.observers.append(_keeping(self._history.append))
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def flush(self) -> None:
        """Write the event log up to now, for whoever follows a live run, or finds it killed."""
        if self._log is not None:
            self._log.flush()

    def finish(
        self, engine: str, *, state: RunState = "finished", warnings: Sequence[str] = ()
    ) -> Result:
        """Close the files and return what the run came to."""
        wall_time = time.monotonic() - self._began
        self._stack.close()
        records = self._recorder.records()
        info = run_info(self._scenario, self._world, engine)
        summary = summarise(records, info, wall_time, warnings)
        kept = RecordedRun(self._scenario, summary, records, self._history, state, self._started)
        if self._directory is None:
            return Result(kept)
        kept.write(self._directory)
        return Result(load_run(self._directory.path))


class RecordedRun:
    """A finished run that is in memory; read as ``farm.results.run_directory.Run`` is."""

    path = None

    def __init__(
        self,
        scenario: Scenario,
        summary: Summary,
        records: RunRecords,
        history: History | None,
        state: RunState,
        started: str,
    ) -> None:
        self._scenario = scenario
        self.summary = summary
        self.state = state
        self._records = records
        self._history = history
        self._started = started
        self._ended = _now()

    @property
    def label(self) -> str:
        """What to call the run in a table."""
        return f"{self.summary.name} ({self.summary.policy}, seed {self.summary.seed})"

    @property
    def scenario_text(self) -> str:
        """The scenario as it was resolved."""
        return self._scenario.to_yaml()

    @cached_property
    def jobs(self) -> list[JobRow]:
        """The rows of jobs.csv."""
        return list(job_rows(self._records, self._scenario.scheduling.fair_share))

    def log_lines(self) -> Iterator[bytes]:
        """Yield the lines of the event log. Raises InputError if no events were kept."""
        with tempfile.TemporaryDirectory(prefix="farm-events-") as folder:
            path = Path(folder) / EVENTS
            self._write_log(path)
            with path.open("rb") as file:
                yield from file

    def save(self, path: Path) -> None:
        """Write a run directory. Raises InputError if it exists, or no events were kept."""
        self._check_history()
        directory = RunDirectory.create(
            path, scenario=self.scenario_text, world=self.summary.world, started=self._started
        )
        self._write_log(directory.events_path)
        self.write(directory)

    def write(self, directory: RunDirectory) -> None:
        """Write all but the event log into a run directory."""
        directory.finish(
            self._records,
            self.summary,
            ended=self._ended,
            fair_share=self._scenario.scheduling.fair_share,
            state=self.state,
        )

    def _write_log(self, path: Path) -> None:
        with EventLogWriter(path) as log:
            for event, commands in self._check_history():
                log(event, commands)

    def _check_history(self) -> History:
        if self._history is None:
            raise InputError("events: none were kept of this run; allowed: keep_events=True")
        return self._history


def _keeping(append: Callable[[tuple[Event, Sequence[Command]]], None]) -> Observer:
    def observe(event: Event, commands: Sequence[Command]) -> None:
        append((event, commands))

    return observe


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
