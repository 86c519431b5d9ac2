"""Jobs of the same action in flight together run once; each ends exactly once."""

from __future__ import annotations

from functools import partial

import pytest

from farm.core.model import Platform
from farm.core.policies import buildbarn, ljf
from tests.worlds.virtual import FAIR


@pytest.fixture
def shared(with_both_queues):
    """Make farms that share executions."""
    return partial(with_both_queues, dedup=True)


def want(farm, name, action="A", **more):
    """Submit a job of an action, for a new user."""
    return farm.submit(name, action=action, attributes={"user": name}, **more)


def test_joining_a_running_execution(shared):
    """The second joins what runs already: one attempt, two ends."""
    farm = shared("x", "y")
    want(farm, "a")
    assert want(farm, "b") == []
    assert farm.finish("a") == ["end a succeeded", "end b succeeded"]
    first, second = farm.commands
    assert (first.served_by, second.served_by) == (None, "a")
    assert (second.builder, second.dispatched_at, second.submitted_at) == ("x", 2.0, 3.0)
    want(farm, "c")
    assert "c" in farm.running, "it is over: run anew"


def test_joining_a_waiting_execution(shared):
    """One place in the queue for all."""
    farm = shared()
    want(farm, "a")
    want(farm, "b")
    assert farm.waiting == ["a"]
    assert farm.join("x") == ["start a/1 on x.0"]
    assert farm.finish("a", "failed") == ["end a failed", "end b failed"]


@pytest.mark.parametrize(("policy", "other"), [(ljf.key, 8.0), (buildbarn.key, 9.0)])
def test_a_follower_is_as_long_and_as_old_as_what_it_shares(ledger, policy, other):
    """In its own node it waits where the execution would stand: before a shorter or later job."""
    farm = ledger(dedup=True, policy=policy, **FAIR)
    mine, urgent = {"user": "u"}, {"attributes": {"user": "v"}, "priority": -100}
    farm.submit("a", action="A", service_time=9.0, attributes=mine)
    farm.submit("other", service_time=other, **urgent)
    farm.submit("b", action="A", service_time=1.0, **urgent)
    assert farm.waiting == ["a", "other"]
    farm.prioritise("b", priority=-100)
    assert farm.waiting == ["a", "other"], "also when it is keyed anew"


def test_other_actions_and_platforms_run_separately(shared):
    """The same action for another processor is other work, whichever came in between."""
    farm = shared()
    want(farm, "a", platform=Platform("amd64"))
    want(farm, "b", platform=Platform("arm64"))
    want(farm, "c", platform=Platform("amd64", True))
    want(farm, "d", platform=Platform("arm64"))
    want(farm, "e", action="B", platform=Platform("amd64"))
    assert sorted(farm.waiting) == ["a", "b", "e"]


@pytest.mark.parametrize(
    "other", [{"fails": True}, {"mode": "stress"}, {"threads": 2}, {"heavy": True}]
)
def test_the_same_name_for_other_work_runs_separately(shared, other):
    """Who names another's action, before it or after, neither fails it nor holds it up."""
    farm = shared("x")
    want(farm, "first", **other)
    want(farm, "a")
    want(farm, "b")
    assert farm.waiting == ["a"]
    want(farm, "last", **other)
    assert farm.finish("first", "failed") == [
        "end first failed",
        "end last failed",
        "start a/1 on x.0",
    ]
    assert farm.finish("a") == ["end a succeeded", "end b succeeded"]


def test_without_dedup_all_run(ledger):
    """It can be switched off."""
    farm = ledger("x", "y")
    want(farm, "a")
    assert want(farm, "b") == ["start b/1 on y.0"]


def test_a_more_urgent_job_moves_the_execution_up(ledger):
    """Waiting alone or in one batch, after a loss, after a hand-over: the best place counts."""
    farm = ledger(dedup=True)
    want(farm, "a")
    want(farm, "x", "X", level=1)
    want(farm, "b", level=2)
    want(farm, "c", level=5)
    assert farm.waiting == ["a", "x"]
    assert farm.cancel("a") == ["end a cancelled"]
    assert farm.waiting == ["b", "x"]
    assert farm.cancel("b") == ["end b cancelled"]
    assert farm.waiting == ["c", "x"]
    batch = ledger(dedup=True)
    batch.submit(batch.job("p"), batch.job("l", action="L"), batch.job("f", action="L", level=1))
    assert batch.waiting == ["l", "p"]
    lost = ledger("m", dedup=True)
    want(lost, "a")
    want(lost, "x", "X", level=1)
    want(lost, "b", level=2)
    assert lost.lose("m") == ["requeue a/1"]
    assert lost.waiting == ["a", "x"]


def test_cancelling_a_follower(shared):
    """It ends alone; the execution continues."""
    farm = shared("x")
    want(farm, "a")
    want(farm, "b")
    assert farm.cancel("b") == ["end b cancelled"]
    assert farm.finish("a") == ["end a succeeded"]


