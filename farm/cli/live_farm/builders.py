"""``farm builders``: lists the builders of a live farm."""

from __future__ import annotations

import shlex
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

import typer

from farm.app.long_running.farm_place import reach
from farm.core.errors import InputError, not_among
from farm.core.state.snapshot import BuilderRecord
from farm.live.operating.client import FarmClient
from farm.terminal.console import coloured, natural_order, plain
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis
from farm.terminal.output import note, print_json
from farm.terminal.tables import Listing, folding, numbers, texts
from farm.units import format_roughly

COLUMNS = (
    *texts("builder", "pool", "state"),
    *numbers("busy", "slots", "speed", "joined"),
    *folding("remark"),
)


State = Literal["idle", "building", "cleaning", "draining", "stopping", "failed", "booting", "lost"]


def builders(
    pattern: Annotated[str, typer.Argument(metavar="[PATTERN]")] = "*",
    state: State | None = None,
    pool: str | None = None,
    offset: Annotated[int, typer.Option(min=0)] = 0,
    limit: Annotated[int, typer.Option(min=0)] = 100,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """List builders: present, booting, and recently lost ones.

    Args:
        pattern: Only ids that match this shell pattern.
        state: Only builders in this state.
        pool: Only builders of this pool.
        offset: Skip this many builders.
        limit: Rows per page; 0: no limit.
    """
    with reach(redis, folder) as client:
        if pool is not None and pool not in (pools := client.pools()):
            raise InputError(f"--pool: {not_among(pool, sorted(pools))}")
        rows = [
            row
            for row in _rows(client)
            if fnmatchcase(row["builder"], pattern)
            and (state is None or row["state"] == state)
            and (pool is None or row["pool"] == pool)
        ]
    page = rows[offset : offset + limit if limit else None]
    if as_json:
        print_json(*page)
        return
    first_to_go = ("speed", "joined", "pool", "busy", "slots", "remark")
    note(Listing(COLUMNS, map(_cells, page), first_to_go=first_to_go))
    if len(rows) > offset + len(page):
        options = {"--state": state, "--pool": pool, "--offset": offset + limit, "--limit": limit}
        more = [word for pair in options.items() if pair[1] is not None for word in map(str, pair)]
        words = shlex.join(["farm", "builders", *([] if pattern == "*" else [pattern]), *more])
        typer.echo(plain(f"more: {words}", 1000), err=True)


def _rows(client: FarmClient) -> list[dict[str, Any]]:
    status = client.status()
    there = client.builders()
    rows = [_row(name, record) for name, record in there.items()]
    for pool, report in client.pools().items():
        rows.extend(
            {"builder": name, "pool": pool, "state": "booting", "requested_at_s": at,
             "remark": f"requested at {format_roughly(at)}"}
            for name, at in report.requested.items()
            if name not in there
        )  # fmt: skip
    rows.extend(
        {"builder": lost.builder, "pool": lost.pool, "state": "lost", "lost_at_s": lost.at,
         "remark": f"{lost.reason} at {format_roughly(lost.at)}"}
        for lost in status.lost
        if lost.builder not in there
    )  # fmt: skip
    return sorted(rows, key=lambda row: natural_order(row["builder"]))


def _row(name: str, record: BuilderRecord) -> dict[str, Any]:
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


def _remark(record: BuilderRecord) -> str:
    """Return details of the state."""
    if not record.builder.takes_jobs:
        return "its boot failed: it never takes a job"
    if record.failed:
        return f"taken out after {record.failures} failures in a row (use farm undrain)"
    if record.retiring and not record.retired:
        return "retires when empty"
    if record.failures:
        return f"{record.failures} failures in a row"
    return ""


def _cells(row: dict[str, Any]) -> list[Any]:
    joined = row.get("joined_at_s")
    numbers = [str(row[name]) if name in row else "" for name in ("busy", "slots", "speed")]
    return [
        row["builder"], row["pool"], coloured(row["state"]), *numbers,
        "" if joined is None else format_roughly(joined), row["remark"],
    ]  # fmt: skip
