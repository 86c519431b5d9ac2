"""The connection of commands that change a live farm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from farm.app.long_running.farm_place import reach
from farm.live.operating.client import FarmClient
from farm.terminal.output import remark, warn

AWAY = "the farm's scheduler has not reported lately; what is sent now is stored until it is back"


@contextmanager
def operating(redis: str | None, folder: Path) -> Iterator[FarmClient]:
    """Connect to the farm; warn if its scheduler, which carries changes out, has not reported."""
    with reach(redis, folder) as client:
        if not client.is_attended(client.status()):
            warn(AWAY)
        yield client


def require_confirmed(not_confirmed: str) -> None:
    """End with exit code 1 if it is not known whether the scheduler accepts what was submitted."""
    if not_confirmed:
        remark(
            f"not confirmed: {not_confirmed}. What was submitted is stored on the farm's server; "
            "once it is read, farm jobs shows it, or farm admin dead-letters if it was refused"
        )
        raise typer.Exit(1)
