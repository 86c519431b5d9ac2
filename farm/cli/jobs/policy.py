"""``farm policy``: shows or changes the order in which a live farm runs its jobs."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
import typer

from farm.app.jobs.changing import choose
from farm.app.long_running.farm_place import check_fair_share
from farm.cli.operating import operating
from farm.core.errors import InputError
from farm.core.events import SchedulingChanged
from farm.core.rules import Choices
from farm.live.wire.messages import UNSTAMPED
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis


def policy(
    name: Annotated[str | None, typer.Argument(metavar="[POLICY]")] = None,
    aging_factor: float | None = None,
    weights: Annotated[list[str] | None, typer.Option("--weight", metavar="PATH=WEIGHT")] = None,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """Show or change policy, ageing factor and fair-share weights of a live farm.

    Waiting jobs are sorted again immediately. The change survives restarts of the scheduler, until
    its scenario is changed.

    Args:
        name: A policy, or the scenario's own module:function.
        aging_factor: Seconds of run time that a second of waiting offsets.
        weights: Fair-share weight of an invocation among its siblings: web=2 has twice the share;
            repeatable.
    """
    if aging_factor is not None and not 0 <= aging_factor < 1e9:
        allowed = "a number from 0, below 1e9"
        raise InputError(f"--aging-factor: found {aging_factor:g}; allowed: {allowed}")
    changed = _weights_of(weights)
    with operating(redis, folder) as client:
        if changed:
            check_fair_share(client, "--weight")
        wanted = SchedulingChanged(UNSTAMPED, name, aging_factor, changed)
        asked = wanted != SchedulingChanged(UNSTAMPED)
        found = choose(client, wanted) if asked else client.status().choices
    typer.echo(msgspec.json.encode(found).decode() if as_json else _shown(found))


def _weights_of(texts: list[str] | None) -> dict[str, float] | None:
    found: dict[str, float] = {}
    for text in texts or ():
        path, _, number = text.rpartition("=")
        try:
            found[path] = float(number)
        except ValueError:
            found[path] = math.nan
        if not path or not 0 < found[path] < 1e9:
            allowed = "PATH=WEIGHT above 0 and below 1e9, as in web=2"
            raise InputError(f"--weight: found {text!r:.60}; allowed: {allowed}")
    return found or None


def _shown(choices: Choices) -> str:
    weights = [f"weight of {path}: {weight:g}" for path, weight in choices.weights.items()]
    factor = f"ageing factor {choices.aging_factor:g}"
    return "\n".join([f"policy {choices.policy}, {factor}", *weights])
