"""A finished run that is in memory; it can be written into a run directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from farm.core.errors import InputError
from farm.results.run_directory import Run, RunDirectory, RunState, this_version
from farm.results.summary.figures import Figures
from farm.results.summary.summary import Measured, Summary
from farm.results.summary.tally import Tallied
from farm.results.table.job_table import JobTable, table_of, tables_of
from farm.results.table.jobs_csv import write_jobs
from farm.results.table.recorder import RunRecords
from farm.scenario import Scenario

if TYPE_CHECKING:
    from farm.results.log.reader import Entry


class LogPieces(Protocol):
    """An event log in pieces of whole lines, which may be made each time it is read."""

    def __iter__(self) -> Iterator[bytes]: ...
    def __len__(self) -> int: ...


class RecordedRun:
    """A finished run that is in memory; read as ``Run`` is.

    Args:
        scenario: as it was resolved.
        measured: the figures, and the summary.
        records: of jobs and builders.
        log: the event log; None: no events were kept.
        state: whether it was interrupted.
        started: ISO 8601.
        inputs: the digests of what the scenario reads, for meta.json.
    """

    path = None

    def __init__(
        self,
        scenario: Scenario,
        measured: Measured,
        records: RunRecords,
        log: LogPieces | None,
        state: RunState,
        started: str,
        inputs: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.scenario = scenario
        self.measured = measured
        self.state = state
        self._records = records
        self._log = log
        self._inputs = inputs
        self.started = started
        self._ended = now()

    @property
    def version(self) -> str:
        """The version of the farm that made it."""
        return this_version()

    @cached_property
    def summary(self) -> Summary:
        """The summary."""
        return self.measured.summary

    @property
    def summary_without_parties(self) -> Summary:
        """The summary without what each party got, which takes half of the time to make."""
        return self.measured.summary_without_parties

    @property
    def figures(self) -> Figures:
        """The figures by which runs are compared; the rest of the summary need not be made."""
        return self.measured.figures

    @property
    def has_events(self) -> bool:
        """Whether there is an event log."""
        return self._log is not None

    @property
    def has_jobs(self) -> bool:
        """Whether its jobs can be looked at: it has not let them go."""
        return not isinstance(self._records, Tallied)

    @property
    def label(self) -> str:
        """What to call the run in a table."""
        return f"{self.summary.name} ({self.summary.policy}, seed {self.summary.seed})"

    @property
    def scenario_text(self) -> str:
        """The scenario as it was resolved."""
        return self.scenario.to_yaml()

    @cached_property
    def jobs(self) -> JobTable:
        """The table of jobs. Raises InputError for those of a run that let them go."""
        if not self.has_jobs:
            raise InputError(f"{self.label}: found no jobs, which were too many to be held")
        return table_of(self._records, self.scenario.scheduling.fair_share)

    def entries(self) -> Iterator[Entry]:
        """Yield the events with their commands. Raises InputError if no events were kept."""
        from farm.results.log.reader import entries_of  # noqa: PLC0415 - decoders for all lines

        return entries_of(self.log_pieces())

    def log_lines(self) -> Iterator[bytes]:
        """Yield the lines of the event log. Raises InputError if no events were kept."""
        for piece in self.log_pieces():
            yield from piece.splitlines(keepends=True)

    def log_pieces(self) -> Iterator[bytes]:
        """Return the event log in pieces of whole lines; raises as ``log_lines``."""
        if self._log is None:
            raise InputError("events: none were kept of this run; allowed: keep_events=True")
        return iter(self._log)

    def save(self, path: Path) -> None:
        """Write a run directory. Raises InputError if it exists, or no events were kept."""
        pieces = self.log_pieces()
        directory = RunDirectory.create(
            path,
            scenario=self.scenario_text,
            world=self.summary.world,
            started=self.started,
            inputs=self._inputs,
        )
        with directory.events_path.open("wb") as log:
            log.writelines(pieces)
        self.write(directory)

    def write(
        self, directory: RunDirectory, on_jobs: Callable[[float], None] = lambda _: None
    ) -> None:
        """Write all but the event log into a run directory; see ``RunDirectory.finish``."""
        directory.finish(
            self._records,
            self.summary,
            ended=self._ended,
            state=self.state,
            on_jobs=on_jobs,
            fair_share=self.scenario.scheduling.fair_share,
        )

    def write_jobs(self, path: Path) -> None:
        """Write the table of jobs, as it is in a run directory."""
        write_jobs(path, tables_of(self._records, self.scenario.scheduling.fair_share))


FinishedRun = Run | RecordedRun
"""Read back, or in memory: its summary, scenario, jobs and events, and ``save``."""


def now() -> str:
    """Return the instant, as meta.json has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
