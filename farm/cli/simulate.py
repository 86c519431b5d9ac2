"""``farm simulate``: a scenario in virtual time."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from farm.app.simulated_run import Engine, simulated_run
from farm.cli.display.run_summary import exit_code, show, suggest, this_command
from farm.core.commands import Command
from farm.core.driver import Observer
from farm.core.events import Event
from farm.scenario import load_scenario
from farm.terminal.options import (
    AsJson,
    LearnFrom,
    Out,
    Overrides,
    Quiet,
    ScenarioFile,
    learning,
)
from farm.units import format_duration


def simulate(
    scenario: ScenarioFile,
    sets: Overrides = None,
    out: Out = None,
    learn_from: LearnFrom = None,
    engine: Annotated[
        Engine,
        typer.Option(
            help="Who plays it: the scheduler itself, a compiled loop (much faster, the same "
            "results, not for every scenario), or whoever is sooner done."
        ),
    ] = "auto",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a scenario in virtual time and print its summary.

    Deterministic: the same scenario and seed give the same event log, byte for byte.
    """
    wanted = load_scenario(scenario, [*(sets or ()), *learning(learn_from)])
    try:
        with nullcontext() if quiet or as_json else _Ticker() as ticker:
            observers = [ticker] if ticker else ()
            result = simulated_run(wanted, out=out, observers=observers, engine=engine)
    except KeyboardInterrupt:
        if out is not None and out.is_dir():
            suggest(f"interrupted; what happened until then is in {out}")
        raise
    show(result, as_json=as_json)
    if out is not None and not (quiet or as_json):
        suggest(f"a page of it: {this_command()} report {out} -o {out.name}.html")
    raise typer.Exit(exit_code(result.kept.summary))


class _Ticker:
    """An observer that shows how far the simulation is; lines where there is no terminal."""

    def __init__(self) -> None:
        self._moves = sys.stderr.isatty()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
            transient=True,
            disable=not self._moves,
        )
        self._task = self._progress.add_task("starting")
        self._events = 0
        self._every = 0.2 if self._moves else 2.5
        self._next = time.monotonic() + self._every

    def __enter__(self) -> Observer:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, event: Event, commands: Sequence[Command]) -> None:  # noqa: ARG002 - an Observer
        self._events += 1
        if self._events & 0x3FF:
            return
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every
        said = f"farm time {format_duration(round(event.at))}, {self._events:,} events"
        if self._moves:
            self._progress.update(self._task, description=said)
        else:
            sys.stderr.write(f"{said}\n")
