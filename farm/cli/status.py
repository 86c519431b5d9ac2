"""``farm status``: a live farm at a glance."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from farm.cli.builders import coloured
from farm.cli.connection import DEFAULT_DIR, Dir, Redis, reach
from farm.cli.options import AsJson
from farm.live.operator import FRESH, Operator
from farm.live.pool_report import FarmStatus
from farm.units import format_duration


def status(
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Keep showing it, until Ctrl-C.")
    ] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """Show a live farm: queues, builders by state, pools, throughput.

    Exit code 1 if the farm's scheduler has not been heard of lately. With --json one object
    (with --watch: one a line).
    """
    with reach(redis, folder) as operator:
        now = operator.status()
        if as_json:
            _as_json(operator, interval if watch else None)
        elif not watch:
            Console().print(_view(operator, now))
        else:
            with Live(_view(operator, now), auto_refresh=False, screen=False) as live:
                while True:
                    time.sleep(interval)
                    live.update(_view(operator, operator.status()), refresh=True)
    if not _is_fresh(now):
        raise typer.Exit(1)


def _as_json(operator: Operator, interval: float | None) -> None:
    while True:
        now = operator.status()
        said = msgspec.to_builtins(now)
        said["attended"] = _is_fresh(now)
        said["pools"] = {
            name: {"desired": report.desired, "states": report.states, "why": report.why}
            for name, report in sorted(operator.pools().items())
        }
        typer.echo(msgspec.json.encode(said).decode())
        if interval is None:
            return
        time.sleep(interval)


def _is_fresh(status: FarmStatus) -> bool:
    return time.time() - status.written_at < FRESH


def _view(operator: Operator, now: FarmStatus) -> Group:
    done = sum(now.ended.values())
    ended = " · ".join(f"{count:,} {what}" for what, count in sorted(now.ended.items()))
    top = Table.grid(padding=(0, 2))
    top.add_row("[bold]farm time", f"{format_duration(round(now.at))} (speed {now.speed:g})")
    top.add_row("[bold]jobs", f"{now.waiting:,} waiting · {now.running:,} running · {done:,} ended")
    if ended:
        top.add_row("[bold]ended", ended)
    top.add_row("[bold]throughput", f"{now.ended_last_minute:,} in the last minute")
    states = " · ".join(f"{count} {coloured(state)}" for state, count in now.builders.items())
    top.add_row("[bold]builders", f"{states or 'none'} on {now.hosts} hosts")
    queues = Table(box=None, header_style="bold")
    queues.add_column("platform")
    queues.add_column("waiting", justify="right")
    for platform, depth in now.queues.items():
        queues.add_row(platform, f"{depth:,}")
    pools = Table(box=None, header_style="bold")
    for title in ("pool", "wanted", "builders"):
        pools.add_column(title)
    for name, report in sorted(operator.pools().items()):
        counts = " · ".join(f"{c} {coloured(state)}" for state, c in report.states.items() if c)
        pools.add_row(name, "" if report.desired is None else str(report.desired), counts)
    parts: list[Table | Text] = [top, Text(), pools]
    if now.queues:
        parts += [Text(), queues]
    if now.stopping:
        parts.append(Text("the farm is stopping: running jobs end", style="yellow"))
    if not _is_fresh(now):
        age = format_duration(round(time.time() - now.written_at))
        parts.append(Text(f"its scheduler has not been heard of for {age}", style="bold red"))
    return Group(*parts)
