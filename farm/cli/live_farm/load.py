"""``farm load``: submits a scenario's workload to a long-running farm."""

from __future__ import annotations

import uuid
from typing import Annotated

import typer

from farm.app.jobs.submission import play
from farm.app.long_running.farm_place import reach
from farm.processes.signals import stop_on_signals
from farm.scenario import load_scenario
from farm.terminal.console import FarmConsole
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Overrides, Quiet, Redis, ScenarioFile
from farm.terminal.output import print_json, progress
from farm.units import many


def load(
    scenario: ScenarioFile,
    sets: Overrides = None,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    name: str | None = None,
    most_waiting: Annotated[int, typer.Option(min=1)] = 10_000,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Submit a scenario's jobs at their arrival times, until the end or Ctrl-C.

    Sources without count and duration never end. Only the workload and the seed are taken from the
    scenario; pools and scheduling are the farm's own.

    Args:
        name: Prefix of the jobs' ids. Default: a new one each time.
        most_waiting: Pause while this many jobs are waiting.
    """
    wanted = load_scenario(scenario, sets or ())
    stop = stop_on_signals()
    prefix = name or uuid.uuid4().hex[:6]
    silent = quiet or as_json
    with reach(redis, folder) as client, progress("submitting", silent=silent) as update:

        def show(count: int, waiting: int) -> None:
            update(description=f"{many(count, 'job')} submitted, {waiting:,} waiting")

        count, known = play(wanted, client, prefix, most_waiting, stop, show)
    if as_json:
        print_json({"submitted": count, "known": known})
    elif not quiet:
        besides = f", {known:,} known already" if known else ""
        FarmConsole(stderr=True).print(f"submitted {many(count, 'job')}{besides}")
