"""Pools in the ledger: opened, planned, kept at their size, idle, lost; and jobs without hope."""

from __future__ import annotations

import pytest

from farm.core.commands import RequestBuilder
from farm.core.events import PoolSize, SchedulingChanged
from farm.core.model import Platform
from farm.core.policies import fifo
from farm.core.pools.spec import MAX_STARTS, PoolSpec
from farm.core.pools.unrunnable_jobs import GIVEN_UP_AFTER

WEEK = f"{GIVEN_UP_AFTER:g}"


def fixed(**more) -> PoolSpec:
    """Return a pool that is kept at two builders."""
    return PoolSpec(**{"name": "p", "processors": ("amd64",), "builders": 2, **more})


def planned(**more) -> PoolSpec:
    """Return a pool that a provisioner sizes, from none."""
    return fixed(**{"builders": 0, "provisioned": True, **more})


# --- requests -----------------------------------------------------------------------------------


def test_an_open_farm_requests_what_its_pools_lack(ledger):
    """Once: builders that exist, or are booting, are not requested again."""
    farm = ledger(pools=[fixed(), planned(name="q", builders=1)])
    assert farm.open() == ["request p-1", "request p-2", "request q-1"]
    assert [request.builder.index for request in farm.commands] == [1, 2, 3]
    farm.boot("p-1")
    assert farm.open() == []
    assert farm.lose("q-1") == []
    assert farm.open() == ["request q-2"]


def test_a_service_may_size_the_provisioned_pools(ledger):
    """Then the scheduler leaves even their minimum to the service."""
    farm = ledger(pools=[fixed(), planned(name="q", builders=1)])
    assert farm.open(provisioned=False) == ["request p-1", "request p-2"]


def test_requested_builders_are_counted_until_their_boot_is_decided(ledger):
    """The provisioner's view: joined, lost while booting, retired while booting."""
    farm = ledger(pools=[planned()])
    assert farm.plan(start=3) == ["request p-1", "request p-2", "request p-3"]
    pool = farm.scheduler.pools["p"]
    assert list(pool.requested) == ["p-1", "p-2", "p-3"]
    farm.boot("p-1")
    assert farm.lose("p-2") == []
    assert farm.retired("p-3") == []
    assert pool.requested == {}
    assert farm.lose("p-2") == "ignored"


@pytest.mark.parametrize("goes", ["lose", "retired"])
def test_a_fixed_pool_is_kept_at_its_size(ledger, goes):
    """A builder that goes has a successor, also if it never joined; its job comes first."""
    farm = ledger(pools=[fixed(builders=1)])
    farm.open()
    assert getattr(farm, goes)("p-1") == ["request p-2"]
    farm.boot("p-2")
    farm.submit("a")
    assert getattr(farm, goes)("p-2") == ["requeue a/1", "request p-3"]
    assert farm.boot("p-3") == ["start a/2 on p-3.0"]


def test_a_builder_whose_machine_returns_keeps_its_name(ledger):
    """Under another name what was learned of the machine is lost, and BOINC starts anew."""
    farm = ledger(pools=[fixed()])
    farm.open()
    farm.boot("p-1")
    farm.boot("p-2")

    assert farm.lose("p-2", excused=True, returns=True) == ["request p-2"]
    assert farm.commands[0].builder.index == 2
    # a machine that is gone for good has a successor
    assert farm.lose("p-1") == ["request p-3"]


def test_only_a_pool_of_this_name_numbers_a_builder(ledger):
    """A guest with a name of its own has a successor like any other."""
    pool = fixed(name="p", builders=1)
    assert [pool.number_of(name) for name in ("p-1", "p-20")] == [1, 20]
    for name in ("p-x", "p-01", "q-1", "p", "p-", "p-1-2"):
        assert pool.number_of(name) is None
    farm = ledger(pools=[pool])
    farm.join("guest")

    assert farm.lose("guest", returns=True) == ["request p-1"]


def test_a_provisioned_pool_decides_itself_who_returns(ledger):
    """Its provisioner plans the number; nothing is requested in the place of a lost builder."""
    farm = ledger(pools=[planned()])
    farm.plan(start=1)
    farm.boot("p-1")

    assert farm.lose("p-1", excused=True, returns=True) == []


def test_a_guest_in_a_full_pool_has_no_successor(ledger):
    """A builder that joined unrequested is one more than the pool should have."""
    farm = ledger(pools=[fixed(builders=1)])
    farm.open()
    farm.boot("p-1")
    farm.join("guest", index=-1)
    assert farm.scheduler.builders["guest"].builder.index == 2
    assert farm.lose("guest") == []
    assert farm.lose("p-1") == ["request p-2"]


