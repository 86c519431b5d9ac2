"""What the tests of commands share: a server, and a farm at which nobody works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from farm.live.redis.connection import connect
from farm.live.redis.server import choose_server
from tests.fixtures.still_farm import StillFarm


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a server for the tests of one process."""
    with choose_server(None) as running:
        yield running.url


@pytest.fixture
def still(server: str, tmp_path: Path) -> Iterator[StillFarm]:
    """A farm with two pools and nobody at work."""
    with closing(connect(server, "test")) as client:
        client.flushall()
        yield StillFarm(client, server, tmp_path)
