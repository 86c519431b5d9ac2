"""``predictive``: it starts builders before the jobs come, by what it learned of earlier days."""

from __future__ import annotations

import pytest

from farm.core.pools.algorithm import PoolSnapshot
from provisioner.algorithms.predictive import Predictive


def wanted(algorithm: Predictive, days: int, demand: dict[int, int]) -> list[int]:
    """Return by hour what it wants in the last of some days with this demand by hour."""
    memory, last = algorithm.start(), []
    for hour in range(24 * days):
        jobs = demand.get(hour % 24, 0)
        snapshot = PoolSnapshot(pool="p", at=hour * 3600.0, running_jobs=jobs, busy=jobs)
        plan, memory = algorithm.plan(snapshot, memory)
        last = [*last, plan.desired][-24:]
    return last


def test_on_the_second_day_builders_precede_the_jobs() -> None:
    """On the first day it follows; on the next it is ahead of the rush by ``ahead``."""
    algorithm = Predictive(max=50, step=3600, ahead=3600, interval=3600)
    rush = {9: 20, 10: 20}
    assert wanted(algorithm, 1, rush)[8:12] == [0, 20, 20, 0]
    assert wanted(algorithm, 2, rush)[7:12] == [0, 20, 20, 20, 0]


def test_jobs_on_builders_that_are_used_up_are_learned() -> None:
    """They are demand, but need no further builder: of 20 learned 15 run, so 5 are wanted."""
    algorithm = Predictive(max=50, step=3600, ahead=0, interval=3600)
    memory = algorithm.start()
    for hour, jobs in [(9, 20), (10, 0), (33, 15)]:
        snapshot = PoolSnapshot(pool="p", at=hour * 3600.0, draining=jobs, draining_jobs=jobs)
        plan, memory = algorithm.plan(snapshot, memory)
    assert plan.desired == 5


def test_it_forgets_at_its_rate_and_adds_its_headroom() -> None:
    """After a quiet day half of what was learned is left (rate 0.5), times the headroom."""
    algorithm = Predictive(max=50, step=3600, ahead=0, interval=3600, headroom=1.5)
    memory = algorithm.start()
    for hour, jobs in [(9, 20), (10, 0), (33, 0), (34, 0), (57, 0)]:
        snapshot = PoolSnapshot(pool="p", at=hour * 3600.0, running_jobs=jobs, busy=jobs)
        plan, memory = algorithm.plan(snapshot, memory)
    assert plan.desired == 15


def test_a_step_beyond_the_period_is_refused() -> None:
    """The message begins with the option."""
    with pytest.raises(ValueError, match=r"^step: found 100"):
        Predictive(max=1, step=100, period=50)


def test_limits_that_contradict_each_other_are_refused() -> None:
    """As those of every algorithm."""
    with pytest.raises(ValueError, match=r"^max: found 1, below min 3"):
        Predictive(min=3, max=1)