def test_names_that_are_taken_are_skipped(ledger):
    """A builder may have a name that the pool would give."""
    farm = ledger("p-1", "p-3", pools=[planned()])
    assert farm.plan(start=2) == ["request p-2", "request p-4"]
    assert [request.builder.index for request in farm.commands] == [3, 4]


def test_a_restored_scheduler_continues_the_numbering(ledger):
    """Names and places of former builders are not given again."""
    farm = ledger(pools=[planned()])
    farm.plan(start=2)
    farm.lose("p-2")
    farm.restart()
    assert farm.plan(start=1) == ["request p-3"]
    assert farm.commands[0].builder.index == 3


# --- plans --------------------------------------------------------------------------------------


def test_a_plan_stops_idle_builders_first(ledger):
    """A busy one is drained, and goes when its job has ended."""
    farm = ledger(pools=[planned()])
    farm.plan(start=3)
    for name in ("p-1", "p-2", "p-3"):
        farm.boot(name)
    farm.submit("a")
    farm.submit("b")
    assert farm.plan(stop=2) == ["retire p-3", "drain p-1"]
    assert farm.submit("c") == []
    assert farm.finish("a") == ["end a succeeded", "retire p-1"]
    assert farm.undrain("*") == "ignored"


def test_a_plan_says_which_hosts_play_the_builders(ledger):
    """On hosts of their own, or on existing ones."""
    farm = ledger(pools=[planned()])
    farm.plan(start=1, outside=True)
    assert farm.commands == [RequestBuilder(farm.commands[0].builder, outside=True)]
    farm.plan(start=1)
    assert farm.commands[0].outside is False


def test_a_plan_for_an_unknown_pool_is_a_record(ledger):
    """The properties of its builders are unknown."""
    assert ledger().plan(start=1, stop=1) == []


# --- sizes --------------------------------------------------------------------------------------


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
    farm.restart(fixed(builders=0), planned(name="q"))
    assert farm.open() == []
    assert farm.open(resized=True) == ["retire p-2", "drain p-1"]
    assert farm.scheduler.pool("p").requested == {}
    assert list(farm.scheduler.pool("q").requested) == ["q-1"]


def test_a_smaller_fixed_pool_keeps_the_builders_that_boot_first(ledger):
    """As many as its size leaves room for."""
    farm = ledger(pools=[fixed(builders=4)])
    farm.open()
    farm.boot("p-2")
    farm.restart(fixed(builders=2))
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


# --- idle time-outs -----------------------------------------------------------------------------


def test_an_idle_builder_is_retired_after_its_time_out(ledger):
    """Idle since it joined, or since its last job; one alarm is set at a time."""
    farm = ledger(pools=[planned(idle_timeout=10.0)])
    farm.plan(start=2)
    assert farm.boot("p-1") == ["alarm 11"]
    assert farm.boot("p-2") == []
    assert farm.submit("a") == ["start a/1 on p-1.0"]
    assert farm.finish("a") == ["end a succeeded"]
    assert farm.ring(11.0) == ["alarm 12"], "p-1 worked until 4"
    assert farm.ring(12.0) == ["retire p-2", "alarm 14"]
    assert farm.ring(14.0) == ["retire p-1"]
    assert farm.ring() == []


def test_a_busy_builder_is_watched_again_when_it_is_idle(ledger):
    """Not before, however long its job takes; cleaning is not idleness."""
    farm = ledger(pools=[planned(idle_timeout=10.0, inter_job_time=2.0)])
    farm.plan(start=1)
    assert farm.boot("p-1") == ["alarm 11"]
    farm.submit("a")
    assert farm.ring(11.0) == []
    farm.at = 50.0
    assert farm.finish("a") == ["end a succeeded"]
    farm.at = 52.0
    assert farm.cleaned("p-1") == ["alarm 62"]
    assert farm.ring(62.0) == ["retire p-1"]


def test_a_drained_builder_is_not_retired(ledger):
    """However long it has been idle; undrained, it has been so from then on."""
    farm = ledger(pools=[planned(idle_timeout=10.0)])
    farm.plan(start=1)
    farm.boot("p-1")
    farm.drain("p-1")
    assert farm.ring(11.0) == []
    assert farm.undrain("p-1") == ["alarm 22"]
    assert farm.ring(22.0) == ["retire p-1"]


def test_a_broken_builder_is_idle_too(ledger):
    """It boots, accepts no job, and goes after its time-out."""
    farm = ledger(pools=[planned(idle_timeout=10.0, fails_to_boot=lambda _: True)])
    farm.plan(start=1)
    assert farm.boot("p-1") == ["alarm 11"]
    farm.submit("a")
    assert farm.ring(11.0) == ["retire p-1"]


