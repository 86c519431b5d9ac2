"""``farm pools``: why builders do not come, also without a provisioner."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from farm.cli.main import app
from farm.core.pools.algorithm import PoolSnapshot
from farm.live.operating.client import FarmClient
from farm.live.redis.fence import Fence
from farm.live.redis.lease import Lease
from farm.live.store.published import Notices
from farm.live.wire.pool_report import FarmStatus, PoolReport
from provisioner.embedded import EMBEDDED
from provisioner.reconciler import Keeping

pytestmark = pytest.mark.live


class Farm:
    """What a scheduler publishes of one pool, and a provisioner stores."""

    def __init__(self, url: str, client: Any, keys: Any, operator: FarmClient) -> None:
        self._url, self._client, self._keys, self._operator = url, client, keys, operator

    def publish(self, watcher: str = "") -> None:
        status = FarmStatus(
            at=1, written_at=0, speed=1, submitted=0, waiting=0, running=0, ended={}, builders={},
            hosts=0, stopping=False,
        )  # fmt: skip
        report = PoolReport(
            snapshot=PoolSnapshot(pool="p", at=1.0), provisioned=True, watcher=watcher, why="a plan"
        )
        Notices(Fence(self._client, self._keys), self._client, self._keys).publish(
            {"p": report}, {}, status
        )

    def remember(self, **keeping: Any) -> None:
        self._operator.remember("p", msgspec.json.encode(Keeping(**keeping)))

    def trouble(self) -> str:
        found = CliRunner().invoke(
            app, ["pools", "--json", "--redis", self._url], env={"FARM_PREFIX": self._keys.prefix}
        )
        return json.loads(found.stdout)["trouble"]


@pytest.fixture
def farm(server, client, keys) -> Iterator[Farm]:
    """A farm with a provisioned pool, without processes."""
    with FarmClient(server.url, keys.prefix) as operator:
        yield Farm(server.url, client, keys, operator)


def test_a_pool_without_a_provisioner(farm: Farm):
    """A provisioner that cannot even start (no Engine) leaves no other trace."""
    farm.publish()
    assert farm.trouble() == "no provisioner is running"
    farm.publish(watcher=EMBEDDED)
    assert farm.trouble() == "", "farm run does it itself"


def test_a_provisioner_reports_its_trouble(farm: Farm, client, keys):
    """First that its Engine is away, then boots that fail, then nothing."""
    lease = Lease(client, type(keys)(f"{keys.prefix}provisioner:"))
    assert lease.try_to_take(client)
    try:
        farm.publish()
        assert farm.trouble() == ""
        farm.remember(failures=2, trouble="no image")
        assert farm.trouble() == "2 boots failed in a row: no image"
        farm.remember(failures=2, trouble="no image", backend="Docker Engine: gone")
        assert farm.trouble() == "Docker Engine: gone; 2 boots failed in a row: no image"
    finally:
        lease.release()
