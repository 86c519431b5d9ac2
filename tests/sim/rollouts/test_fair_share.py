"""Under fair share rollouts have a loop of their own, which gives what the scheduler does."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.sim.fast.kernel import native
from farm.sim.rollouts import fair_share
from farm.sim.rollouts.rollout import rollouts
from tests.fixtures import plain_kernel
from tests.fixtures.examples import examples
from tests.sim.rollouts.test_rollouts import fork_of, played, scenario_of

POOL = st.fixed_dictionaries(
    {
        "slots": st.integers(1, 3),
        "builders": st.integers(1, 3),
        "speed": st.sampled_from([1.0, 2.0]),
    },
    optional={"inter_job_time": st.sampled_from(["3s", "10s"]), "boot_time": st.just("30s")},
)
SOURCE = st.fixed_dictionaries(
    {
        "count": st.integers(5, 40),
        "poisson": st.just({"rate": "2/s"}),
        "service_time": st.sampled_from([{"constant": "10s"}, {"exponential": {"mean": "20s"}}]),
        "attributes": st.just({"user": ["x", "y", "z"], "team": ["t", "u"]}),
        "priority": st.sampled_from([0, {"-100": 1, "0": 2, "40": 1}]),
    }
)
RULES = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(["fifo", "sjf", "random"]),
        "fair_share": st.sampled_from([["user"], ["team", "user"], ["user", "kind"]]),
    },
    optional={"weights": st.just({"x": 2.0})},
)


@pytest.fixture
def covered(monkeypatch) -> list[bool]:
    """Whether the loop has covered each farm."""
    found, roll = [], fair_share.roll

    def watched(*args):
        made = roll(*args)
        found.append(made is not None)
        return made

    monkeypatch.setattr(fair_share, "roll", watched)
    return found


def forks(pools, sources, rules, after):
    """A farm of one platform to a pool, at an instant at which jobs wait, with known run times."""
    pools = [
        {"name": f"p{n}", "platform": {"processor": f"c{n}"}, **p} for n, p in enumerate(pools)
    ]
    loads = [
        {"arrivals": {"platform": {"processor": f"c{n % len(pools)}"}, **source}}
        for n, source in enumerate(sources)
    ]
    scenario = scenario_of(pools, loads, **rules)
    snapshot, _ = played(scenario, after)
    run_times = RuntimeDistribution(make_estimator("oracle"))
    return partial(fork_of, scenario, snapshot, run_times, truthful=True)


@examples(12)
@given(
    pools=st.lists(POOL, min_size=1, max_size=2),
    sources=st.lists(SOURCE, min_size=1, max_size=3),
    rules=RULES,
    after=st.integers(0, 40),
)
def test_the_loop_gives_what_the_scheduler_does(pools, sources, rules, after) -> None:
    """Every dispatch to the last bit, compiled and as Python, with cleaning and priorities."""
    fork = forks(pools, sources, rules, after)
    whole = rollouts(fork, count=1, fast=False, processes=1).dispatch_at.tolist()
    assert rollouts(fork, count=1, processes=1).dispatch_at.tolist() == whole
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "Call", plain_kernel.Call)
        patch.setattr(native, "is_there", lambda: True)
        assert rollouts(fork, count=1, processes=1).dispatch_at.tolist() == whole


@pytest.mark.usefixtures("kernel")
def test_what_the_loop_does_not_cover_is_left_to_the_scheduler(covered) -> None:
    """Builders of two platforms compete over two trees, and sticky slots remember: not covered."""
    source = {
        "count": 30,
        "every": "1s",
        "service_time": {"constant": "10s"},
        "attributes": {"user": ["x", "y"]},
    }
    plain, share = {"builders": 1}, {"fair_share": ["user"]}
    both = {"builders": 1, "platform": {"processors": ["c0", "c1"]}}
    for pools, rules, found in (
        ([plain], share, True),
        ([plain], share | {"stickiness": ["20s"]}, False),
        ([both, plain], share, False),
    ):
        fork = forks(pools, [source] * len(pools), rules, 5)
        whole = rollouts(fork, count=1, fast=False, processes=1)
        assert whole.dispatch_at.tolist() == rollouts(fork, count=1).dispatch_at.tolist()
        assert covered.pop() == found
