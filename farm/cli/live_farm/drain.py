"""``farm drain`` and ``farm undrain``: builders accept no more jobs, or accept jobs again."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

import typer

from farm.app.long_running.farm_place import reach, warn_if_unattended
from farm.core.errors import InputError
from farm.core.events import DrainRequested, UndrainRequested
from farm.core.state.snapshot import BuilderRecord
from farm.live.operating.client import FarmClient
from farm.live.wire.messages import UNSTAMPED
from farm.terminal.console import many, natural_order, plain
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Quiet, Redis
from farm.terminal.output import print_json

#: maximum number of builders listed in the output
NAMED = 10

Pattern = Annotated[
    str,
    typer.Argument(metavar="PATTERN", help="Builder ids, or shell patterns such as 'linux-*'."),
]


def drain(
    pattern: Pattern,
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
    with reach(redis, folder) as client:
        records = _matching(client, pattern)
        reports = client.pools()
        client.send(DrainRequested(UNSTAMPED, pattern, retire=retire))
    names = sorted(records, key=natural_order)
    booting = sum(fnmatchcase(name, pattern) for r in reports.values() for name in r.requested)
    notes = [f"{booting} more that match will boot, and take jobs"] if booting else []
    for pool in sorted({record.builder.pool for record in records.values()}):
        report = reports.get(pool)
        if report is None or not report.provisioned:
            continue
        if report.most is None or report.snapshot.total < report.most:
            most = "" if report.most is None else f", up to {report.most} in all"
            notes.append(f"the provisioner of pool {pool} may request others instead{most}")
    _show("drain", pattern, names, notes, as_json=as_json, quiet=quiet)


def undrain(
    pattern: Pattern,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Let drained and failed builders accept jobs again."""
    with reach(redis, folder) as client:
        records = _matching(client, pattern)
        client.send(UndrainRequested(UNSTAMPED, pattern))
    closed = {n: r for n, r in records.items() if r.draining or r.failed or r.retiring}
    names = sorted((n for n, r in closed.items() if not r.retiring), key=natural_order)
    leaving = len(closed) - len(names)
    notes = [f"{many(leaving, 'other')} will go when empty, and cannot be kept"] if leaving else []
    _show("undrain", pattern, names, notes, as_json=as_json, quiet=quiet)


def _matching(client: FarmClient, pattern: str) -> dict[str, BuilderRecord]:
    warn_if_unattended(client)
    there = client.builders()
    found = {name: there[name] for name in there if fnmatchcase(name, pattern)}
    if not found:
        some = ", ".join(sorted(there, key=natural_order)[:5]) + (", …" if len(there) > 5 else "")
        raise InputError(
            f"no builder matches {pattern!r:.300}; allowed: a pattern for {some or 'builders'}"
        )
    return found


def _show(
    what: str, pattern: str, names: list[str], notes: list[str], *, as_json: bool, quiet: bool
) -> None:
    if as_json:
        said = {what: pattern, "builders": names, "notes": notes}
        print_json(said)
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
