"""``farm priority``: changes the priority of waiting jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from farm.app.jobs.lookup import ids_given, live_of
from farm.app.long_running.farm_place import reach, warn_if_unattended
from farm.core.errors import InputError
from farm.core.events import PriorityChanged
from farm.core.model import LEAST_LEVEL, MAX_LEVEL
from farm.live.wire.messages import UNSTAMPED
from farm.terminal.console import many
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Quiet, Redis
from farm.terminal.output import print_json


def priority(
    job_ids: Annotated[list[str], typer.Argument(metavar="ID…")],
    level: Annotated[int | None, typer.Option(min=LEAST_LEVEL, max=MAX_LEVEL)] = None,
    score: float | None = None,
    weight: Annotated[
        int | None, typer.Option("--priority", min=LEAST_LEVEL, max=MAX_LEVEL)
    ] = None,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Change the level, score or fair-share priority of waiting jobs on a live farm.

    Values that are not given stay the same. Running and ended jobs are not changed.

    Args:
        job_ids: Job ids; - reads them from standard input.
        level: Static level: higher levels go first under every policy.
        score: Launchpad's score: higher goes first.
        weight: Fair-share weight as in REv2: smaller is more urgent.
    """
    if level is None and score is None and weight is None:
        raise InputError("found nothing to change; allowed: --level, --score, --priority")
    if score is not None and not abs(score) < float("inf"):
        raise InputError(f"--score: found {score:g}; allowed: a finite number")
    with reach(redis, folder) as client:
        warn_if_unattended(client)
        names, ended = live_of(client, ids_given(job_ids))
        client.send(*(PriorityChanged(UNSTAMPED, name, level, score, weight) for name in names))
    if as_json:
        print_json({"asked": len(names), "ended": ended})
    elif not quiet:
        over = f" ({ended:,} had ended already)" if ended else ""
        typer.echo(f"asked to change {many(len(names), 'job')}{over}")