def test_cancelling_a_waiting_leader_hands_over(shared):
    """The eldest follower becomes the leader of the rest."""
    farm = shared()
    for name in "abc":
        want(farm, name)
    assert farm.cancel("a") == ["end a cancelled"]
    assert want(farm, "d") == []
    assert farm.waiting == ["b"]
    farm.join("x")
    assert farm.finish("b") == ["end b succeeded", "end c succeeded", "end d succeeded"]
    assert {end.served_by for end in farm.commands} == {None, "b"}


@pytest.mark.parametrize(("policy", "other"), [(ljf.key, 8.0), (buildbarn.key, 8.0)])
def test_an_heir_keeps_the_length_and_age_of_what_it_executes(ledger, policy, other):
    """The execution was long and old before its first requester left, and so it stays."""
    farm = ledger(dedup=True, policy=policy)
    farm.submit("a", action="A", service_time=9.0)
    farm.submit("other", service_time=other)
    farm.submit("b", action="A", service_time=1.0)
    farm.cancel("a")
    assert farm.waiting == ["b", "other"]
    farm.submit("c", action="A", service_time=1.0, level=0)
    state = farm.scheduler.jobs["b"]
    assert state.execution == (9.0, farm.scheduler.jobs["other"].submitted_at - 1.0)
    farm.prioritise("b", score=5.0)
    assert farm.waiting == ["b", "other"], "looked at anew it is no shorter and no younger"
    farm.cancel("b")
    assert farm.waiting == ["c", "other"]
    assert farm.scheduler.jobs["c"].execution == state.execution


def test_cancelling_a_running_leader_leaves_the_execution_to_the_others(shared):
    """Cancelled once; late-comers still join; a second cancel has no effect."""
    farm = shared("x", "y")
    want(farm, "a")
    want(farm, "b")
    assert farm.cancel("a") == ["end a cancelled"]
    assert farm.cancel("a") == "ignored"
    assert want(farm, "c") == [], "the execution is still in flight"
    assert farm.finish("a") == ["end b succeeded", "end c succeeded"]
    assert farm.scheduler.jobs == {}
    want(farm, "d")
    assert "d" in farm.running


def test_when_all_followers_leave_an_abandoned_execution_stops(shared):
    """No job wants it: the builder is told to stop, once."""
    farm = shared("x", "y")
    want(farm, "a")
    want(farm, "b")
    farm.cancel("a")
    assert farm.cancel("b") == ["end b cancelled", "stop a/1 on x"]
    assert want(farm, "c") == ["start c/1 on y.0"], "what is being stopped cannot be joined"
    assert farm.finish("a", "cancelled") == []
    assert farm.finish("c") == ["end c succeeded"]
    assert farm.scheduler.jobs == {}


def test_an_abandoned_execution_that_is_lost(shared):
    """It waits again for the jobs that want it; with the last of them it is dropped."""
    farm = shared("x", retries=5)
    want(farm, "a")
    want(farm, "b")
    farm.cancel("a")
    assert farm.lose("x") == ["requeue a/1"]
    assert farm.prioritise("a", level=3) == "ignored", "it has ended"
    assert want(farm, "c") == []
    assert farm.join("y") == ["start a/2 on y.0"]
    assert farm.lose("y") == ["requeue a/2"]
    assert farm.cancel("b") == ["end b cancelled"]
    assert farm.cancel("c") == ["end c cancelled"]
    assert farm.waiting == []
    assert farm.join("z") == []
    assert farm.scheduler.jobs == {}


def test_an_abandoned_execution_out_of_retries(shared):
    """The remaining jobs fail; the one that left does not end again."""
    farm = shared("x", retries=0)
    want(farm, "a")
    want(farm, "b")
    farm.cancel("a")
    assert farm.lose("x") == ["end b failed"]


def test_cancelling_all_at_once(shared):
    """Leader and followers in one request: each ends once, the builder is stopped once."""
    farm = shared("x")
    want(farm, "a", matrix="m")
    want(farm, "b", matrix="m")
    want(farm, "c", matrix="m")
    ended = farm.cancel(matrix="m")
    assert sorted(ended) == sorted(
        ["end a cancelled", "end b cancelled", "end c cancelled", "stop a/1 on x"]
    )
    assert farm.finish("a", "cancelled") == []
    want(farm, "d", matrix="n")
    want(farm, "e", matrix="n")
    assert farm.lose("x") == ["requeue d/1"]
    assert farm.cancel(matrix="n") == ["end d cancelled", "end e cancelled"]


def test_fail_fast_applies_to_the_jobs_that_were_served(shared):
    """A follower that fails cancels the rest of its own matrix; one that left does not."""
    farm = shared("x", fail_fast=True)
    want(farm, "a", matrix="m")
    want(farm, "a2", "other", matrix="m")
    want(farm, "b", matrix="n")
    want(farm, "b2", "third", matrix="n")
    farm.cancel("a")
    assert farm.finish("a", "failed")[:2] == ["end b failed", "end b2 cancelled"]
    assert farm.running == {"a2": "x.0"}
