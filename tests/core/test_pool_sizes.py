"""How many builders a pool gets, and which it gives up when it is made smaller."""

from __future__ import annotations

from farm.core.pools.spec import MAX_STARTS, PoolSpec
from farm.core.state.restore import restored
from farm.core.state.snapshot import snapshot_of
from farm.forecasts.runtime import make_estimator


def fixed(builders: int = 2, **more) -> PoolSpec:
    """Return a pool that is kept at its size."""
    return PoolSpec(**{"name": "p", "processors": ("amd64",), "builders": builders, **more})


def planned(**more) -> PoolSpec:
    """Return a pool that a provisioner sizes, from none."""
    return fixed(0, provisioned=True, **more)


def restart(farm, *pools: PoolSpec) -> None:
    """Let another scheduler continue, which has these pools."""
    snapshot = snapshot_of(farm.scheduler, farm.at)
    farm.scheduler = restored(snapshot, farm.rules, make_estimator("oracle"), pools=pools)


def test_a_smaller_fixed_pool_gives_its_surplus_up(ledger):
    """Those that boot go first, the last one before the others; then the idle; then the busy.

    Other pools, and builders that leave already, do not matter; a pool that was not resized keeps
    a builder that came by itself.
    """
    farm = ledger(pools=[fixed(builders=4), planned(name="q")])
    farm.open()
    farm.plan("q", start=1)
    for name in ("p-1", "p-2", "p-3"):
        farm.boot(name)
    farm.submit("a")
    farm.drain("p-3", retire=True)
    farm.open()
    assert list(farm.scheduler.pool("p").requested) == ["p-4"]
    restart(farm, fixed(builders=0), planned(name="q"))
    assert farm.open() == []
    assert farm.open(resized=True) == ["retire p-2", "drain p-1"]
    assert farm.scheduler.pool("p").requested == {}
    assert list(farm.scheduler.pool("q").requested) == ["q-1"]


def test_a_smaller_fixed_pool_keeps_the_builders_that_boot_first(ledger):
    """As many as its size leaves room for."""
    farm = ledger(pools=[fixed(builders=4)])
    farm.open()
    farm.boot("p-2")
    restart(farm, fixed(builders=2))
    assert farm.open(resized=True) == []
    assert list(farm.scheduler.pool("p").requested) == ["p-1"]


def test_a_plan_requests_no_more_than_the_pool_may_have(ledger):
    """Whatever its provisioner believes: booting, draining and leaving builders count, too."""
    farm = ledger(pools=[planned(max=3), fixed(name="q")])
    assert farm.plan(start=2) == ["request p-1", "request p-2"]
    farm.boot("p-1")
    farm.drain("p-1")
    assert farm.plan(start=2) == ["request p-3"]
    farm.drain("p-1", retire=True)
    assert farm.plan(start=2) == []
    farm.retired("p-1")
    assert farm.plan(start=2) == ["request p-4"]
    assert farm.plan("q", start=5) == ["request q-1", "request q-2"]


def test_a_plan_starts_a_limited_number_of_builders_together(ledger):
    """Its provisioner sees what is missing, and plans it again."""
    farm = ledger(pools=[planned()])
    assert len(farm.plan(start=10 * MAX_STARTS)) == MAX_STARTS
    assert len(farm.plan(start=9 * MAX_STARTS)) == MAX_STARTS
