"""Rollouts do not know which builders will be lost, nor when those that boot will come."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from farm.assembly import make_rules, pool_specs
from farm.core.pools.spec import PoolSpec
from farm.core.state.snapshot import FarmSnapshot
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.scenario import Scenario, parse_scenario
from farm.sim.rollouts import fates
from farm.sim.rollouts.rollout import Fork, rollouts
from farm.testing import small_scenario
from tests.sim.rollouts.test_rollouts import played


def losing(**pool: object) -> Scenario:
    """Return a farm whose builders come late and are lost, with jobs of 20 s."""
    jobs = {"count": 60, "every": "0s", "service_time": {"constant": "20s"}}
    fixed = {"builders": 4, "boot_time": "10s", **pool}
    return parse_scenario(small_scenario(fixed, jobs, seed=2))


def fork_at(scenario: Scenario, event: int, **more: object) -> tuple[Fork, dict[str, float]]:
    """Return a fork with known run times, and when its jobs were dispatched."""
    snapshot, dispatched = played(scenario, event)
    fork = Fork(
        snapshot=snapshot,
        pools=tuple(pool_specs(scenario)),
        rules=make_rules(scenario),
        run_times=RuntimeDistribution(make_estimator("oracle")),
        truthful=True,
        **more,  # type: ignore[arg-type]
    )
    return fork, dispatched


@pytest.mark.parametrize(
    ("pool", "event"),
    [
        ({"losses": {"rate": "60/h"}}, 50),
        ({"boot_delay": {"uniform": {"min": "0s", "max": "60s"}}}, 2),
        ({"failure_rate": 0.4}, 2),
    ],
)
def test_rollouts_do_not_know_fates(pool: dict[str, object], event: int) -> None:
    """They differ though run times are known; told the fates, they are the simulation."""
    fork, dispatched = fork_at(losing(**pool), event)
    found = rollouts(lambda: fork, count=8, processes=1)
    assert not fork.is_certain
    assert np.ptp(found.dispatch_at, axis=0).max() > 1.0
    known, _ = fork_at(losing(**pool), event, knows_fates=True)
    truth = rollouts(lambda: known, count=1, processes=1)
    assert truth.dispatch_at[0].tolist() == [dispatched.get(job, np.inf) for job in truth.jobs]


def test_fates_agree_with_what_is_known() -> None:
    """A builder of a certain age is not lost earlier; one that boots has not come yet."""
    specs = pool_specs(
        losing(losses={"rate": "60/h"}, boot_delay={"uniform": {"min": "0s", "max": "60s"}})
    )
    present, _ = played(losing(losses={"rate": "60/h"}), 50)
    booting, _ = played(losing(boot_delay={"uniform": {"min": "0s", "max": "60s"}}), 2)
    for number in range(20):
        pools = fates.specs_of(specs, number)
        for record in fates.snapshot_of_rollout(present, pools).builders:
            assert record.builder.lifetime is not None
            assert record.builder.lifetime > present.at - record.joined_at
        assert all(booted_after(booting, pools))


def test_under_a_higher_rate_old_builders_live_on_for_a_while() -> None:
    """What-if losses were more: all of them were lost at once, as no draw was as long as they."""
    rarely = losing(losses={"rate": "60/h"})
    snapshot, _ = played(rarely, 50)
    old = msgspec.structs.replace(snapshot, at=snapshot.at + 240 * 3600.0)
    specs = pool_specs(losing(losses={"rate": "1/h"}))
    rests = [
        record.builder.lifetime - (old.at - record.joined_at)
        for number in range(50)
        for record in fates.snapshot_of_rollout(old, fates.specs_of(specs, number)).builders
        if record.builder.lifetime is not None
    ]
    assert min(rests) > 0.0
    assert np.mean(rests) == pytest.approx(3600.0, rel=0.3)


def booted_after(snapshot: FarmSnapshot, pools: list[PoolSpec]) -> list[bool]:
    """Return, for each builder that boots, whether it comes after the snapshot's instant."""
    drawn = fates.snapshot_of_rollout(snapshot, pools)
    requests = [request for pool in drawn.pools for request in pool.requested.values()]
    return [one.at + 10.0 + one.builder.boot_delay >= snapshot.at for one in requests]


def test_the_same_seed_gives_the_same_fates() -> None:
    """Alternatives of a what-if have the fates of their builders in common."""
    fork, _ = fork_at(losing(losses={"rate": "60/h"}), 50)
    first, second = (rollouts(lambda: fork, count=4, processes=1) for _ in range(2))
    assert first.dispatch_at.tolist() == second.dispatch_at.tolist()


def test_another_seed_gives_other_fates() -> None:
    """Else a second look with another seed would seem to confirm what the first one drew."""
    fork, _ = fork_at(losing(losses={"rate": "60/h"}), 50)
    one, other = (rollouts(lambda: fork, count=4, processes=1, seed=seed) for seed in (1, 2))
    assert (one.dispatch_at != other.dispatch_at).any()


def test_overdue_boots_are_looked_up_once() -> None:
    """All builders of a pool may be late together: each would look at a thousand fates."""
    wanted = losing(builders=8, boot_delay={"uniform": {"min": "0s", "max": "60s"}})
    snapshot, _ = played(wanted, 2)
    looked_at: list[int] = []

    def delay(number: int) -> float:
        looked_at.append(number)
        return 30.0

    late = msgspec.structs.replace(snapshot, at=1000.0)
    (spec,) = pool_specs(wanted)
    pool = msgspec.structs.replace(spec, boot_delay=delay)
    (record,) = fates.snapshot_of_rollout(late, [pool]).pools
    assert len(record.requested) > 1
    assert {request.builder.boot_delay for request in record.requested.values()} == {30.0}
    assert len(looked_at) <= fates.MAX_TRIES + 8
