"""Platform queues that vanish: what waits for a platform without builders fails after a time."""

from __future__ import annotations

import pytest

import farm
from farm.core.commands import EndJob
from farm.core.model import Cause, Platform
from farm.core.queues.fair_share.keys import path_extractor
from farm.core.queues.fair_share.queue import FairShareQueue

ARM = Platform("arm64")


@pytest.fixture(params=["plain", "fair"])
def graced(ledger, request):
    """Hand out farms whose platforms have a grace of 100 s."""
    fair = {"make_queue": FairShareQueue, "path": path_extractor(["user"])}
    more = fair if request.param == "fair" else {}
    return lambda *builders, **rules: ledger(*builders, platform_grace=100.0, **more, **rules)


def test_a_job_waits_for_the_grace_and_then_fails(graced):
    """With the platform and the time in its reason; others are not touched."""
    farm = graced("x")
    farm.submit("mine")
    farm.submit("a", "b", platform=ARM)
    since = farm.at - 1.0
    farm.submit("late", platform=ARM)
    assert farm.ring(since + 100.0) == ["end a failed", "end b failed", "end late failed"]
    end = farm.orders[0]
    assert isinstance(end, EndJob)
    assert (end.cause, end.reason) == (
        Cause.UNRUNNABLE, "no builder for arm64/virtual was there for 100s",
    )  # fmt: skip
    assert farm.running == {"mine": "x.0"}
    farm.submit("again", platform=ARM)
    assert farm.waiting == ["again"], "a new queue has a time of its own"


def test_a_builder_in_time_is_in_time(graced):
    """The queue lives as long as a builder is there, and the grace begins when the last goes."""
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


def test_those_who_share_an_execution_fail_with_it(graced):
    """Each is told once."""
    farm = graced(dedup=True)
    for name in ("a", "b", "c"):
        farm.submit(name, action="A", attributes={"user": name})
    farm.cancel("a")
    told = farm.ring(100.0)
    assert sorted(told) == ["end b failed", "end c failed"]


def test_a_scenario_sets_it():
    """Simulated: jobs for a platform whose pool is lost fail, and the run ends."""
    found = farm.simulate(
        {
            "pools": [
                {"name": "p", "platform": {"processor": "amd64"}, "builders": 1},
                {
                    "name": "q",
                    "platform": {"processor": "arm64"},
                    "provisioner": {"algorithm": "fixed", "builders": 0, "max": 1},
                },
            ],
            "workload": [
                {
                    "arrivals": {
                        "every": "1m", "count": 2, "service_time": "10s",
                        "platform": {"processor": processor},
                    }
                }
                for processor in ("amd64", "arm64")
            ],
            "scheduling": {"platform_grace": "15m"},
        }
    )  # fmt: skip
    jobs = [job for job in found.jobs if job["platform"] == "arm64/virtual"]
    assert jobs
    assert {job["outcome"] for job in jobs} == {"failed"}
    first = min(job["submitted_at_s"] for job in jobs)
    assert {job["finished_at_s"] for job in jobs} == {first + 900.0}
    others = {job["outcome"] for job in found.jobs if job["platform"] == "amd64/virtual"}
    assert others == {"succeeded"}
