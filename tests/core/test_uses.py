"""Builders with limited uses, in the ledger: used, retired, replaced, restored."""

from __future__ import annotations

import pytest

from farm.core.contention.laws import LoadLimits
from farm.core.dispatching.heavy_light import heavy_share
from farm.core.pools.observer import PoolObserver
from farm.core.pools.spec import PoolSpec
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.rules import HeavyLightOptions
from farm.core.state.snapshot import condition_of
from tests.worlds.virtual import FAIR

DISPATCHERS = {
    "plain": {},
    "fair share": FAIR | {"make_queue": lambda: FairShareQueue((5.0,))},
    "fastest": {"by_speed": True},
    "heavy-light": {
        "heavy_light": HeavyLightOptions(
            limits=LoadLimits(0.9, 0.5), measure=heavy_share, hold_at_most=60.0
        )
    },
}


def ephemeral(**more) -> PoolSpec:
    """Return a pool of one builder for one job."""
    return PoolSpec(**{"name": "p", "processors": ("amd64",), "builders": 1, "uses": 1, **more})


@pytest.fixture(params=DISPATCHERS)
def opened(ledger, request):
    """Make an open farm of one pool, whose first builder has joined."""

    def make(spec: PoolSpec):
        farm = ledger(pools=[spec], **DISPATCHERS[request.param])
        farm.open()
        farm.boot("p-1")
        return farm

    return make


def test_each_job_has_a_builder_of_its_own(opened):
    """A used builder retires after its job, and its successor takes the next one."""
    farm = opened(ephemeral())
    assert farm.submit("a", "b") == ["start a/1 on p-1.0"]
    assert farm.finish("a") == ["end a succeeded", "retire p-1"]
    assert farm.retired("p-1") == ["request p-2"]
    assert farm.boot("p-2") == ["start b/1 on p-2.0"]


def test_no_slot_is_offered_beyond_the_uses(opened):
    """Three uses on two slots: the third job runs on the slot that is free first, alone at last."""
    farm = opened(ephemeral(uses=3, slots=2))
    assert farm.submit("a", "b", "c", "d") == ["start a/1 on p-1.0", "start b/1 on p-1.1"]
    assert farm.finish("a") == ["end a succeeded", "start c/1 on p-1.0"]
    assert farm.finish("b") == ["end b succeeded"]
    assert farm.submit("e") == []
    assert farm.finish("c") == ["end c succeeded", "retire p-1"]


def test_a_builder_that_joins_a_queue_takes_no_more_than_its_uses(opened):
    """Its slots are offered one after the other, until its uses are taken."""
    farm = opened(ephemeral(uses=2, slots=4, builders=2))
    farm.submit("a", "b", "c", "d", "e")
    assert farm.boot("p-2") == ["start c/1 on p-2.0", "start d/1 on p-2.1"]


def test_attempts_count_whatever_becomes_of_them(opened):
    """Failed, cancelled and lost ones: a builder that was given a job is not fresh any more."""
    farm = opened(ephemeral(uses=3))
    farm.submit("a", "b", "c", "d")
    assert farm.finish("a", "failed") == ["end a failed", "start b/1 on p-1.0"]
    farm.cancel("b")
    assert farm.finish("b", "cancelled") == ["end b cancelled", "start c/1 on p-1.0"]
    assert farm.attempt_lost("c") == ["requeue c/1", "retire p-1"]
    assert farm.retired("p-1") == ["request p-2"]
    assert farm.boot("p-2") == ["start c/2 on p-2.0"]
    assert farm.lose("p-2") == ["requeue c/2", "request p-3"]


def test_a_used_builder_cannot_be_undrained(opened):
    """It is on its way out; an operator who drains all and undrains them changes nothing."""
    farm = opened(ephemeral())
    farm.submit("a", "b")
    assert condition_of(farm.scheduler.builders["p-1"]) == "building"
    farm.drain("*")
    assert farm.undrain("*") == "ignored"
    assert farm.finish("a") == ["end a succeeded", "retire p-1"]
    assert condition_of(farm.scheduler.builders["p-1"]) == "stopping"


def test_the_count_survives_a_restart(opened):
    """The uses taken are part of a builder's life, in every snapshot."""
    farm = opened(ephemeral(uses=2))
    farm.submit("a", "b", "c")
    farm.restart()
    assert farm.finish("a") == ["end a succeeded", "start b/1 on p-1.0"]
    assert farm.finish("b") == ["end b succeeded", "retire p-1"]


def test_an_idle_builder_with_uses_left_times_out(ledger):
    """Both ways to leave go together; a used builder has no timer that would ring for it."""
    farm = ledger(pools=[ephemeral(builders=2, idle_timeout=50.0)])
    farm.open()
    farm.at = 0.0
    farm.boot("p-1")
    farm.submit("a")
    assert farm.finish("a") == ["end a succeeded", "retire p-1"]
    farm.at = 10.0
    farm.boot("p-2")
    assert farm.ring(60.0) == ["retire p-2"]


def test_a_used_builder_is_draining_to_a_provisioner(ledger):
    """It is draining, its job will free no slot, and it is one of those that ``max`` counts."""
    spec = ephemeral(builders=0, provisioned=True, max=2)
    farm = ledger(pools=[spec])
    farm.plan(start=2)
    farm.boot("p-1")
    farm.submit("a", "b")
    seen = PoolObserver(farm.scheduler, spec, closely=True).look(farm.at)
    assert (seen.draining, seen.draining_jobs, seen.booting, seen.total) == (1, 1, 1, 2)
    assert (seen.joined, seen.running_jobs, seen.free_slots, seen.waiting_jobs) == (0, 0, 0, 1)
    assert seen.next_slot_time is None
    assert farm.plan(start=1) == []
    farm.finish("a")
    assert farm.retired("p-1") == []
    assert farm.plan(start=1) == ["request p-3"]


def test_jobs_wait_for_successors_when_nothing_more_arrives(ledger):
    """Jobs that only a builder to come can run are not given up."""
    farm = ledger(pools=[ephemeral()])
    farm.open()
    farm.boot("p-1")
    farm.submit("a", "b")
    assert farm.arrivals_end() == []
    farm.finish("a")
    assert "request p-2" in farm.retired("p-1")
    assert farm.waiting == ["b"]


def test_fastest_holds_no_job_back_for_a_used_builder(ledger):
    """The fast builder's slot will not become free: the slow one takes the job at once."""
    farm = ledger(by_speed=True)
    farm.join("fast", speed=10.0, uses=1)
    farm.join("slow", speed=1.0)
    assert farm.submit(farm.job("a", 10.0)) == ["start a/1 on fast.0"]
    assert farm.submit(farm.job("b", 10.0)) == ["start b/1 on slow.0"]
    assert farm.scheduler.dispatcher.held == {}
