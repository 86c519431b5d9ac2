"""What the tests of commands share: a server, and a farm without running processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from farm.live.redis.connection import connect
from farm.live.redis.server import Server
from tests.worlds.still import StillFarm

#: a scenario of five jobs
SMALL = """\
name: small
pools:
  - name: linux
    platform: {processor: amd64}
    builders: 2
workload:
  - arrivals: {every: 10s, count: 5, service_time: 5s}
"""


@pytest.fixture
def still(server: Server, tmp_path: Path) -> Iterator[StillFarm]:
    """A farm with two pools and no running processes."""
    with closing(connect(server.url, "test")) as client:
        client.flushall()
        yield StillFarm(client, server.url, tmp_path)
