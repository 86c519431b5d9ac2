"""``farm policy``: shows or changes the order in which a live farm runs its jobs."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from farm.app.jobs.settings import asked_of, set_all
from farm.cli.operating import operating
from farm.core.rules import Choices
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis


def policy(
    name: Annotated[str | None, typer.Argument(metavar="[POLICY]")] = None,
    aging_factor: str | None = None,
    weights: Annotated[list[str] | None, typer.Option("--weight", metavar="PATH=WEIGHT")] = None,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """Show or change policy, ageing factor and weights of a live farm (now: farm set).

    Args:
        name: A policy, or the scenario's own module:function.
        aging_factor: Seconds of run time that a second of waiting offsets.
        weights: Fair-share weight of an invocation among its siblings; repeatable.
    """
    keys = {"policy": name, "aging_factor": aging_factor}
    changes = [f"scheduling.{key}={value}" for key, value in keys.items() if value is not None]
    changes += [f"scheduling.weights.{text}" for text in weights or ()]
    words = " ".join(["farm set", *changes])
    typer.echo(f"note: farm policy is now {words}", err=True)
    asked = asked_of(changes)
    with operating(redis, folder) as client:
        if asked:
            set_all(client, asked)
        found = client.status().choices
    typer.echo(msgspec.json.encode(found).decode() if as_json else _shown(found))


def _shown(choices: Choices) -> str:
    weights = [f"weight of {path}: {weight:g}" for path, weight in choices.weights.items()]
    factor = f"ageing factor {choices.aging_factor:g}"
    return "\n".join([f"policy {choices.policy}, {factor}", *weights])
