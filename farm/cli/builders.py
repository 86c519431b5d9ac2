"""``farm builders``, ``drain``, ``undrain``: the machines of a live farm."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any

import msgspec
import typer

from farm.cli.connection import DEFAULT_DIR, Dir, Redis, reach, warn_if_unattended
from farm.cli.options import AsJson, Quiet
from farm.cli.showing import Column, FarmConsole, coloured, listing, many, plain
from farm.core.errors import InputError
from farm.core.events import DrainRequested, UndrainRequested
from farm.core.snapshot import BuilderView
from farm.live.operating.operator import Operator
from farm.live.wire.messages import UNSTAMPED
from farm.units import format_duration

COLUMNS = (
    Column("builder"), Column("pool"), Column("state"), Column("busy", right=True),
    Column("slots", right=True), Column("speed", right=True), Column("joined"),
    Column("remark", folds=True),
)  # fmt: skip
#: builders that are named in an answer
NAMED = 10

Pattern = Annotated[
    str,
    typer.Argument(metavar="PATTERN", help="Builder ids, with * and ? as in a shell: 'linux-*'."),
]


class State(StrEnum):
    """What ``--state`` takes."""

    IDLE = "idle"
    BUILDING = "building"
    CLEANING = "cleaning"
    DRAINING = "draining"
    STOPPING = "stopping"
    FAILED = "failed"
    BOOTING = "booting"
    LOST = "lost"


def builders(
    pattern: Annotated[str, typer.Argument(metavar="[PATTERN]", help="As in a shell.")] = "*",
    state: Annotated[State | None, typer.Option(help="Only those that do this.")] = None,
    pool: Annotated[str | None, typer.Option(help="Only this pool's.")] = None,
    offset: Annotated[int, typer.Option(min=0, help="Leave out the first so many.")] = 0,
    limit: Annotated[int, typer.Option(min=0, help="Rows of a page; 0: all.")] = 100,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """List builders: those that are there, those that boot, and those lost of late."""
    with reach(redis, folder) as operator:
        if pool is not None and pool not in (pools := operator.pools()):
            raise InputError(f"--pool: found {pool!r}; allowed: {', '.join(sorted(pools))}")
        rows = [
            row
            for row in _rows(operator)
            if fnmatchcase(row["builder"], pattern)
            and (state is None or row["state"] == state)
            and (pool is None or row["pool"] == pool)
        ]
    page = rows[offset : offset + limit if limit else None]
    if as_json:
        for row in page:
            typer.echo(msgspec.json.encode(row).decode())
        return
    console = FarmConsole()
    first_to_go = "speed joined pool busy slots remark"
    console.print(listing(COLUMNS, map(_cells, page), console.width, first_to_go))
    if len(rows) > offset + len(page):
        typer.echo(f"more: farm builders --offset {offset + limit}", err=True)


def drain(
    pattern: Pattern,
    retire: Annotated[bool, typer.Option("--retire", help="They go for good when empty.")] = False,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Let builders finish what they run and take no more, until undrained.

    They keep their places in a pool. One that boots, or is asked for later, is not drained; a
    pool's provisioner may ask for others, up to the pool's limit.
    """
    with reach(redis, folder) as operator:
        records = _matching(operator, pattern)
        reports = operator.pools()
        operator.tell(DrainRequested(UNSTAMPED, pattern, retire=retire))
    names = sorted(records, key=_natural)
    booting = sum(fnmatchcase(name, pattern) for r in reports.values() for name in r.requested)
    notes = [f"{many(booting, 'more')} of that name boot, and will take jobs"] if booting else []
    for pool in sorted({record.builder.pool for record in records.values()}):
        report = reports.get(pool)
        if report is not None and report.provisioned and _has_room(report.most, report.snapshot):
            most = "" if report.most is None else f", up to {report.most} in all"
            notes.append(f"the provisioner of pool {pool} may ask for others instead{most}")
    _tell("drain", pattern, names, notes, as_json=as_json, quiet=quiet)


def undrain(
    pattern: Pattern,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Let drained and failed builders take jobs again (a failed one's count begins anew)."""
    with reach(redis, folder) as operator:
        records = _matching(operator, pattern)
        operator.tell(UndrainRequested(UNSTAMPED, pattern))
    closed = {n: r for n, r in records.items() if r.draining or r.failed or r.retiring}
    names = sorted((n for n, r in closed.items() if not r.retiring), key=_natural)
    leaving = len(closed) - len(names)
    notes = [f"{many(leaving, 'other')} will go when empty, and cannot be kept"] if leaving else []
    _tell("undrain", pattern, names, notes, as_json=as_json, quiet=quiet)


def _matching(operator: Operator, pattern: str) -> dict[str, BuilderView]:
    warn_if_unattended(operator)
    there = operator.builders()
    found = {name: there[name] for name in there if fnmatchcase(name, pattern)}
    if not found:
        some = ", ".join(sorted(there, key=_natural)[:5]) + (", …" if len(there) > 5 else "")
        raise InputError(
            f"no builder matches {pattern!r:.300}; allowed: a pattern for {some or 'builders'}"
        )
    return found


def _has_room(most: int | None, snapshot: Any) -> bool:
    return most is None or snapshot.total < most


def _tell(
    what: str, pattern: str, names: list[str], notes: list[str], *, as_json: bool, quiet: bool
) -> None:
    if as_json:
        said = {what: pattern, "builders": names, "notes": notes}
        typer.echo(msgspec.json.encode(said).decode())
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


def _rows(operator: Operator) -> list[dict[str, Any]]:
    status = operator.status()
    there = operator.builders()
    rows = [_row(name, record) for name, record in there.items()]
    for pool, report in operator.pools().items():
        rows.extend(
            {"builder": name, "pool": pool, "state": "booting", "requested_at_s": at,
             "remark": f"asked for at {format_duration(round(at))}"}
            for name, at in report.requested.items()
            if name not in there
        )  # fmt: skip
    rows.extend(
        {"builder": lost.builder, "pool": lost.pool, "state": "lost", "lost_at_s": lost.at,
         "remark": f"{lost.reason} at {format_duration(round(lost.at))}"}
        for lost in status.lost
        if lost.builder not in there
    )  # fmt: skip
    return sorted(rows, key=lambda row: _natural(row["builder"]))


def _row(name: str, record: BuilderView) -> dict[str, Any]:
    builder = record.builder
    return {
        "builder": name,
        "pool": builder.pool,
        "state": record.condition,
        "busy": record.busy,
        "slots": builder.slots,
        "speed": builder.speed,
        "joined_at_s": record.joined_at,
        "failures": record.failures,
        "remark": _remark(record),
    }


def _remark(record: BuilderView) -> str:
    """Say what the state leaves open."""
    if not record.builder.takes_jobs:
        return "its boot failed: it never takes a job"
    if record.failed:
        return f"taken out after {record.failures} failures in a row (farm undrain mends it)"
    if record.retiring and not record.retired:
        return "goes when empty"
    if record.failures:
        return f"{record.failures} failures in a row"
    return ""


def _cells(row: dict[str, Any]) -> list[Any]:
    joined = row.get("joined_at_s")
    numbers = [str(row[name]) if name in row else "" for name in ("busy", "slots", "speed")]
    return [
        row["builder"], row["pool"], coloured(row["state"]), *numbers,
        "" if joined is None else format_duration(round(joined)), row["remark"],
    ]  # fmt: skip


def _natural(name: str) -> tuple[str, int, str]:
    stem, _, number = name.rpartition("-")
    return (stem, int(number), "") if number.isdecimal() and len(number) < 19 else (name, 0, "")
