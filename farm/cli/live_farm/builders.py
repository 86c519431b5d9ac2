"""``farm builders``: lists the builders of a live farm."""

from __future__ import annotations

import shlex
from typing import Annotated, Any, Literal

import typer

from farm.app.long_running.builders import builders_of
from farm.app.long_running.farm_place import reach
from farm.terminal.cells import Cell, folding, numbers, texts
from farm.terminal.console import coloured
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis
from farm.terminal.output import note, print_json, remark
from farm.terminal.tables import Listing
from farm.units import format_roughly

COLUMNS = (
    *texts("builder", "pool", "state"),
    *numbers("busy", "slots", "uses", "speed", "joined"),
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

    Examples:
        farm builders  all of them
        farm builders 'linux-*' --state idle
        farm builders --pool linux --limit 0
    """
    with reach(redis, folder) as client:
        rows = builders_of(client, pattern, state, pool)
    page = rows[offset : offset + limit if limit else None]
    if as_json:
        print_json(*page)
        return
    first_to_go = ("speed", "joined", "pool", "busy", "slots", "uses", "remark")
    columns = [c for c in COLUMNS if c.name != "uses" or any(row.get("uses") for row in page)]
    rows_shown = ([row[column.name] for column in columns] for row in map(_cells, page))
    note(Listing(columns, rows_shown, first_to_go=first_to_go))
    if len(rows) > offset + len(page):
        options = {"--state": state, "--pool": pool, "--offset": offset + limit, "--limit": limit}
        more = [word for pair in options.items() if pair[1] is not None for word in map(str, pair)]
        words = shlex.join(["farm", "builders", *([] if pattern == "*" else [pattern]), *more])
        remark(f"more: {words}")


def _cells(row: dict[str, Any]) -> dict[str, Cell]:
    """Return the texts of a row, by column."""
    joined = row.get("joined_at_s")
    shown: dict[str, Cell] = {one.name: str(row.get(one.name, "")) for one in COLUMNS}
    return shown | {
        "state": coloured(row["state"]),
        "uses": f"{row['used']}/{row['uses']}" if row.get("uses") else "",
        "joined": "" if joined is None else format_roughly(joined),
    }
