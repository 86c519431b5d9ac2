"""Records a run of either world: in memory, and in a run directory if one is wanted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from farm.app.recorded.recorded_run import History, RecordedRun, now
from farm.app.result import Result
from farm.assembly import run_info
from farm.core.commands import Command
from farm.core.driver import Observer
from farm.core.events import Event
from farm.results.log.writer import EventLogWriter
from farm.results.run_directory import RunDirectory, RunState, load_run
from farm.results.summary.records import Recorder, RunRecords
from farm.results.summary.summary import WorldName, summarise, too_fast
from farm.scenario import Scenario


class RunRecorder:
    """A run being recorded; its files are closed at the end of its ``with`` block.

    Args:
        scenario: what is run.
        world: where.
        out: the run directory to make; None: the run is kept in memory only.
        keep_events: in memory, the events are kept too.
        began: when the run began, on the monotonic clock; None: now.
        remarks: what the summary is to say beside the results.
    """

    def __init__(
        self,
        scenario: Scenario,
        world: WorldName,
        out: Path | None,
        *,
        keep_events: bool = False,
        began: float | None = None,
        remarks: Sequence[str] = (),
    ) -> None:
        self._remarks = list(remarks)
        self._scenario = scenario
        self._world: WorldName = world
        self._recorder = Recorder()
        self._stack = ExitStack()
        self._directory: RunDirectory | None = None
        self._log: EventLogWriter | None = None
        self._history: History | None = None
        self.observers: list[Observer] = [self._recorder]
        self._started = now()
        if out is not None:
            self._directory = RunDirectory.create(
                out, scenario=scenario.to_yaml(), world=world, started=self._started
            )
            self._log = self._stack.enter_context(EventLogWriter(self._directory.events_path))
            self.observers.append(self._log)
        elif keep_events:
            self._history = []
            self.observers.append(_keeping(self._history.append))
        self._began = time.monotonic() if began is None else began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def flush(self) -> None:
        """Write the event log up to now, for readers of a live run, or of one that was killed."""
        if self._log is not None:
            self._log.flush()

    def finish(
        self,
        engine: str,
        *,
        records: RunRecords | None = None,
        state: RunState = "finished",
        warnings: Sequence[str] = (),
    ) -> Result:
        """Close the files and return what the run came to.

        ``records``: of a run that had no observers.
        """
        wall_time = time.monotonic() - self._began
        self._stack.close()
        records = records or self._recorder.records()
        info = run_info(self._scenario, self._world, engine)
        if self._world == "live":
            self._remarks += too_fast(records, self._scenario.live.speed)
        summary = summarise(records, info, wall_time, warnings, self._remarks)
        kept = RecordedRun(self._scenario, summary, records, self._history, state, self._started)
        if self._directory is None:
            return Result(kept)
        kept.write(self._directory)
        return Result(load_run(self._directory.path))


def _keeping(append: Callable[[tuple[Event, Sequence[Command]]], None]) -> Observer:
    def observe(event: Event, commands: Sequence[Command]) -> None:
        append((event, commands))

    return observe
