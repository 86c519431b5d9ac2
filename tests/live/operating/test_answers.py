"""The scheduler's explanation of a waiting job is true, whatever the reason."""

from __future__ import annotations

from typing import Any

import pytest

from farm.app.jobs.submission_estimate import SubmissionEstimate
from farm.core import events
from farm.core.model import Builder, Job, Platform
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.core.state.working_state import BuilderRequest
from farm.live.operating.answers import Questions, Waiting
from farm.live.wire.messages import Ask

AMD64 = Platform("amd64", True)
POOLS = {
    name: PoolSpec(name=name, processors=(processor,), provisioned=processor == "arm64")
    for name, processor in (("linux", "amd64"), ("arm", "arm64"))
}


class Told:
    """A scheduler, and its answers about jobs."""

    def __init__(self, estimator, **rules: Any) -> None:
        self.scheduler = Scheduler(SchedulingRules(**rules), estimator)

    def join(self, name: str, uses: int | None = None) -> None:
        builder = Builder(id=name, pool="linux", index=1, processors=("amd64",), uses=uses)
        self.scheduler.handle(events.BuilderJoined(0.0, builder))

    def request(self, pool: str) -> None:
        builder = POOLS[pool].builder(1, 1)
        self.scheduler.pool(pool).requested[builder.id] = BuilderRequest(builder, 1.0)

    def submit(self, *ids: str, **fields: Any) -> None:
        jobs = tuple(
            Job(**{"id": name, "service_time": 9.0, "platform": AMD64, **fields}) for name in ids
        )
        self.scheduler.handle(events.JobsSubmitted(1.0, jobs))

    def of(self, job: str) -> Waiting:
        answers = []
        clerk = Questions(
            self.scheduler, POOLS, lambda: 2.0, lambda asked, found: answers.append((asked, found))
        )
        question = Ask("job", job, "token")
        clerk.ask(question)
        while clerk.step():
            pass
        ((asked, answer),) = answers
        assert asked is question
        assert answer.job is not None
        return answer.job


@pytest.fixture
def told(truth) -> Told:
    """A farm of one pool for amd64 and one for arm64, without builders."""
    return Told(truth)


def test_there_is_no_builder(told: Told):
    """Booting ones count only if they could run it; also for a platform that no builder has."""
    told.submit("a")
    told.submit("b", platform=Platform("sparc", False))
    told.request("arm")
    assert told.of("a").why == "no builder that could run it is there, and none of them boot"
    told.request("linux")
    assert told.of("a").why == "no builder that could run it is there, and 1 of them boot"
    assert told.of("a").booting == 1
    assert told.of("b").why == "no pool of the farm has builders that could run it"


def test_a_provisioner_may_bring_builders_that_no_estimate_counts(told: Told):
    """Only for jobs that builders of a provisioned pool could run."""
    told.submit("fixed")
    told.submit("elastic", platform=Platform("arm64", True))
    assert not told.of("fixed").may_grow
    assert told.of("elastic").may_grow
    estimate = {"job": "j", "dispatch_in_s": 60.0, "run_time_s": 5.0, "completion_in_s": 65.0}
    said = [SubmissionEstimate(**estimate, ahead=1, may_grow=it).in_words() for it in (True, False)]
    assert "1m (1 job before it, sooner if more builders come); it will run" in said[0]
    assert "1m (1 job before it); it will run" in said[1]


def test_builders_are_busy_or_accept_no_jobs(told: Told):
    """How many jobs are ahead; a running job has no reason."""
    told.join("linux-1")
    told.submit("a", "b", "c")
    assert told.of("a").why == ""
    assert told.of("b").why == "all 1 builders that could run it are busy, it is the next"
    assert told.of("c").why == "all 1 builders that could run it are busy, 1 job is ahead"
    told.scheduler.handle(events.DrainRequested(2.0, "*"))
    assert told.of("c").why == "all 1 builders that could run it are drained, failed or leaving"


def test_builders_with_all_their_uses_taken(told: Told):
    """They are not called drained: others take their place; the estimate expects them."""
    told.join("linux-1", uses=1)
    told.submit("a", "b")
    found = told.of("b")
    reason = "closed, 1 of them because all their uses are taken"
    assert found.why == f"all 1 builders that could run it are {reason}"
    assert found.dispatch_in_time is not None


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


def test_the_farm_keeps_working_while_a_question_is_answered(told: Told):
    """Several questions wait for their turn; each answer is of the moment when it was asked."""
    told.join("linux-1")
    told.submit(*(f"j{number}" for number in range(200)))
    at, answers = [2.0], {}
    clerk = Questions(
        told.scheduler,
        POOLS,
        lambda: at[0],
        lambda asked, found: answers.setdefault(asked.job, found),
    )
    assert not clerk.step()
    for job in ("j150", "j199", "unknown"):
        clerk.ask(Ask("job", job, "token"))
    assert clerk.step()
    at[0] = 9.0
    told.scheduler.handle(events.JobFinished(9.0, "j0", 1, "linux-1", "succeeded"))
    while clerk.step():
        pass
    assert {job: found.at for job, found in answers.items()} == {
        "j150": 2.0,
        "j199": 9.0,
        "unknown": 9.0,
    }
    assert answers["j150"].job.ahead == 149
    assert answers["j199"].job.ahead == 197
    assert answers["unknown"].job is None
