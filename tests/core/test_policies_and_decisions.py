"""Every policy's order, and the reason for each placement."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core import policies
from farm.core.dispatching.balancers import FreeBuilders, jenkins
from farm.core.model import Builder, Job, Platform
from farm.core.policies.random_order import splitmix64
from farm.core.pools.spec import PoolSpec
from farm.core.state.working_state import BuilderState, PoolCounts
from tests.worlds.virtual import Story

#: name: (service time, score, priority, matrix), submitted one second after the other
JOBS = {
    "a": (30.0, 1.0, 0, "m"),
    "b": (5.0, 3.0, 200, "n"),
    "c": (60.0, 3.0, 0, "n"),
    "d": (5.0, 2.0, -100, "m"),
    "e": (31.0, 1.0, 0, None),
}
ORDERS = {
    ("fifo", "linear"): "abcde",
    ("ljf", "linear"): "ceabd",
    ("critical-path", "linear"): "ceabd",
    ("sjf", "linear"): "bdaec",
    ("score", "linear"): "bcdae",
    ("buildbarn", "linear"): "dceab",
    # 10 x instant of submission -/+ estimate: a -30 b 5 c -40 d 25 e 9; a 30 b 15 c 80 d 35 e 71
    ("ljf-aging", "linear"): "cabed",
    ("sjf-aging", "linear"): "badec",
    ("ljf-aging", "matrix"): "adcbe",
    ("sjf-aging", "matrix"): "dabce",
}


@pytest.mark.parametrize(("policy", "order"), ORDERS.items(), ids="-".join)
def test_the_order_of_every_policy(ledger, policy, order):
    """By hand, from the policy's one-line definition."""
    name, aging = policy
    make = policies.POLICIES[name]
    farm = ledger(policy=make(policies.PolicyOptions(aging=aging)))
    for job, (service_time, score, priority, matrix) in JOBS.items():
        farm.submit(farm.job(job, service_time, score=score, priority=priority, matrix=matrix))
    assert "".join(farm.waiting) == order
    assert "".join(farm.dispatch_order("x")) == order


def test_random_is_a_seeded_shuffle(ledger):
    """The same seed, the same order; another seed, another; later jobs move no other."""

    def order(seed, count):
        options = policies.PolicyOptions(seed=seed)
        farm = ledger(policy=policies.POLICIES["random"](options))
        farm.submit(*(f"j{n}" for n in range(count)))
        return farm.waiting

    assert order(1, 20) == order(1, 20) != order(2, 20)
    assert [name for name in order(1, 30) if int(name[1:]) < 20] == order(1, 20)
    assert len({splitmix64(n) for n in range(1000)}) == 1000
    job = Job(id="j", service_time=1.0)
    keys = [policies.POLICIES["random"](policies.PolicyOptions(seed=seed)) for seed in range(40)]
    firsts = [sorted(range(500), key=lambda n: key(job, 1.0, 0.0, n)).index(0) for key in keys]
    assert 150 < sum(firsts) / 40 < 350, "no order of arrival"


@pytest.mark.parametrize("name", sorted(policies.POLICIES))
def test_levels_stand_above_every_policy(ledger, name):
    """Whatever the policy: the higher level first."""
    farm = ledger(policy=policies.POLICIES[name](policies.PolicyOptions()))
    farm.submit(farm.job("long", 100.0, score=9.0, priority=-500))
    farm.submit(farm.job("short", 1.0, score=0.0, priority=500, level=1))
    farm.submit(farm.job("long2", 100.0, score=9.0, priority=-500, level=1))
    farm.submit(farm.job("short2", 1.0, score=0.0, priority=500))
    assert set(farm.waiting[:2]) == {"short", "long2"}


# whole numbers below 2**20, so that both sides are computed without rounding
whole = st.integers(0, 10_000)


@pytest.mark.parametrize(("policy", "sign"), [("ljf-aging", -1), ("sjf-aging", 1)])
@given(jobs=st.lists(st.tuples(whole, whole), max_size=30), factor=st.integers(0, 50), later=whole)
def test_a_constant_key_is_sorting_anew_at_every_instant(policy, sign, jobs, factor, later):
    """Jenkins: weight - time in queue x factor, smallest first, at any instant."""
    key: Any = policies.POLICIES[policy](policies.PolicyOptions(aging_factor=float(factor)))
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


