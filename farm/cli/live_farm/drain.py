"""``farm drain`` and ``farm undrain``: builders accept no more jobs, or accept jobs again."""

from __future__ import annotations

from typing import Annotated

import typer

from farm.app.long_running import builders
from farm.app.long_running.builders import Asked
from farm.cli.operating import operating
from farm.terminal.console import plain
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Quiet, Redis
from farm.terminal.output import print_json
from farm.units import many

#: maximum number of builders listed in the output
NAMED = 10

Patterns = Annotated[
    list[str],
    typer.Argument(metavar="PATTERN…", help="Builder ids, or shell patterns such as 'linux-*'."),
]


def drain(
    patterns: Patterns,
    retire: Annotated[bool, typer.Option("--retire")] = False,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Let builders finish their running jobs and accept no more, until undrained.

    They still count in their pool. Builders that are booting, or requested later, are not drained;
    a pool's provisioner may request others, up to the pool's limit.

    Args:
        retire: Retire them when empty.
    """
    with operating(redis, folder) as client:
        found = builders.drain(client, patterns, retire=retire)
    _show("drain", patterns, found, as_json=as_json, quiet=quiet)


def undrain(
    patterns: Patterns,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Let drained and failed builders accept jobs again."""
    with operating(redis, folder) as client:
        found = builders.undrain(client, patterns)
    _show("undrain", patterns, found, as_json=as_json, quiet=quiet)


def _show(what: str, patterns: list[str], found: Asked, *, as_json: bool, quiet: bool) -> None:
    names, notes = found
    if as_json:
        print_json(
            {
                what: patterns if len(patterns) > 1 else patterns[0],
                "builders": names,
                "notes": notes,
            }
        )
        return
    if quiet:
        return
    named = ", ".join(map(plain, names[:NAMED])) + (", …" if len(names) > NAMED else "")
    typer.echo(
        f"asked to {what} {many(len(names), 'builder')}: {named}"
        if names
        else f"found none to {what}"
    )
    for note in notes:
        typer.echo(f"note: {note}", err=True)
