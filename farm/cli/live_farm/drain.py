"""``farm drain``: builders accept no more jobs, or accept jobs again."""

from __future__ import annotations

from typing import Annotated

import typer

from farm.app.long_running import builders
from farm.cli.operating import operating
from farm.core.errors import InputError
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Quiet, Redis
from farm.terminal.output import print_json, remark
from farm.terminal.plain_text import plain
from farm.units import many

#: maximum number of builders listed in the output
NAMED = 10


def drain(
    patterns: Annotated[list[str], typer.Argument(metavar="PATTERN…")],
    retire: Annotated[bool, typer.Option("--retire")] = False,
    undo: Annotated[bool, typer.Option("--undo")] = False,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Let builders finish their running jobs and accept no more, until that is undone.

    They still count in their pool. Builders that are booting, or requested later, are not drained;
    a pool's provisioner may request others, up to the pool's limit.

    Args:
        patterns: Builder ids, or shell patterns such as 'linux-*'.
        retire: Retire them when empty.
        undo: Let drained and failed builders accept jobs again.

    Examples:
        farm drain linux-3                     one builder, before its repair
        farm drain 'linux-*' --retire          all of a pool, which then go
        farm drain --undo linux-3              it takes jobs again
    """
    if retire and undo:
        raise InputError("found --retire and --undo; allowed: one of them")
    with operating(redis, folder) as client:
        if undo:
            names, notes = builders.undrain(client, patterns)
        else:
            names, notes = builders.drain(client, patterns, retire=retire)
    what = "undrain" if undo else "drain"
    if as_json:
        asked = patterns if len(patterns) > 1 else patterns[0]
        print_json({what: asked, "builders": names, "notes": notes})
    elif not quiet:
        named = ", ".join(map(plain, names[:NAMED])) + (", …" if len(names) > NAMED else "")
        asked = f"asked to {what} {many(len(names), 'builder')}: {named}"
        typer.echo(asked if names else f"found none to {what}")
        remark(*(f"note: {one}" for one in notes))
