"""The connection of commands that change a live farm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farm.app.long_running.farm_place import reach
from farm.live.operating.client import FarmClient
from farm.terminal.output import warn

AWAY = "the farm's scheduler has not reported lately; what is sent now is stored until it is back"


@contextmanager
def operating(redis: str | None, folder: Path) -> Iterator[FarmClient]:
    """Connect to the farm; warn if its scheduler, which carries changes out, has not reported."""
    with reach(redis, folder) as client:
        if not client.is_attended(client.status()):
            warn(AWAY)
        yield client
