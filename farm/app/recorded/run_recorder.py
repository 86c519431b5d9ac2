"""Records a run of either world: in memory, and in a run directory if one is wanted."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Self

import msgspec

from farm.assembly import run_info
from farm.core.driver import Observer
from farm.results.log.writer import EventLogLines, EventLogWriter
from farm.results.recorded_run import FinishedRun, LogPieces, RecordedRun, now
from farm.results.run_directory import RunDirectory, RunState, load_run
from farm.results.summary.figures import WorldName
from farm.results.summary.lateness import lateness_of
from farm.results.summary.summary import Measured, too_fast
from farm.results.table.recorder import Recorder, RunRecords
from farm.scenario import Scenario
from farm.workload import Workload

MIN_JOBS_AS_INPUTS = 20_000
"""Jobs from which on a simulation is kept as its inputs, unless it was asked for in full.

Fewer jobs and their events, some 20 MB, are written in tenths of a second."""
MAX_TIME_AGAIN = 10.0
"""Seconds of a processor. What took longer to play is not played again to be looked at."""


def jobs_without_log(out: Path | None, *, in_full: bool, keep_events: bool) -> float:
    """Return from how many jobs on a compiled run needs no event log.

    Args:
        out: the run directory to make; None: the run is kept in memory only.
        in_full: the run directory is to have the events of any number of jobs.
        keep_events: in memory, the events are kept too.
    """
    if keep_events or (out is not None and in_full):
        return math.inf
    return 0.0 if out is None else MIN_JOBS_AS_INPUTS


class KeptRun(NamedTuple):
    """A run that has ended, and the records of its jobs and builders."""

    kept: FinishedRun
    records: RunRecords


class RunRecorder:
    """A run being recorded; its files are closed at the end of its ``with`` block.

    Args:
        scenario: what is run.
        world: which.
        out: the run directory to make; None: the run is kept in memory only.
        workload: it has remarks, and what really happened to its jobs.
        inputs: the digests of what the scenario reads.
        keep_events: in memory, the events are kept too.
        writes_log: the run directory gets an event log; one without is kept as its inputs.
        began: on the monotonic clock; None: now.
    """

    def __init__(
        self,
        scenario: Scenario,
        world: WorldName,
        out: Path | None,
        workload: Workload,
        *,
        inputs: Mapping[str, str] = MappingProxyType({}),
        keep_events: bool = False,
        writes_log: bool = True,
        began: float | None = None,
    ) -> None:
        self._remarks = [*workload.remarks, *scenario.remarks]
        self._recorded = workload.recorded
        self._scenario = scenario
        self._world: WorldName = world
        self._recorder = Recorder()
        self._stack = ExitStack()
        self._directory: RunDirectory | None = None
        self._log: EventLogWriter | None = None
        self._lines: EventLogLines | None = None
        self._compiled_log: LogPieces | None = None
        self._inputs = inputs
        self.observers: list[Observer] = [self._recorder]
        self._started = now()
        if out is not None:
            self._directory = RunDirectory.create(
                out,
                scenario=scenario.to_yaml(),
                world=world,
                started=self._started,
                inputs=inputs,
            )
            if writes_log:
                self._log = self._stack.enter_context(EventLogWriter(self._directory.events_path))
                self.observers.append(self._log)
        elif keep_events:
            self._lines = EventLogLines()
            self.observers.append(self._lines)
        self._began = time.monotonic() if began is None else began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def flush(self) -> None:
        """Write the event log up to now, for readers of a live run, or of one that was killed."""
        if self._log is not None:
            self._log.flush()

    def take_log(self, log: LogPieces, on_share: Callable[[float], None] = lambda _: None) -> None:
        """Write the event log of a compiled run, or keep in memory what makes it.

        ``on_share`` is given how much of it is written.
        """
        if self._log is None:
            self._compiled_log = log
            return
        for number, piece in enumerate(log, start=1):
            self._log.write(piece)
            on_share(number / len(log))

    def discard(self) -> None:
        """Remove the run directory, if there is one: nothing of the run is kept."""
        self._stack.close()
        if self._directory is not None:
            shutil.rmtree(self._directory.path)

    def finish(
        self,
        engine: str,
        *,
        not_compiled: str = "",
        records: RunRecords | None = None,
        state: RunState = "finished",
        warnings: Sequence[str] = (),
        remarks: Sequence[str] = (),
        until: float = math.inf,
        play_time: float | None = None,
        on_jobs: Callable[[float], None] = lambda _: None,
    ) -> KeptRun:
        """Close the files and return what the run came to.

        Args:
            engine: who played it.
            not_compiled: what the compiled loop did not cover; empty: it played, or was not asked.
            records: of a run that had no observers.
            state: an interrupted run ended with its last event.
            warnings: on the user's functions.
            remarks: on a live run.
            until: when it ended, if its phases end later.
            play_time: seconds of a processor that it takes to play the run again, which may then be
                kept as its inputs; None: it cannot be played again.
            on_jobs: given how much of the table of jobs is written.
        """
        wall_time = time.monotonic() - self._began
        self._stack.close()
        records = (records or self._recorder.records()).beside(self._recorded)
        info = run_info(self._scenario, self._world, engine)
        until = 0.0 if state == "interrupted" else min(until, info.until)
        info = msgspec.structs.replace(
            info, until=until, not_compiled=not_compiled or msgspec.UNSET
        )
        lateness = None
        if self._world == "live":
            self._remarks += [*too_fast(records, self._scenario.live.speed), *remarks]
            lateness = lateness_of(records.jobs, self._scenario.pools)
        measured = Measured(records, info, wall_time, warnings, self._remarks, lateness)
        log = self._compiled_log
        if log is None and self._lines is not None:
            log = [self._lines.take()]
        kept = RecordedRun(
            self._scenario, measured, records, log, state, self._started, self._inputs
        )
        if self._directory is None:
            return KeptRun(kept, records)
        is_short = play_time is not None and play_time <= MAX_TIME_AGAIN
        if self._log is None or (is_short and records.count >= MIN_JOBS_AS_INPUTS):
            self._directory.close(kept.summary, ended=now(), state=state)
            return KeptRun(kept, records)
        kept.write(self._directory, on_jobs)
        run = load_run(self._directory.path)
        # as they were written: to read them takes long
        run.jobs = kept.jobs
        run.scenario = self._scenario
        return KeptRun(run, records)
