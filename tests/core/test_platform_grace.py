"""Platforms without builders: what waits for them fails after a time."""

from __future__ import annotations

from functools import partial

import pytest

import farm
from farm.core.commands import EndJob
from farm.core.model import Cause, Platform
from farm.core.pools.spec import PoolSpec
from farm.testing import small_scenario

ARM = Platform("arm64")


@pytest.fixture
def graced(with_both_queues):
    """Make farms whose platforms have a grace of 100 s."""
    return partial(with_both_queues, platform_grace=100.0)


def test_a_job_waits_for_the_grace_and_then_fails(graced):
    """With the platform and the time in its reason; others are not affected."""
    farm = graced("x")
    farm.submit("mine")
    farm.submit("a", "b", platform=ARM)
    since = farm.at - 1.0
    farm.submit("late", platform=ARM)
    assert farm.ring(since + 100.0) == ["end a failed", "end b failed", "end late failed"]
    end = farm.commands[0]
    assert isinstance(end, EndJob)
    assert end.cause is Cause.UNRUNNABLE
    assert end.reason == "no builder for arm64/virtual was there for 100s"
    assert farm.running == {"mine": "x.0"}
    farm.submit("again", platform=ARM)
    assert farm.waiting == ["again"], "a new queue has a time of its own"


def test_a_builder_within_the_grace_saves_the_queue(graced):
    """The queue lives as long as there is a builder, and the grace begins when the last goes."""
    farm = graced()
    assert farm.submit("a") == ["alarm 100"]
    farm.at = 99.0
    assert farm.join("x") == ["start a/1 on x.0"]
    assert farm.ring(100.0) == []
    farm.submit("b")
    farm.at = 500.0
    farm.lose("x")
    assert farm.waiting == ["a", "b"]
    assert farm.ring(599.0) == []
    assert farm.ring(600.0) == ["end a failed", "end b failed"]


@pytest.mark.parametrize("by", ["request", "fail-fast"])
def test_a_job_that_comes_after_all_were_cancelled_has_the_whole_grace(graced, by):
    """It would fail early, by the time of jobs that are no longer wanted."""
    farm = graced("x", fail_fast=True)
    farm.submit("busy", matrix="m")
    farm.submit("odd", platform=ARM, matrix="m")
    if by == "request":
        farm.cancel("odd")
    else:
        farm.finish("busy", "failed")
    assert farm.waiting == []
    farm.at = 90.0
    farm.submit("late", platform=ARM)
    since = farm.at - 1.0
    assert "end late failed" not in farm.ring(since + 99.0)
    assert farm.ring(since + 100.0) == ["end late failed"]


def test_jobs_that_share_an_execution_fail_with_it(graced):
    """Each ends once."""
    farm = graced(dedup=True)
    for name in ("a", "b", "c"):
        farm.submit(name, action="A", attributes={"user": name})
    farm.cancel("a")
    assert sorted(farm.ring(100.0)) == ["end b failed", "end c failed"]


def test_followers_fail_with_the_cause_and_reason_of_their_leader(graced):
    """And say whose execution would have served them."""
    farm = graced(dedup=True)
    for name in ("a", "b"):
        farm.submit(name, action="A", attributes={"user": name})
    assert sorted(farm.ring(100.0)) == ["end a failed", "end b failed"]
    ends = {end.job.id: end for end in farm.commands}
    assert {(end.cause, end.reason) for end in ends.values()} == {
        (Cause.UNRUNNABLE, "no builder for any/virtual was there for 100s")
    }
    assert (ends["a"].served_by, ends["b"].served_by) == (None, "a")
    assert farm.submit("c", action="A", attributes={"user": "c"}) == ["alarm 201"]


def test_each_platform_has_its_own_grace(graced):
    """Neither a platform with builders nor one whose grace lasts delays those after it."""
    farm = graced("x")
    farm.submit("mine", "next")
    farm.submit("odd", platform=ARM)
    farm.submit("odder", platform=Platform("s390x"))
    assert farm.waiting == ["next", "odd", "odder"]
    assert farm.ring(102.0) == ["end odd failed", "alarm 103"]
    assert farm.ring(103.0) == ["end odder failed"]
    assert farm.waiting == ["next"]


@pytest.mark.parametrize("gone", ["never takes a job", "is retiring"])
def test_a_builder_that_accepts_no_jobs_does_not_keep_its_platform(graced, gone):
    """A builder whose boot failed, or that is being retired, does not count."""
    farm = graced()
    if gone == "is retiring":
        farm.join("x", cleans=True)
        farm.submit("first")
        farm.drain("x", retire=True)
    else:
        farm.join("x", takes_jobs=False)
    farm.submit("a")
    asked_at = float(farm.commands[-1].rings_at)
    assert "end a failed" in farm.ring(asked_at)


def test_only_a_builder_of_the_platform_that_boots_stops_the_grace(graced):
    """A requested builder of another platform does not."""
    pools = [
        PoolSpec(name=name, processors=(processor,), builders=0, provisioned=True)
        for name, processor in (("p", "amd64"), ("q", "arm64"))
    ]
    farm = graced(pools=pools)
    farm.plan("p", start=1)
    assert farm.submit("odd", platform=ARM) == ["alarm 101"]
    farm.plan("q", start=1)
    assert farm.ring(101.0) == [], "it boots"


def test_a_job_that_fails_this_way_cancels_its_matrix(graced):
    """With fail_fast the rest of the matrix is cancelled, on whatever platform it waits."""
    farm = graced("x", fail_fast=True)
    farm.submit("busy", "same", matrix=None)
    farm.submit("odd", platform=ARM, matrix="m")
    farm.submit("rest", matrix="m")
    assert sorted(farm.ring(102.0)) == ["end odd failed", "end rest cancelled"]


def test_a_scenario_sets_it():
    """Simulated: jobs for a platform whose pool is lost fail, and the run ends."""
    none = {"algorithm": "fixed", "builders": 0, "max": 1}
    load = {"every": "1m", "count": 2, "service_time": "10s"}
    found = farm.simulate(
        small_scenario(
            [{}, {"name": "q", "platform": {"processor": "arm64"}, "provisioner": none}],
            [load | {"platform": {"processor": processor}} for processor in ("amd64", "arm64")],
            scheduling={"platform_grace": "15m"},
        )
    )
    jobs = [job for job in found.jobs if job["platform"] == "arm64/virtual"]
    assert jobs
    assert {job["outcome"] for job in jobs} == {"failed"}
    first = min(job["submitted_at_s"] for job in jobs)
    assert {job["finished_at_s"] for job in jobs} == {first + 900.0}
    others = {job["outcome"] for job in found.jobs if job["platform"] == "amd64/virtual"}
    assert others == {"succeeded"}
