"""What ``farm status`` shows of a live farm: on a terminal, and as JSON."""

from __future__ import annotations

import contextlib
import time

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from farm.forecasts.forecast_words import held_in_words
from farm.live.operating.client import FRESH, FarmClient
from farm.live.redis.trouble import RedisError, Trouble, trouble_of
from farm.live.wire.pool_report import FarmStatus
from farm.terminal.cells import folding, numbers, texts
from farm.terminal.console import FarmConsole, counted
from farm.terminal.tables import Listing, story
from farm.units import format_roughly, many

POOLS = (*texts("pool"), *numbers("wanted"), *folding("builders"))
QUEUES = (*texts("platform"), *numbers("waiting"))


def show_status(client: FarmClient, state: str | None, *, as_json: bool) -> bool:
    """Print the status of a farm; return whether its scheduler, server and event log are well.

    ``state``: of the process that keeps the farm up; None: not known.
    """
    now = client.status()
    trouble = client.trouble()
    if as_json:
        typer.echo(_json(client, now, trouble))
    else:
        console = FarmConsole()
        console.print(_view(client, now, trouble))
        if state is not None and state != "up":
            console.print(Text(f"the farm is {state}", style="yellow"))
    return trouble is None and not now.log_trouble and client.is_attended(now)


def watch_status(client: FarmClient, interval: float, *, as_json: bool) -> None:
    """Show the status repeatedly; wait for a server that is temporarily unreachable."""
    console = FarmConsole()
    with contextlib.ExitStack() as stack:
        live = None
        if console.is_terminal and not as_json:
            live = stack.enter_context(Live(console=console, auto_refresh=False))
        while True:
            try:
                now = client.status()
                trouble = client.trouble()
                seen: RenderableType = _view(client, now, trouble)
                line = _json(client, now, trouble) if as_json else ""
            except RedisError as error:
                met = trouble_of(error)
                seen, line = _trouble(met or Trouble("gone", str(error))), ""
            if live is not None:
                live.update(seen, refresh=True)
            elif not as_json:
                console.print(seen, Text())
            elif line:
                typer.echo(line)
            time.sleep(interval)


def _json(client: FarmClient, now: FarmStatus, trouble: Trouble | None) -> str:
    document: dict[str, object] = msgspec.to_builtins(now)
    document["attended"] = client.is_attended(now)
    document["trouble"] = None if trouble is None else msgspec.to_builtins(trouble)
    document["pools"] = {
        name: {"desired": report.desired, "states": report.states, "why": report.why}
        for name, report in sorted(client.pools().items())
    }
    return msgspec.json.encode(document).decode()


def _trouble(trouble: Trouble) -> Text:
    return Text(f"trouble with the server: {trouble.words}", style="bold red")


def _view(client: FarmClient, now: FarmStatus, trouble: Trouble | None) -> Group:
    done = sum(now.ended.values())
    blocked = f"{now.blocked:,} blocked · " if now.blocked else ""
    top: list[tuple[str, object]] = [
        ("farm time", f"{format_roughly(now.at)} (speed {now.speed:g})"),
        ("jobs", f"{blocked}{now.waiting:,} waiting · {now.running:,} running · {done:,} ended"),
    ]
    if now.ended:
        top.append(("ended", counted(dict(sorted(now.ended.items())))))
    top.append(("throughput", f"{many(now.ended_last_minute, 'job')} done in the last minute"))
    if now.forecasts_checked:
        checked, in_time = now.forecasts_checked, now.forecasts_in_time
        top.append(("forecasts", held_in_words(checked, in_time, "told a range")))
    builders = counted(now.builders) or Text("none")
    top.append(("builders", Text.assemble(builders, f" on {many(now.hosts, 'host')}")))
    rows = [
        (name, "" if report.desired is None else str(report.desired), counted(report.states))
        for name, report in sorted(client.pools().items())
    ]
    parts: list[RenderableType] = [story(top), Text(), Listing(POOLS, rows)]
    if now.queues:
        queues = [(platform, f"{depth:,}") for platform, depth in now.queues.items()]
        parts += [Text(), Listing(QUEUES, queues)]
    if now.stopping:
        parts.append(Text("the farm is stopping: running jobs end", style="yellow"))
    if now.restored:
        parts.append(Text(now.restored, style="yellow"))
    parts += [Text(complaint, style="yellow") for complaint in now.complaints]
    if now.log_lacks:
        parts.append(Text(f"the event log is not whole: {now.log_lacks}", style="yellow"))
    if now.log_trouble:
        parts.append(Text(f"the event log cannot be written: {now.log_trouble}", style="bold red"))
    if trouble is not None:
        parts.append(_trouble(trouble))
    if (age := client.age(now)) >= FRESH:
        silence = f"its scheduler has not reported for {format_roughly(age)}"
        parts.append(Text(silence, style="bold red"))
    return Group(*parts)
