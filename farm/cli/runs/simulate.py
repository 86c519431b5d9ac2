"""``farm simulate``: runs a scenario in virtual time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from shlex import quote

import typer

from farm.app.recorded.replaying import MAX_JOBS_AGAIN
from farm.app.recorded.result import Result
from farm.app.runs.simulated_run import simulated_run
from farm.cli.runs.run_summary import (
    EventLines,
    exit_code,
    kept_in,
    parse_checks,
    share_done,
    show,
    show_checks,
    with_size,
)
from farm.core.commands import Command
from farm.core.driver import Observer
from farm.core.errors import InputError
from farm.core.events import Event, JobFinished
from farm.results.run_directory import JOBS
from farm.scenario import Scenario, load_scenario
from farm.sim.engines import Engine, is_compiled
from farm.sim.too_large import expected_jobs
from farm.terminal.error_messages import on_interrupt
from farm.terminal.options import (
    AsJson,
    Checks,
    LearnFrom,
    Log,
    NoSave,
    Out,
    Overrides,
    Quiet,
    ScenarioFile,
    learning,
)
from farm.terminal.output import progress, remark, show_share, this_command
from farm.units import format_roughly


def simulate(
    scenario: ScenarioFile,
    sets: Overrides = None,
    out: Out = None,
    no_save: NoSave = False,
    learn_from: LearnFrom = None,
    engine: Engine = "auto",
    check: Checks = None,
    log: Log = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a scenario in virtual time and print its summary.

    Deterministic: the same scenario and seed give the same event log, byte for byte. So a run of
    20,000 jobs or more is kept as its inputs, unless --out is given or to play it takes longer than
    10 s: what asks for its jobs or events later plays it again.

    Args:
        engine: reference: the scheduler itself; fast: a compiled loop (same results, not for every
            scenario); auto: the latter wherever it can.

    Examples:
        farm simulate quickstart                                      an example, by its name
        farm simulate mine.yaml --policy sjf --seed 2                 another policy and seed
        farm simulate mine.yaml --set pools.linux.builders=+3 -o run  three more builders; kept
    """
    wanted = load_scenario(
        scenario,
        [*(sets or ()), *learning(learn_from)],
        on_step=partial(remark, quiet=quiet or as_json),
    )
    terms = parse_checks(check, wanted)
    if log and engine == "fast":
        raise InputError("--log: found with --engine fast; allowed: auto, reference")
    silent = quiet or as_json or log
    with (
        kept_in(out, wanted, save=not no_save) as kept,
        on_interrupt(lambda: _what_stays(kept)),
        progress(f"simulating {wanted.name}", silent=silent) as update,
    ):
        ticker = _Ticker(wanted, update, silent=silent)
        observers: list[Observer] = [] if silent else [ticker]
        if log:
            observers, engine = [EventLines()], "reference"
        run = simulated_run(
            wanted,
            out=kept,
            in_full=out is not None,
            observers=observers,
            engine=engine,
            watch=ticker.show if engine == "fast" else ticker.watch,
            on_step=partial(show_share, update),
        )
    result = Result(*run)
    show(result, as_json=as_json, quiet=quiet)
    if not (quiet or as_json):
        _say_why_not_compiled(result)
    met_all = show_checks(result, terms, as_json=as_json)
    if kept is not None and not (quiet or as_json):
        page = (
            f"; a page of it: {this_command()} report {quote(str(kept))} -o {quote(kept.name)}.html"
        )
        if (kept / JOBS).exists():
            remark(f"kept in {with_size(kept)}{page}")
        elif result.kept.summary.jobs.submitted > MAX_JOBS_AGAIN:
            remark(f"kept in {kept} as inputs and summary: its jobs are too many to be looked at")
        else:
            again = "as inputs, played again when needed (jobs.csv: --out RUN)"
            remark(f"kept in {kept} {again}{page}")
    raise typer.Exit(exit_code(result.kept.summary) if met_all else 1)


WORTH_A_REASON = 2.0
"""Real seconds. A shorter run raises no question why it took that long."""


def _say_why_not_compiled(result: Result) -> None:
    """Say after a run that took long what kept the compiled loop from playing it."""
    summary = result.kept.summary
    # without the loop main says so: then that is the reason, and no property of the scenario
    if summary.not_compiled and summary.wall_time >= WORTH_A_REASON and is_compiled():
        missing = f"the compiled loop does not cover {summary.not_compiled}"
        remark(f"played by the scheduler itself, as {missing}")


MIN_JOBS_FORECAST = 10_000_000
"""Jobs. Fewer are simulated in two or three seconds."""
FORECAST_AFTER = 2.0
"""Real seconds. The pace of less is that of the first few pieces of jobs."""


class RunForecast:
    """How long a run of many jobs will take, by its pace at the beginning."""

    def __init__(self, jobs: float) -> None:
        self._jobs = jobs
        self._first: tuple[float, int] | None = None

    def text(self, now: float, ended: int) -> str:
        """Return a sentence, once it is known; ``ended``: of the jobs, until now."""
        if self._first is None:
            self._first = now, ended
        first_at, ended_before = self._first
        if now - first_at < FORECAST_AFTER or ended == ended_before:
            return ""
        seconds = (now - first_at) * self._jobs / (ended - ended_before)
        step = 5.0 if seconds < 120 else 60.0
        about = format_roughly(step * max(1, round(seconds / step)))
        return f"{self._jobs:,.0f} jobs: about {about} on this machine"


class _Ticker:
    """Observer that shows the progress of a simulation, a few times per second."""

    def __init__(
        self, scenario: Scenario, update: Callable[..., None], *, silent: bool = False
    ) -> None:
        self._scenario, self._update = scenario, update
        self._events = self._ended = 0
        self._next = time.monotonic() + 0.2
        jobs = expected_jobs(scenario)
        #: what a run will take, if that is to be said
        self._forecast: RunForecast | None = None
        if MIN_JOBS_FORECAST <= jobs < math.inf and not silent:
            self._forecast = RunForecast(jobs)

    def __call__(self, event: Event, _: Sequence[Command]) -> None:
        self._events += 1
        self._ended += isinstance(event, JobFinished)
        if self._events & 0x3FF:
            return
        now = time.monotonic()
        if now >= self._next:
            self._next = now + 0.2
            self.show(event.at, self._ended, self._events)

    def watch(self, at: float, ended: int, events: int) -> None:
        """Show how far a compiled run is; of a long one, first say how long it will take.

        Unless the compiled loop is insisted on, it holds no jobs of a long run: it then draws,
        plays and sums up all the time, at one pace.
        """
        if self._forecast is not None and (text := self._forecast.text(time.monotonic(), ended)):
            remark(text)
            self._forecast = None
        self.show(at, ended, events)

    def show(self, at: float, ended: int, events: int) -> None:
        """Show how far it is."""
        done = share_done(self._scenario, at, ended)
        share = f"{done['completed'] / 10:.0f} % of " if done else ""
        text = f"{share}{self._scenario.name}: farm time {format_roughly(at)}, {events:,} events"
        self._update(description=text, **done)


def _what_stays(kept: Path | None) -> str:
    if kept is not None and any(kept.glob("*")):
        return f"what happened until then is in {kept}; the same command begins a new run"
    return "nothing is kept; the same command begins again"
