"""What is published by platform: which pools serve it, and which of its jobs none will run."""

from __future__ import annotations

from farm.core.events import BuilderJoined, BuilderRetired, DrainRequested, JobsSubmitted
from farm.core.model import Builder, Platform
from farm.core.pools.spec import PoolSpec

LINUX = PoolSpec(name="linux", processors=("amd64",), builders=1)
WINDOWS = PoolSpec(name="windows", processors=("win10-64",), provisioned=True)


def unrunnable(farm, at: float) -> dict[str, object]:
    """Publish, and return the gauge by platform."""
    farm.metrics.publish(at, at_once=True)
    found = farm.metrics.readings()["farm_jobs_unrunnable"]
    return {labels[0]: value for labels, value in found.items()}


def test_jobs_that_no_pool_can_run_are_counted_by_platform(play, job):
    """Whatever other pools do; and not those whose pool has no builder yet, but may get one."""
    farm = play(specs=[LINUX, WINDOWS])
    farm.request(0.0, "booting")
    names = {"riscv/virtual": 3, "win10-64/virtual": 2, "amd64/virtual": 1}
    for name, count in names.items():
        platform = Platform(name.split("/")[0], True)
        jobs = tuple(job(f"{name}-{n}", platform=platform) for n in range(count))
        farm.tell(JobsSubmitted(1.0, jobs))
    assert unrunnable(farm, 2.0) == {**dict.fromkeys(names, 0.0), "riscv/virtual": 3.0}
    riscv = Builder(id="own", pool="boards", index=9, processors=("riscv",))
    farm.tell(BuilderJoined(3.0, riscv))
    assert unrunnable(farm, 4.0) == dict.fromkeys(names, 0.0), "a builder of another pool"
    farm.tell(BuilderRetired(5.0, "own"))
    assert unrunnable(farm, 6.0)["riscv/virtual"] == 3.0, "one of them waits again"


def test_a_drained_builder_may_return_and_a_failed_one_does_not(play, job):
    """A fixed pool does not replace a builder that is out of service."""
    farm = play(specs=[LINUX])
    farm.join(0.0, "linux-1")
    farm.tell(JobsSubmitted(1.0, (job("runs"), job("waits"))))
    farm.tell(DrainRequested(2.0, "linux-1"))
    assert unrunnable(farm, 3.0) == {"amd64/virtual": 0.0}
    farm.scheduler.builders["linux-1"].failed = True
    assert unrunnable(farm, 4.0) == {"amd64/virtual": 1.0}


def test_looking_changes_nothing(play, job):
    """The scheduler's pools are those that it had: an observer must not make one."""
    farm = play(specs=[WINDOWS])
    farm.tell(JobsSubmitted(1.0, (job("one", platform=Platform("win10-64", True)),)))
    before = set(farm.scheduler.pools)
    assert unrunnable(farm, 2.0) == {"win10-64/virtual": 0.0}
    assert set(farm.scheduler.pools) == before


def test_pools_are_joined_with_the_platforms_that_they_serve(play, job):
    """By specification, or because a builder is there: alerts judge each platform by its own."""
    farm = play(specs=[LINUX, WINDOWS])
    farm.tell(JobsSubmitted(1.0, (job("one"), job("two", platform=Platform("riscv", True)))))
    farm.metrics.publish(2.0, at_once=True)
    name = "farm_pool_platform_info"
    assert farm.metrics.readings()[name] == {("linux", "amd64/virtual"): 1.0}
    both = Builder(id="own", pool="boards", index=9, processors=("riscv", "amd64"))
    farm.tell(BuilderJoined(3.0, both))
    farm.metrics.publish(4.0, at_once=True)
    assert set(farm.metrics.readings()[name]) == {
        ("linux", "amd64/virtual"), ("boards", "riscv/virtual"), ("boards", "amd64/virtual"),
    }  # fmt: skip
