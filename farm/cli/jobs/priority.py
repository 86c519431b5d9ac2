"""``farm priority``: changes the priority of waiting jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from farm.app.jobs.changing import change_priority
from farm.app.jobs.lookup import ids_given, live_of
from farm.cli.operating import operating
from farm.core.errors import InputError
from farm.core.model import LEAST_LEVEL, MAX_LEVEL
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Quiet, Redis
from farm.terminal.output import print_json
from farm.units import many


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
    with operating(redis, folder) as client:
        names, ended = live_of(client, ids_given(job_ids))
        change_priority(client, names, level=level, score=score, weight=weight)
    if as_json:
        print_json({"asked": len(names), "ended": ended})
    elif not quiet:
        over = f" ({ended:,} had ended already)" if ended else ""
        typer.echo(f"asked to change {many(len(names), 'job')}{over}")
