"""``farm builders``, ``pools``, ``drain``, ``undrain``: the machines of a live farm."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import islice
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from farm.cli.connection import DEFAULT_DIR, Dir, Redis, reach, warn_if_unattended
from farm.cli.options import AsJson
from farm.core.errors import InputError
from farm.live.messages import Drain, Undrain
from farm.live.operator import Operator
from farm.units import format_duration
from provisioner.embedded import EMBEDDED

Pattern = Annotated[
    str,
    typer.Argument(metavar="PATTERN", help="Builder ids, with * and ? as in a shell: 'linux-*'."),
]


def builders(
    pattern: Annotated[str, typer.Argument(metavar="[PATTERN]", help="As in a shell.")] = "*",
    state: Annotated[
        str | None,
        typer.Option(help="idle, building, cleaning, draining, stopping, failed, booting or lost."),
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Only this pool's.")] = None,
    offset: Annotated[int, typer.Option(min=0, help="Leave out the first so many.")] = 0,
    limit: Annotated[int, typer.Option(min=1, help="Rows of a page.")] = 100,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """List builders: those that are there, those that boot, and those lost of late."""
    with reach(redis, folder) as operator:
        rows = [
            row
            for row in _rows(operator)
            if fnmatchcase(row["builder"], pattern)
            and (state is None or row["state"] == state)
            and (pool is None or row["pool"] == pool)
        ]
    page = list(islice(rows, offset, offset + limit))
    if as_json:
        for row in page:
            typer.echo(msgspec.json.encode(row).decode())
        return
    table = Table(box=None, header_style="bold")
    for name in ("builder", "pool", "state", "busy", "slots", "speed", "joined", "remark"):
        table.add_column(name, justify="right" if name in ("busy", "slots", "speed") else "left")
    for row in page:
        joined = row.get("joined_at_s")
        table.add_row(
            row["builder"], row["pool"], coloured(row["state"]), _text(row.get("busy")),
            _text(row.get("slots")), _text(row.get("speed")),
            "" if joined is None else format_duration(round(joined)), row.get("remark", ""),
        )  # fmt: skip
    Console().print(table)
    if len(rows) > offset + limit:
        typer.echo(f"more: farm builders --offset {offset + limit}", err=True)


def pools(
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """List pools: what they need, what is wanted, what is there, and why."""
    with reach(redis, folder) as operator:
        operator.status()
        reports = operator.pools()
        memories = operator.remembered()
        provisioned = operator.is_provisioned()
    rows: list[dict[str, Any]] = []
    for name, report in sorted(reports.items()):
        snapshot = report.snapshot
        trouble = _trouble(memories.get(name))
        if report.provisioned and report.watcher != EMBEDDED and not provisioned:
            trouble = "no provisioner is at work"
        rows.append(
            {
                "pool": name,
                "platform": f"{'+'.join(report.processors) or 'any'}/"
                f"{'virtual' if report.virtualized else 'native'}",
                "slots": snapshot.slots,
                "provisioned": report.provisioned,
                "desired": report.desired,
                "states": {key: count for key, count in report.states.items() if count},
                "waiting_jobs": snapshot.waiting_jobs,
                "running_jobs": snapshot.running_jobs + snapshot.draining_jobs,
                "why": report.why,
                "trouble": trouble,
            }
        )
    if as_json:
        for row in rows:
            typer.echo(msgspec.json.encode(row).decode())
        return
    table = Table(box=None, header_style="bold")
    for title in ("pool", "platform", "slots", "waiting", "running", "wanted", "builders", "why"):
        table.add_column(title)
    for row in rows:
        states = " · ".join(f"{count} {coloured(key)}" for key, count in row["states"].items())
        table.add_row(
            row["pool"], row["platform"], str(row["slots"]), str(row["waiting_jobs"]),
            str(row["running_jobs"]), _text(row["desired"]), states,
            row["trouble"] or row["why"],
        )  # fmt: skip
    Console().print(table)


def drain(
    pattern: Pattern,
    retire: Annotated[bool, typer.Option("--retire", help="They go for good when empty.")] = False,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """Let builders finish what they run and take no more, until undrained."""
    with reach(redis, folder) as operator:
        names = _matching(operator, pattern)
        operator.tell(Drain(pattern, retire=retire))
    _told("drain", pattern, names, as_json=as_json)


def undrain(
    pattern: Pattern, redis: Redis = None, folder: Dir = DEFAULT_DIR, as_json: AsJson = False
) -> None:
    """Let drained and failed builders take jobs again (a failed one's count begins anew)."""
    with reach(redis, folder) as operator:
        names = _matching(operator, pattern)
        operator.tell(Undrain(pattern))
    _told("undrain", pattern, names, as_json=as_json)


def _matching(operator: Operator, pattern: str) -> list[str]:
    warn_if_unattended(operator)
    there = sorted(operator.builders())
    names = [name for name in there if fnmatchcase(name, pattern)]
    if not names:
        some = ", ".join(there[:5]) + (", …" if len(there) > 5 else "")
        raise InputError(
            f"no builder matches {pattern!r}; allowed: a pattern for {some or 'builders'}"
        )
    return names


def _told(what: str, pattern: str, names: list[str], *, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode({what: pattern, "builders": names}).decode())
    else:
        typer.echo(
            f"asked to {what} {len(names)} builders: {', '.join(names[:10])}"
            + (", …" if len(names) > 10 else "")
        )


def _rows(operator: Operator) -> list[dict[str, Any]]:
    status = operator.status()
    rows: list[dict[str, Any]] = []
    there = operator.builders()
    for name, record in there.items():
        builder = record.builder
        rows.append(
            {
                "builder": name,
                "pool": builder.pool,
                "state": record.state,
                "busy": record.busy,
                "slots": builder.slots,
                "speed": builder.speed,
                "joined_at_s": record.joined_at,
            }
        )
    for pool, report in operator.pools().items():
        rows.extend(
            {"builder": name, "pool": pool, "state": "booting", "requested_at_s": at,
             "remark": f"asked for at {format_duration(round(at))}"}
            for name, at in report.requested.items()
            if name not in there
        )  # fmt: skip
    rows.extend(
        {"builder": lost.builder, "pool": lost.builder.rpartition("-")[0], "state": "lost",
         "lost_at_s": lost.at, "remark": lost.reason}
        for lost in status.lost
    )  # fmt: skip
    return sorted(rows, key=lambda row: _natural(row["builder"]))


def _natural(name: str) -> tuple[str, int, str]:
    stem, _, number = name.rpartition("-")
    return (stem, int(number), "") if number.isdigit() else (name, 0, "")


def _trouble(memory: bytes | None) -> str:
    """Return what a provisioner says of its backend, and of boots that fail."""
    if memory is None:
        return ""
    found = msgspec.json.decode(memory)
    failures = found.get("failures", 0)
    count = "a boot failed" if failures == 1 else f"{failures} boots failed in a row"
    boots = f"{count}: {found.get('trouble', '')}" if failures else ""
    return "; ".join(filter(None, (found.get("backend", ""), boots)))


def coloured(state: str) -> str:
    """Return a builder's state for a terminal."""
    colours = {
        "building": "green", "cleaning": "cyan", "draining": "yellow", "failed": "red",
        "lost": "red", "booting": "magenta",
    }  # fmt: skip
    return f"[{colours[state]}]{state}[/]" if state in colours else state


def _text(value: object) -> str:
    return "" if value is None else str(value)
