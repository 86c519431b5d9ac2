"""What both kinds of run share: observers, the run directory, the summary at the end."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import typer
from rich.console import Console

from farm.assembly import run_info
from farm.core.driver import Observer
from farm.results.log.writer import EventLogWriter
from farm.results.run_directory import RunDirectory, RunState
from farm.results.summary.records import Recorder
from farm.results.summary.summary import Summary, WorldName, summarise
from farm.results.summary.table import render_summary
from farm.scenario import Scenario


class Recording:
    """A run being recorded: in memory, and in a run directory if one is wanted."""

    def __init__(self, scenario: Scenario, world: WorldName, out: Path | None) -> None:
        self._scenario = scenario
        self._world: WorldName = world
        self._recorder = Recorder()
        self._stack = ExitStack()
        self._directory: RunDirectory | None = None
        self._log: EventLogWriter | None = None
        self.observers: list[Observer] = [self._recorder]
        if out is not None:
            self._directory = RunDirectory.create(
                out, scenario=scenario.to_yaml(), world=world, started=_now()
            )
            self._log = self._stack.enter_context(EventLogWriter(self._directory.events_path))
            self.observers.append(self._log)
        self._began = time.monotonic()

    @property
    def path(self) -> Path | None:
        """The run directory, if there is one."""
        return None if self._directory is None else self._directory.path

    def flush(self) -> None:
        """Write the event log up to now, for whoever follows a live run, or finds it killed."""
        if self._log is not None:
            self._log.flush()

    def finish(
        self, engine: str, *, state: RunState = "finished", warnings: Sequence[str] = ()
    ) -> Summary:
        """Close the files and return the summary."""
        wall_time = time.monotonic() - self._began
        self._stack.close()
        records = self._recorder.records()
        info = run_info(self._scenario, self._world, engine)
        summary = summarise(records, info, wall_time, warnings)
        if self._directory is not None:
            fair_share = self._scenario.scheduling.fair_share
            self._directory.finish(
                records, summary, ended=_now(), fair_share=fair_share, state=state
            )
        return summary

    def abandon(self) -> None:
        """Close the files of a run that could not be carried through."""
        self._stack.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def show(summary: Summary, *, as_json: bool) -> None:
    """Print the summary, for a person or for a machine; warnings on standard error."""
    if as_json:
        text = msgspec.json.format(msgspec.json.encode(summary), indent=2)
        typer.echo(text.decode())
    else:
        Console().print(render_summary(summary))
    for warning in summary.warnings:
        typer.echo(f"warning: {warning}", err=True)


def suggest(*lines: str) -> None:
    """Say what to try next: on standard error, so that a reader of the output is not bothered."""
    console = Console(stderr=True, highlight=False)
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)


def this_command() -> str:
    """Return what the user typed to reach us, to be typed again (``.venv/bin/farm``, say)."""
    typed = Path(sys.argv[0])
    return str(typed) if typed.name == "farm" and shutil.which("farm") is None else "farm"


def exit_code(summary: Summary) -> int:
    """Return 1 when jobs were lost, or the user's own functions failed: not a good end."""
    return 1 if summary.jobs.lost or summary.warnings else 0
