"""``farm set``: sizes of pools, the order of jobs and their urgency, while a farm runs."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from farm.app.jobs.filter import JobFilter
from farm.app.jobs.job_lookup import ids_given, live_of
from farm.app.jobs.settings import asked_of, set_all, settings_of, urgency_of
from farm.cli.jobs.job_options import Where
from farm.cli.operating import operating
from farm.core.errors import InputError
from farm.core.events import PriorityChanged
from farm.live.operating.client import FarmClient
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis
from farm.terminal.output import print_json
from farm.terminal.plain_text import plain
from farm.units import many


def set_keys(
    assignments: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE…")] = None,
    job: Annotated[list[str] | None, typer.Option("--job", metavar="ID")] = None,
    where: Where = None,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """Change keys of a live farm: sizes of pools, the order of its jobs, and their urgency.

    Missing builders are requested, surplus ones retire when empty, idle ones first; a provisioner
    goes by new limits from its next plan on. Changes survive restarts of the farm, until the
    scenario's scheduling section or sizes are changed. Without keys it shows what can be set.

    Args:
        assignments: Such as pools.linux.builders=20, pools.linux.provisioner.max=30,
            scheduling.policy=sjf, scheduling.weights.web=2; of jobs urgency=5 (a higher one goes
            first, under every policy), or the other systems' words: score=10, priority=-100.
        job: The keys are of this waiting job; repeatable; - reads ids from standard input.

    Examples:
        farm set                                           what can be set, and its values
        farm set pools.linux.builders=20 scheduling.policy=sjf
        farm set urgency=5 --job build-17                  one job first
    """
    if job and where:
        raise InputError("found --job and --where; allowed: one of them")
    urgency = urgency_of(assignments or ()) if job or where else None
    asked = asked_of(() if urgency else assignments or ())
    with operating(redis, folder) as client:
        if urgency:
            _set_jobs(client, urgency, job, where, as_json=as_json)
            return
        if not asked:
            found = settings_of(client)
            if as_json:
                print_json(found)
            else:
                typer.echo("\n".join(plain(f"{key}={value}") for key, value in found.items()))
            return
        changes = set_all(client, asked)
    if as_json:
        print_json(msgspec.to_builtins(changes))
        return
    for one in changes:
        typer.echo(plain(f"{one.key}: {one.before} -> {one.after}"))
    back = " ".join(f"{one.key}={one.before}" for one in changes)
    typer.echo(plain(f"back: farm set {back}"))


def _set_jobs(
    client: FarmClient,
    asked: PriorityChanged,
    job: list[str] | None,
    where: list[str] | None,
    *,
    as_json: bool,
) -> None:
    """Change the urgency of waiting jobs; running and ended ones stay as they are."""
    if job:
        names, ended = live_of(client, ids_given(job))
    else:
        wanted = JobFilter().where([*(where or ()), "state=waiting"], ["waiting"])
        names, ended = [one.job.id for one in wanted.found(client, stable=True)], 0
    client.send(*(msgspec.structs.replace(asked, job=name) for name in names))
    if as_json:
        print_json({"asked": len(names), "ended": ended})
        return
    over = f" ({ended:,} had ended already)" if ended else ""
    typer.echo(f"asked to change {many(len(names), 'job')}{over}")
