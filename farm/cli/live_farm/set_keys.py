"""``farm set``: sizes of pools and the order of jobs, changed while a farm runs."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from farm.app.jobs.setting import set_all, settings_of
from farm.cli.operating import operating
from farm.terminal.console import plain
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis
from farm.terminal.output import print_json


def set_keys(
    assignments: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE…]")] = None,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """Change keys of a live farm: sizes of pools, and the order of its jobs.

    Missing builders are requested, surplus ones retire when empty, idle ones first; a provisioner
    goes by new limits from its next plan on. Changes survive restarts of the scheduler until the
    scenario's scheduling section is changed. Without keys it shows what can be set.

    Args:
        assignments: Such as pools.linux.builders=20, pools.linux.provisioner.max=30,
            scheduling.policy=sjf, scheduling.weights.web=2.
    """
    with operating(redis, folder) as client:
        if not assignments:
            found = settings_of(client)
            if as_json:
                print_json(found)
            else:
                typer.echo("\n".join(plain(f"{key}={value}") for key, value in found.items()))
            return
        changes = set_all(client, assignments)
    if as_json:
        print_json(msgspec.to_builtins(changes))
        return
    for one in changes:
        typer.echo(plain(f"{one.key}: {one.before} -> {one.after}"))
    back = " ".join(f"{one.key}={one.before}" for one in changes)
    typer.echo(plain(f"back: farm set {back}"))
