"""The provisioner of a live run: it watches its pools once, and plans when a plan is due."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from farm.core.pools.algorithm import PoolSnapshot
from farm.live.wire.messages import Plan, Watch
from farm.live.wire.pool_report import PoolReport
from provisioner.algorithms.fixed import Fixed
from provisioner.embedded import EmbeddedProvisioner


class FakeControl:
    """A control plane of an empty pool; what it is told is kept."""

    builders_to_host = 3

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.at = 0.0

    def turn(self) -> float:
        return 1e12

    def add(self, report: Any) -> None:
        self.told.append(report)

    def reports(self, pools: list[str]) -> dict[str, PoolReport]:
        heard = sum(isinstance(report, Plan) for report in self.told)
        seen = PoolSnapshot(pool="p", at=self.at)
        return {pool: PoolReport(snapshot=seen, heard=heard) for pool in pools}


def test_it_watches_its_pools_once_and_plans_at_its_interval() -> None:
    """Unwatched, the scheduler would take none of its plans."""
    provisioner, control = (
        EmbeddedProvisioner({"p": Fixed(builders=2, interval=10.0)}),
        FakeControl(),
    )
    hosts: list[int] = []
    provisioner.meet(None, SimpleNamespace(ensure=hosts.append))
    clock = SimpleNamespace(now=lambda: control.at, real_until=lambda at: at - control.at)
    world = SimpleNamespace(stopping=False, clock=clock)
    for control.at in (0.0, 9.0, 10.0, 11.0, 20.0):
        provisioner.tick(world, control)
    world.stopping = True
    control.at = 30.0
    provisioner.tick(world, control)

    assert [type(report) for report in control.told] == [Watch, Plan, Plan]
    assert [report.start for report in control.told[1:]] == [2, 2]
    assert hosts == [1] * 5


def test_without_algorithms_only_the_control_plane_has_its_turn() -> None:
    """A run of fixed pools would fail at its first turn."""
    control = FakeControl()
    assert EmbeddedProvisioner({}).tick(SimpleNamespace(), control) == 1e12
    assert control.told == []
