"""Runs that were kept as their inputs: what else belongs to them is made by playing these again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from farm.app.recorded.replaying import replayed
from farm.results import run_directory
from farm.results.run_directory import Run

if TYPE_CHECKING:
    from farm.results.recorded_run import FinishedRun


def load_run(path: Path | str, *, unfinished: bool = False) -> Run:
    """Return the run in a directory, as ``farm.results.run_directory`` does.

    One that is kept as its inputs is played when its jobs or events are asked for.
    """
    return run_directory.load_run(path, unfinished=unfinished, again=played_again)


def played_again(run: Run, events: bool) -> FinishedRun:
    """Return a run that is kept as its inputs, played again; raises as ``replayed`` does."""
    from farm.app.runs.simulated_run import simulated_run  # noqa: PLC0415 - most runs are written

    return replayed(run, events, simulated_run)