def test_no_job_starves_under_ageing():
    """A job of estimate E overtakes all that came more than E ÷ factor after it."""
    jobs = [("long", 0.0, 100.0), ("first", 0.0, 1.0)]
    jobs += [(f"s{n}", 0.9 * n, 1.0) for n in range(1, 1000)]

    def started_at(policy: str) -> float:
        key = policies.POLICIES[policy](policies.PolicyOptions(aging_factor=2.0))
        made = [Job(id=name, service_time=time, arrived_at=at) for name, at, time in jobs]
        return Story().play([PoolSpec(name="p", builders=1)], made, policy=key).times()["long"][0]

    assert started_at("sjf") >= 999  # last of all
    # those that came in the first 49.5 s go before it: fifty-five, a second each
    assert started_at("sjf-aging") == pytest.approx(56.0, abs=1.0)


# --- free builders ------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["busy", "free", "gone", "join"])), max_size=60
    )
)
def test_the_best_free_builder_is_the_best_of_all(steps):
    """Whatever came and went: the heap of heaps agrees with a search through all builders."""
    free = FreeBuilders(jenkins)
    there: dict[int, BuilderState] = {}
    for index, what in steps:
        state = there.get(index)
        if what == "join" and state is None:
            builder = Builder(id=f"b{index}", pool="p", index=index, slots=1 + index % 3)
            state = there[index] = BuilderState(builder, 0.0, 0.0, group=None, pool=PoolCounts("p"))
            free.register(state)
            free.offer(state)
        elif state is not None and what == "gone":
            free.withdraw(there.pop(index), gone=True)
        elif state is not None and what in ("busy", "free"):
            state.busy = max(0, min(len(state.slots), state.busy + (1 if what == "busy" else -1)))
            if state.busy < len(state.slots):
                free.offer(state)
            else:
                free.withdraw(state)
        able = [s for s in there.values() if s.rank is not None]
        best = min(able, key=lambda s: (jenkins(s), s.builder.index), default=None)
        assert free.best() is best
        assert free.first(2) == sorted(able, key=lambda s: (s.rank, s.builder.index))[:2]


# --- explain ------------------------------------------------------------------------------------


def test_a_decision_lists_the_competitors_and_the_free_builders(ledger):
    """Key, competitors in order, free builders with their ranks, the best first."""
    farm = ledger(policy=policies.sjf.key, explain_last=10)
    farm.submit(*(farm.job(f"j{n}", float(10 + n)) for n in range(9)))
    farm.join("x", slots=2)
    log = farm.scheduler.dispatcher.decisions
    first = log.get("j0")
    assert (first.builder, first.slot, first.waiting, first.at) == ("x", 0, 8, 1.0)
    assert first.key == (0, 10.0, 1)
    assert [other.job for other in first.next] == ["j1", "j2", "j3", "j4", "j5", "j6"]
    assert log.get("j1").waiting == 7
    assert log.get("j2") is None
    assert log.get("unknown") is None


def test_a_decision_on_arrival_shows_the_free_builders(ledger):
    """Two had room; the balancer took the better one."""
    farm = ledger(explain_last=10)
    farm.join("x")
    farm.join("y", slots=3)
    farm.submit("a", platform=Platform("amd64"))
    decision = farm.scheduler.dispatcher.decisions.get("a")
    assert decision.builder == "y"
    assert decision.free_builders == (("y", -6.0), ("x", -2.0))
    assert (decision.waiting, decision.next, decision.platform) == (0, (), "amd64/virtual")


def test_only_the_last_decisions_are_kept(ledger):
    """A farm that runs for months does not remember every job; a retried job counts once."""
    farm = ledger("x", "y", explain_last=2, retries=9)
    farm.submit("a")
    farm.lose("x")
    assert farm.scheduler.dispatcher.decisions.get("a").builder == "y"
    farm.finish("a")
    for name in "bc":
        farm.submit(name)
        farm.finish(name)
    decisions = farm.scheduler.dispatcher.decisions
    assert decisions.get("a") is None
    assert decisions.get("b")
    assert decisions.get("c")
    silent = ledger("x")
    silent.submit("a")
    assert silent.scheduler.dispatcher.decisions.get("a") is None
