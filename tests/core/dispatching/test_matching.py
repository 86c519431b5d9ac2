"""Which jobs share a queue, which builders a group, and which head of two queues goes first."""

from __future__ import annotations

import pytest

from farm.core.dispatching.balancers import jenkins
from farm.core.dispatching.matching import Lane, Matching
from farm.core.model import Builder, Job, Platform
from farm.core.queues.plain import PlainQueue
from farm.core.state.working_state import JobState
from tests.worlds.virtual import Ledger

AMD64, ARM64 = Platform("amd64"), Platform("arm64")
SLOW = Builder(id="slow", pool="p", index=1, processors=("amd64",))
FAST = Builder(id="fast", pool="p", index=2, processors=("amd64",), speed=2.0)


@pytest.mark.parametrize("asked", [False, True])
def test_heavy_jobs_and_fast_builders_are_kept_apart_only_where_a_rule_asks(asked: bool) -> None:
    """A plain farm would have builders for heavy jobs that none of its rules admits."""
    matching = Matching(jenkins, PlainQueue, by_weight=asked, by_speed=asked)

    assert (matching.lane(AMD64, heavy=True) is not matching.lane(AMD64)) is asked
    assert (matching.group(FAST) is not matching.group(SLOW)) is asked


def test_a_heavy_job_of_another_platform_does_not_go_first(ledger: type[Ledger]) -> None:
    """Only heavy-light may prefer heavy jobs."""
    farm = ledger()
    farm.join("x", processors=("amd64", "arm64"))
    farm.submit("running")
    farm.submit("light")
    farm.submit(farm.job("heavy", platform=ARM64, heavy=True))

    assert farm.finish("running") == ["end running succeeded", "start light/1 on x.0"]


def test_a_job_in_a_node_precedes_those_of_its_children() -> None:
    """Heads of two trees would compete otherwise than in one."""
    matching = Matching(jenkins, PlainQueue)
    lane = Lane(AMD64, PlainQueue())

    def waiting(name: str, serial: int, *path: str) -> JobState:
        job = Job(id=name, service_time=1.0)
        state = JobState(job, serial, (serial,), 0.0, 1.0, lane=lane)
        state.path = path
        return state

    above, below, later = waiting("a", 2, "team"), waiting("b", 1, "team", "user"), waiting("c", 3)
    later.path = ("team",)

    assert matching.before(above, below)
    assert not matching.before(below, above)
    assert matching.before(above, later)
    assert not matching.before(later, above)
