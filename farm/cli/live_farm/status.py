"""``farm status``: an overview of a live farm, or all of its state, as a file."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from farm.app.long_running.farm_place import reach, read_place
from farm.core.errors import InputError, file_access
from farm.live.operating.client import FRESH, FarmClient
from farm.live.redis.trouble import RedisError, Trouble, trouble_of
from farm.live.wire.pool_report import FarmStatus
from farm.terminal.console import FarmConsole, counted
from farm.terminal.layout import story
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis
from farm.terminal.output import remark
from farm.terminal.tables import Listing, folding, numbers, texts
from farm.units import format_roughly, many

POOLS = (*texts("pool"), *numbers("wanted"), *folding("builders"))
QUEUES = (*texts("platform"), *numbers("waiting"))
#: the longest interval, seconds
DAY = 86_400


def status(
    watch: Annotated[bool, typer.Option("--watch", "-w")] = False,
    interval: float = 1.0,
    save: Annotated[Path | None, typer.Option("--save", "-o", metavar="FILE")] = None,
    state: Annotated[bool, typer.Option("--state")] = False,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """Show a live farm: queues, builders by state, pools, throughput.

    Exit code 1 if the farm's scheduler has not reported lately, or its server is in trouble. With
    --json: one object (with --watch: one per line).

    Args:
        watch: Update until Ctrl-C.
        interval: Seconds between updates.
        save: Write the whole state to this file instead (-: print it), for farm whatif: jobs,
            builders, fair-share trees, the scenario, and the history of run times.
        state: With --save: only builders and jobs, the form that other programs can write too.

    Examples:
        farm status                            queues, builders, pools
        farm status --watch                    the same, renewed every second
        farm status --save now.json            the whole of it, for farm whatif now.json
    """
    if save is not None:
        _save(redis, folder, save, small=state)
        return
    if state:
        raise InputError("--state: found without --save; allowed: with it")
    if not 0.1 <= interval <= DAY:
        raise InputError(f"--interval: found {interval:g}; allowed: 0.1 to {DAY} seconds")
    with reach(redis, folder) as client:
        now = client.status()
        trouble = client.trouble()
        if watch:
            _watch(client, interval, as_json=as_json)
        elif as_json:
            typer.echo(_json(client, now, trouble))
        else:
            console = FarmConsole()
            console.print(_view(client, now, trouble))
            place = None if redis else read_place(folder)
            if place is not None and place.state != "up":
                console.print(Text(f"the farm is {place.state}", style="yellow"))
    if trouble is not None or not client.is_attended(now):
        raise typer.Exit(1)


def _save(redis: str | None, folder: Path, file: Path, *, small: bool) -> None:
    """Write the state of a farm at one instant, as its scheduler told it in one pass."""
    from farm.app.long_running import snapshots  # noqa: PLC0415 - slow, and an overview needs none

    image = snapshots.image_from(None, redis, folder)
    if small:
        text = json.dumps(snapshots.state_document(image), indent=1)
    else:
        text = msgspec.json.encode(image).decode()
    if str(file) == "-":
        sys.stdout.write(text + "\n")
        return
    with file_access(f"--save: {file}"):
        file.write_text(text + "\n", encoding="utf-8")
    remark(f"{file}: written; farm whatif {file} simulates from it")


def _watch(client: FarmClient, interval: float, *, as_json: bool) -> None:
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
    top: list[tuple[str, object]] = [
        ("farm time", f"{format_roughly(now.at)} (speed {now.speed:g})"),
        ("jobs", f"{now.waiting:,} waiting · {now.running:,} running · {done:,} ended"),
    ]
    if now.ended:
        top.append(("ended", counted(dict(sorted(now.ended.items())))))
    top.append(("throughput", f"{many(now.ended_last_minute, 'job')} done in the last minute"))
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
    if trouble is not None:
        parts.append(_trouble(trouble))
    if (age := client.age(now)) >= FRESH:
        silence = f"its scheduler has not reported for {format_roughly(age)}"
        parts.append(Text(silence, style="bold red"))
    return Group(*parts)
