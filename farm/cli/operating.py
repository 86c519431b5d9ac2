"""The connection of commands that change a live farm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farm.app.long_running.farm_place import reach, unattended
from farm.live.operating.client import FarmClient
from farm.terminal.output import warn


@contextmanager
def operating(redis: str | None, folder: Path) -> Iterator[FarmClient]:
    """Connect to the farm; warn if its scheduler, which carries changes out, has not reported."""
    with reach(redis, folder) as client:
        warn(unattended(client))
        yield client
