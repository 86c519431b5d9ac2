"""The report of a run in progress: its page is written again as its event log grows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from farm.app.recorded.result import Result
from farm.app.report import report
from farm.assembly import run_info
from farm.core.commands import Command, EndJob, RequeueJob, StartJob
from farm.core.errors import file_access
from farm.core.events import Event, JobStarted
from farm.results.log.reader import entries_of
from farm.results.recorded_run import RecordedRun
from farm.results.run_directory import EVENTS, Run, load_run
from farm.results.summary.summary import Measured
from farm.results.table.records import Recorder
from farm.units import format_roughly
from farm.whole_files import PIECE, ending

#: real seconds between two looks at the log, and after which a browser loads the page again
EVERY = 5.0


def follow_run(
    path: Path,
    out: Path,
    *,
    every: float = EVERY,
    on_step: Callable[[str, float], object] = lambda *_: None,
    wait: Callable[[float], object] = time.sleep,
) -> Path:
    """Write the page of a run again while its event log grows, and a last time when it has ended.

    A browser that shows the page loads it again ``every`` real seconds, until the run has ended.
    Ctrl-C ends it too, with a page of the run so far. Raises InputError for what is not a run.
    """
    if load_run(path, unfinished=True).state != "running":
        return report(path, out=out, on_step=on_step)
    so_far = _SoFar(load_run(path, unfinished=True))
    drawn = -1

    def pause() -> bool:
        """Draw what is new, and wait; return whether the run was in progress before."""
        nonlocal drawn
        going = load_run(path, unfinished=True).state == "running"
        if going:
            if so_far.events != drawn:
                drawn = so_far.events
                report(so_far.result(), out=out, refresh=every)
            on_step(f"following, at {format_roughly(so_far.at)} of farm time", 0.0)
            wait(every)
        return going

    try:
        for entry in entries_of(so_far.kept(_growing(path / EVENTS, pause))):
            so_far.take(entry.event, entry.commands)
    except KeyboardInterrupt:
        return report(so_far.result(), out=out)
    return report(path, out=out, on_step=on_step)


def _growing(path: Path, pause: Callable[[], bool]) -> Iterator[bytes]:
    """Yield whole lines of a file, until it has no more of them and ``pause`` returns False."""
    rest, going = b"", True
    with file_access(path, "read the event log"), ending(path).open("rb") as file:
        while True:
            found = file.read(PIECE)
            whole, end, rest = (rest + found).rpartition(b"\n")
            if end:
                yield whole + end
            elif not found:
                if not going:
                    return
                going = pause()


class _SoFar:
    """What has happened in a run up to now."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._recorder = Recorder()
        self._log: list[bytes] = []
        #: by job, the attempt that runs, as if it never ended
        self._running: dict[str, EndJob] = {}
        self.events, self.at = 0, 0.0

    def kept(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Keep the log's pieces, for the figures that need them."""
        for piece in pieces:
            self._log.append(piece)
            yield piece

    def take(self, event: Event, commands: Sequence[Command]) -> None:
        """Take in one event and its commands."""
        self._recorder(event, commands)
        self.events, self.at = self.events + 1, event.at
        if isinstance(event, JobStarted) and (run := self._running.get(event.job)):
            self._running[event.job] = msgspec.structs.replace(run, started_at=event.at)
        for command in commands:
            if isinstance(command, StartJob):
                self._running[command.job.id] = EndJob(
                    command.job, "cancelled", command.attempt, event.at, math.nan,
                    event.at, event.at, command.builder, command.slot,
                )  # fmt: skip
            elif isinstance(command, RequeueJob):
                self._running.pop(command.job, None)
            elif isinstance(command, EndJob):
                self._running.pop(command.job.id, None)

    def result(self) -> Result:
        """Return the run as if it ended now."""
        scenario, meta = self._run.scenario, self._run.meta
        records = self._recorder.records(self._running)
        info = msgspec.structs.replace(run_info(scenario, meta.world, "in progress"), until=0.0)
        remark = (
            f"In progress: this is the run up to {format_roughly(self.at)} of farm time; its "
            f"{len(records.lost):,} open jobs count as lost."
        )
        measured = Measured(records, info, 0.0, remarks=[remark])
        kept = RecordedRun(scenario, measured, records, self._log, "running", meta.started)
        return Result(kept)
