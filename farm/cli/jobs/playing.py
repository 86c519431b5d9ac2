"""``farm submit SCENARIO``: submits a scenario's workload to a long-running farm."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

from farm.app.jobs.submission import play
from farm.app.long_running.farm_place import reach
from farm.processes.signals import stop_on_signals
from farm.scenario import load_scenario
from farm.terminal.console import FarmConsole
from farm.terminal.output import print_json, progress
from farm.units import many


def play_scenario(
    scenario: Path,
    sets: Sequence[str],
    place: tuple[str | None, Path],
    prefix: str | None,
    most_waiting: int,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Submit a scenario's jobs at their arrival times, until the end or Ctrl-C."""
    wanted = load_scenario(scenario, sets)
    stop = stop_on_signals()
    prefix = prefix or uuid.uuid4().hex[:6]
    with reach(*place) as client, progress("submitting", silent=quiet or as_json) as update:

        def show(count: int, waiting: int) -> None:
            update(description=f"{many(count, 'job')} submitted, {waiting:,} waiting")

        count, known = play(wanted, client, prefix, most_waiting, stop, show)
    if as_json:
        print_json({"submitted": count, "known": known})
    elif not quiet:
        besides = f", {known:,} known already" if known else ""
        FarmConsole(stderr=True).print(f"submitted {many(count, 'job')}{besides}")
