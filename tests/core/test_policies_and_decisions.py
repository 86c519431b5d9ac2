"""Every policy's order, and the reason for each placement."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core import policies
from farm.core.dispatching.balancers import FreeBuilders, jenkins
from farm.core.model import Builder, Platform
from farm.core.policies.random_order import splitmix64
from farm.core.state.working_state import BuilderState, PoolCounts

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


@pytest.mark.parametrize("name", sorted(policies.POLICIES))
def test_levels_stand_above_every_policy(ledger, name):
    """Whatever the policy: the higher level first."""
    farm = ledger(policy=policies.POLICIES[name](policies.PolicyOptions()))
    farm.submit(farm.job("long", 100.0, score=9.0, priority=-500))
    farm.submit(farm.job("short", 1.0, score=0.0, priority=500, level=1))
    farm.submit(farm.job("long2", 100.0, score=9.0, priority=-500, level=1))
    farm.submit(farm.job("short2", 1.0, score=0.0, priority=500))
    assert set(farm.waiting[:2]) == {"short", "long2"}


@given(
    jobs=st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1e4)), min_size=2, max_size=8),
    factor=st.floats(0, 100),
    later=st.floats(0, 1e4),
)
def test_linear_ageing_needs_no_resorting(jobs, factor, later):
    """The constant key orders any two jobs as the ageing weight does at every later instant."""
    options = policies.PolicyOptions(aging_factor=factor)
    now = max(at for at, _ in jobs) + later
    from farm.core.model import Job

    job = Job(id="x", service_time=1.0)
    for name, sign in (("ljf-aging", -1.0), ("sjf-aging", 1.0)):
        key = policies.POLICIES[name](options)
        for (at1, one), (at2, two) in itertools.combinations(jobs, 2):
            weight1 = sign * one - (now - at1) * factor
            weight2 = sign * two - (now - at2) * factor
            if abs(weight1 - weight2) > 1e-6 * (1 + abs(weight1) + abs(weight2) + now * factor):
                assert (weight1 < weight2) == (key(job, one, at1, 1) < key(job, two, at2, 2))


# --- free builders ------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["busy", "free", "gone", "join"])),
        max_size=60,
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
