"""``farm status``: an overview of a live farm, or all of its state, as a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from farm.app.long_running.farm_place import reach, read_place
from farm.core.errors import InputError, file_access
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis
from farm.terminal.output import remark

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

    Exit code 1 if the farm's scheduler has not reported lately, its server is in trouble, or its
    event log cannot be written. With --json: one object (with --watch: one per line).

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
        from farm.cli.live_farm import status_view  # noqa: PLC0415 - Redis and rich, for a farm

        if watch:
            client.status()
            status_view.watch_status(client, interval, as_json=as_json)
        place = None if redis else read_place(folder)
        keeper_state = None if place is None else place.state
        is_well = status_view.show_status(client, keeper_state, as_json=as_json)
    if not is_well:
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