def test_a_restored_scheduler_has_its_alarms_set_anew(ledger):
    """When the farm opens again: for idle builders, and for losses that are still to come."""
    farm = ledger(pools=[fixed(idle_timeout=10.0, lost_at=(2.0, 30.0))])
    assert farm.open() == ["request p-1", "request p-2", "alarm 2"]
    farm.boot("p-1")
    farm.boot("p-2")
    farm.restart()
    assert farm.open() == ["alarm 11"]
    assert farm.ring(12.0) == ["retire p-1", "retire p-2", "alarm 30"]


# --- losses -------------------------------------------------------------------------------------


def test_a_pool_loses_the_builder_that_has_been_there_longest(ledger):
    """At each stated instant one builder, busy or not; a fixed pool replaces it."""
    farm = ledger(pools=[fixed(lost_at=(20.0, 20.0, 5.0))])
    assert farm.open() == ["request p-1", "request p-2", "alarm 5"]
    farm.boot("p-2")
    farm.boot("p-1")
    farm.submit("a")
    assert farm.ring(5.0) == ["lose p-2", "alarm 20"]
    assert farm.lose("p-2") == ["request p-3"]
    farm.boot("p-3")
    assert farm.ring(20.0) == ["lose p-1", "lose p-3"]


def test_a_restored_scheduler_does_not_lose_a_builder_twice(ledger):
    """A builder whose loss was sent before the snapshot is skipped without effect."""
    farm = ledger(pools=[fixed(lost_at=(20.0, 30.0))])
    farm.open()
    farm.boot("p-1")
    farm.boot("p-2")
    assert farm.ring(20.0) == ["lose p-1", "alarm 30"]
    farm.restart()
    assert farm.open() == ["alarm 30"]
    assert farm.ring(30.0) == ["lose p-2"]


def test_a_loss_without_a_builder_is_none(ledger):
    """No builder is there at that instant."""
    farm = ledger(pools=[fixed(lost_at=(5.0,))])
    farm.open()
    assert farm.ring(5.0) == []


def test_a_builder_carries_its_lifetime(ledger):
    """Drawn by its number; the world that plays it applies it."""
    farm = ledger(pools=[planned(lifetime=lambda number: 10.0 * number)])
    farm.plan(start=2)
    assert [request.builder.lifetime for request in farm.commands] == [10.0, 20.0]


# --- jobs without hope --------------------------------------------------------------------------

ODD = Platform("s390x")


def test_a_job_that_no_builder_can_run_is_failed_at_the_end(ledger):
    """When nothing arrives, boots or runs any more; until then a builder may join."""
    farm = ledger(pools=[fixed()])
    farm.open()
    farm.submit("a")
    farm.submit("odd", platform=ODD)
    assert farm.arrivals_end() == [f"alarm {farm.at - 1 + GIVEN_UP_AFTER:g}"]
    assert farm.boot("p-1") == ["start a/1 on p-1.0"]
    assert farm.boot("p-2") == []
    assert farm.finish("a") == ["end a succeeded", "end odd cancelled"]
    assert farm.commands[-1].reason == "no builder will ever be able to run it"
    assert farm.arrivals_end() == "ignored"


@pytest.mark.parametrize("gone", ["failed", "retiring", "takes no jobs"])
def test_a_builder_that_is_out_of_service_does_not_count(ledger, gone):
    """A job that only such a builder could run fails when nothing runs any more."""
    farm = ledger()
    farm.join("x", processors=("s390x",), takes_jobs=gone != "takes no jobs")
    if gone == "failed":
        farm.scheduler.builders["x"].failed = True
        farm.drain("x")
    elif gone == "retiring":
        farm.drain("x", retire=True)
    farm.submit("odd", platform=ODD)
    assert farm.arrivals_end() == ["end odd cancelled"]


def test_a_fixed_pool_with_one_leaving_builder_may_replace_it(ledger):
    """A job that only the successor can run must not fail before it is requested."""
    farm = ledger(pools=[fixed(builders=1)])
    farm.open()
    farm.boot("p-1")
    farm.drain("p-1", retire=True)
    farm.submit("a")
    assert "end a cancelled" not in farm.arrivals_end()
    assert farm.retired("p-1") == ["request p-2"]


def test_a_long_running_farm_fails_no_job(ledger):
    """More jobs may always arrive."""
    farm = ledger("x")
    farm.submit("odd", platform=ODD)
    farm.submit("a")
    assert farm.finish("a") == ["end a succeeded"]


