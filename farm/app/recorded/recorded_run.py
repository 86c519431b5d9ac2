"""A finished run that is in memory; it can be written into a run directory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from farm.core.commands import Command
from farm.core.errors import InputError
from farm.core.events import Event
from farm.results.jobs_table import JobRow, job_rows
from farm.results.log.reader import Entry
from farm.results.log.writer import EventLogWriter
from farm.results.run_directory import EVENTS, RunDirectory, RunState
from farm.results.summary.records import RunRecords
from farm.results.summary.summary import Summary
from farm.scenario import Scenario

History = list[tuple[Event, Sequence[Command]]]


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
        self._ended = now()

    @property
    def has_events(self) -> bool:
        """Whether the event log can be asked for."""
        return self._history is not None

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

    def entries(self) -> Iterator[Entry]:
        """Yield the events with their commands. Raises InputError if no events were kept."""
        for event, commands in self._check_history():
            yield Entry(event, commands, 0)

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


def now() -> str:
    """Return the instant, as meta.json has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
