"""What the scheduler's process says of a job: why it waits, truly, whatever the reason."""

from __future__ import annotations

import pytest

from farm.core import events
from farm.core.model import Builder, Job, Platform
from farm.core.pool_spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.live.answers import Waiting, answer
from farm.live.messages import Ask

AMD64 = Platform("amd64", True)
POOLS = {
    name: PoolSpec(name=name, processors=(processor,))
    for name, processor in (("linux", "amd64"), ("arm", "arm64"))
}


class Told:
    """A scheduler, and what it says of jobs."""

    def __init__(self, estimator, **rules: object) -> None:
        self.scheduler = Scheduler(SchedulingRules(**rules), estimator)

    def join(self, name: str) -> None:
        builder = Builder(id=name, pool="linux", index=1, processors=("amd64",))
        self.scheduler.handle(events.BuilderJoined(0.0, builder))

    def submit(self, *ids: str, **fields: object) -> None:
        jobs = tuple(
            Job(**{"id": name, "service_time": 9.0, "platform": AMD64, **fields}) for name in ids
        )
        self.scheduler.handle(events.JobsSubmitted(1.0, jobs))

    def of(self, job: str) -> Waiting:
        found = answer(Ask("job", job, "token"), self.scheduler, POOLS, 2.0).job
        assert found is not None
        return found


@pytest.fixture
def told(truth) -> Told:
    """A farm of one pool for amd64 and one for arm64, nobody there yet."""
    return Told(truth)


def test_no_builder_is_there(told: Told):
    """Booting ones count only if they could run it; and some platform nobody has."""
    told.submit("a")
    told.submit("b", platform=Platform("sparc", False))
    told.scheduler.handle(events.BuilderRequested(1.0, "arm-1", "arm"))
    assert told.of("a").why == "no builder that could run it is there, and none of them boot"
    told.scheduler.handle(events.BuilderRequested(1.0, "linux-1", "linux"))
    assert told.of("a").why == "no builder that could run it is there, and 1 of them boot"
    assert told.of("a").booting == 1
    assert told.of("b").why == "no pool of the farm has builders that could run it"


def test_builders_are_busy_or_take_nothing(told: Told):
    """How many are ahead; of a running job there is nothing to say."""
    told.join("linux-1")
    told.submit("a", "b", "c")
    assert told.of("a").why == ""
    assert told.of("b").why == "all 1 builders that could run it are busy, it is the next"
    assert told.of("c").why == "all 1 builders that could run it are busy, 1 jobs are ahead"
    told.scheduler.handle(events.DrainRequested(2.0, "*"))
    assert told.of("c").why == "all 1 builders that could run it are drained, failed or leaving"


def test_a_job_that_is_served_by_anothers_execution(truth):
    """It has no place in the queue, and does not run itself, also while that one runs."""
    told = Told(truth, dedup=True)
    told.submit("a", action="x")
    told.submit("b", action="x")
    said = "a, which does the same action, is executed for both"
    assert told.of("b").why == said
    told.join("linux-1")
    assert told.of("a").why == ""
    assert told.of("b").why == said