def test_a_pool_that_may_still_make_the_builder_is_waited_for(ledger):
    """For a bounded time from when nothing runs; a start restarts that time."""
    farm = ledger(pools=[planned(idle_timeout=5.0)])
    farm.submit("a")
    farm.submit("b")
    assert farm.arrivals_end() == [f"alarm {2.0 + GIVEN_UP_AFTER:g}"]
    farm.plan(start=1)
    assert farm.boot("p-1") == ["start a/1 on p-1.0"]
    farm.at = 1000.0
    assert farm.lose("p-1") == ["requeue a/1"]
    assert farm.ring(2.0 + GIVEN_UP_AFTER) == [f"alarm {1000.0 + GIVEN_UP_AFTER:g}"]
    farm.plan(start=1)
    assert farm.ring(1000.0 + GIVEN_UP_AFTER) == ["end a cancelled", "end b cancelled"]


def test_a_full_pool_of_broken_builders_is_not_waited_for(ledger):
    """They stay, so no better one comes; with an idle time-out there may be a better one."""
    for timeout, answer in [(None, ["end a cancelled"]), (3.0, [])]:
        pool = fixed(fails_to_boot=lambda _: True, builders=1, idle_timeout=timeout)
        farm = ledger(pools=[pool])
        farm.open()
        farm.submit("a")
        farm.arrivals_end()
        assert [o for o in farm.boot("p-1") if not o.startswith("alarm")] == answer


def test_jobs_that_share_an_execution_fail_together(ledger):
    """The leader, and those that wait with it."""
    farm = ledger("x", dedup=True)
    farm.submit("a", platform=ODD, action="A")
    farm.submit("b", platform=ODD, action="A")
    assert farm.arrivals_end() == ["end a cancelled", "end b cancelled"]


# --- sizes that operators choose ------------------------------------------------------------------


def resize(farm, pool="p", **size):
    """Let an operator choose a pool's size."""
    return farm.tell(SchedulingChanged(farm.at, pools={pool: PoolSize(**size)}))


def test_a_fixed_pool_gets_another_size(ledger):
    """Missing builders are requested; booting ones are taken back before idle ones go."""
    farm = ledger(pools=[fixed()])
    farm.open()
    farm.boot("p-1")
    farm.submit("a")
    farm.boot("p-2")
    assert resize(farm, builders=4) == ["request p-3", "request p-4"]
    assert resize(farm, builders=4) == "ignored"
    farm.boot("p-3")
    assert resize(farm, builders=1) == ["retire p-2", "retire p-3"]
    assert list(farm.scheduler.pools["p"].requested) == []
    farm.restart(*farm.scheduler.keeper.specs.values())
    assert farm.boot("p-4") == ["retire p-4"]  # its boot had begun, and is not stopped
    assert farm.retired("p-4") == []
    assert farm.retired("p-3") == []  # not replaced
    farm.retired("p-2")
    assert resize(farm, builders=2) == ["request p-5"]


def test_a_chosen_size_outlives_the_scheduler_and_no_change_of_the_rules(ledger):
    """As a chosen policy does: other rules than the predecessor's are those of a new scenario."""
    farm = ledger(pools=[fixed()], policy_of=lambda _: fifo.key)
    farm.open()
    resize(farm, builders=3)
    farm.restart()
    assert farm.open() == []
    assert farm.lose("p-3") == ["request p-4"]
    farm.restart(rekey=True)
    farm.lose("p-4")
    assert farm.open() == []


def test_a_provisioned_pool_gets_other_limits(ledger):
    """Its provisioner plans by them from its next plan on."""
    farm = ledger(pools=[planned(max=2)])
    assert farm.plan(start=5) == ["request p-1", "request p-2"]
    assert resize(farm, max=3) == []
    assert farm.plan(start=5) == ["request p-3"]


def test_sizes_of_pools_that_are_not_there_are_ignored(ledger):
    """And nothing else of such a message is done."""
    farm = ledger(pools=[fixed()])
    assert resize(farm, "q", builders=3) == "ignored"
    assert farm.scheduler.rules.choices.pools == {}


def test_each_fixed_pool_counts_its_own_builders(ledger):
    """Two pools of one builder each would both stop their only one, or never replace it."""
    sizes = [PoolSpec(name=name, processors=("amd64",), builders=1) for name in "pq"]
    farm = ledger(pools=sizes)
    for request in [command.builder.id for command in (farm.open(), farm.commands)[1]]:
        farm.boot(request)

    assert farm.open(resized=True) == []
    assert farm.lose("q-1") == ["request q-2"]
