"""``farm down``: stops a long-running farm."""

from __future__ import annotations

from typing import Annotated

import typer

from farm.app.long_running.background_farm import count_running, end_farm, place_to_end
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Quiet
from farm.terminal.output import print_json, remark
from farm.units import many


def down(
    folder: Dir = DEFAULT_DIR,
    now: Annotated[bool, typer.Option("--now")] = False,
    timeout: Annotated[float | None, typer.Option(min=0)] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Stop the farm that farm up started, after its running jobs.

    Waiting jobs stay in DIR (or on the given server) for the next farm up.

    Args:
        now: Stop running jobs too (they are requeued for the next time).
        timeout: Seconds to wait for running jobs. Default: no limit.

    Examples:
        farm down        after its running jobs
        farm down --now  at once; they start again next time
        farm down --timeout 60
    """
    place = place_to_end(folder)
    running = 0 if now or quiet else count_running(place)
    if running:
        what = f"{many(running, 'running job')} first"
        remark(f"the farm ends {what} (farm down --now: at once) …")
    end_farm(place, now=now, timeout=timeout)
    if as_json:
        print_json({"down": str(folder)})
    elif not quiet:
        typer.echo("the farm is down")
