"""Ageing as a constant key: the same order as sorting anew at every instant, and no starvation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.commands import EndJob
from farm.core.driver import drive
from farm.core.events import Event
from farm.core.model import Job
from farm.core.policies import POLICIES, PolicyOptions
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.oracle import Oracle
from farm.sim.world import SimulatedWorld

# whole numbers below 2**20, so that both sides are computed without rounding
whole = st.integers(0, 10_000)


@pytest.mark.parametrize(("policy", "sign"), [("ljf-aging", -1), ("sjf-aging", 1)])
@given(jobs=st.lists(st.tuples(whole, whole), max_size=30), factor=st.integers(0, 50), later=whole)
def test_a_constant_key_is_sorting_anew_at_every_instant(policy, sign, jobs, factor, later):
    """Jenkins: weight - time in queue x factor, smallest first, at any instant."""
    key: Any = POLICIES[policy](PolicyOptions(aging_factor=float(factor)))
    numbered = list(enumerate(jobs))

    def constant(row):
        serial, (at, estimate) = row
        job = Job(id=str(serial), service_time=float(estimate))
        return (key(job, float(estimate), float(at), serial), serial)

    def anew(row):
        serial, (at, estimate) = row
        now = 10_000 + later
        return (sign * estimate - (now - at) * factor, serial)

    assert sorted(numbered, key=constant) == sorted(numbered, key=anew)


def started_at(policy: str, name: str) -> float:
    """Return when a job begins beside more short jobs than the builder can run."""
    key = POLICIES[policy](PolicyOptions(aging_factor=2.0))
    jobs = [(0.0, (Job(id="long", service_time=100.0), Job(id="first", service_time=1.0)))]
    jobs += [(0.9 * n, (Job(id=f"s{n}", service_time=1.0),)) for n in range(1, 1000)]
    found: dict[str, float] = {}

    def observe(event: Event, orders: Any) -> None:
        ends = [order for order in orders if isinstance(order, EndJob)]
        found.update((end.job.id, end.started_at or 0.0) for end in ends)

    pools = [PoolSpec(name="p", builders=1)]
    scheduler = Scheduler(SchedulingRules(policy=key), Oracle(), pools)
    drive(scheduler, SimulatedWorld(pools, iter(jobs)), observe)
    return found[name]


def test_no_job_starves_under_ageing():
    """A job of estimate E overtakes all that came more than E ÷ factor after it."""
    assert started_at("sjf", "long") >= 999  # last of all
    # those that came in the first 49.5 s go before it: fifty-five, a second each
    assert started_at("sjf-aging", "long") == pytest.approx(56.0, abs=1.0)


def test_random_order_depends_on_the_seed_alone():
    """The same seed gives the same order, another one another; and it is no order of arrival."""
    job = Job(id="j", service_time=1.0)

    def order(seed: int) -> list[int]:
        key: Any = POLICIES["random"](PolicyOptions(seed=seed))
        return sorted(range(500), key=lambda serial: key(job, 1.0, 0.0, serial))

    assert order(1) == order(1) != order(2)
    firsts = [order(seed).index(0) for seed in range(40)]
    assert 150 < sum(firsts) / 40 < 350


def test_ageing_by_matrix_keeps_the_matrices_in_order():
    """Older matrices first however long their jobs are; inside one by length."""
    for policy, first in (("ljf-aging", 9.0), ("sjf-aging", 1.0)):
        key: Any = POLICIES[policy](PolicyOptions(aging="matrix"))
        rows = [("a", 1.0), ("a", 9.0), ("b", 100.0), ("b", 0.1), (None, 50.0), ("a", 5.0)]
        keys = [
            (key(Job(id=str(n), service_time=time, matrix=matrix), time, float(n), n), matrix, time)
            for n, (matrix, time) in enumerate(rows)
        ]
        order = [(matrix, time) for _, matrix, time in sorted(keys, key=lambda row: row[0])]
        assert [matrix for matrix, _ in order] == ["a", "a", "a", "b", "b", None]
        assert order[0] == ("a", first)
