"""The order of dispatch in a snapshot, with several queues for one platform."""

from __future__ import annotations

import pytest

from farm.core.contention.laws import LoadLimits
from farm.core.dispatching.heavy_light import heavy_share
from farm.core.events import BuilderJoined, DrainRequested, JobsSubmitted, JobStarted
from farm.core.model import Builder, Job, Platform
from farm.core.queues.fair_share.path_keys import PathExtractor
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.rules import HeavyLightOptions, SchedulingRules
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import snapshot_of
from farm.forecasts.dispatch.in_steps import QueueSweep
from farm.forecasts.dispatch.view import view_of
from farm.forecasts.runtime.oracle import Oracle
from tests.fixtures.estimates import whole_table

HEAVY_LIGHT = {
    "heavy_light": HeavyLightOptions(limits=LoadLimits(0.5, 0.25), measure=heavy_share),
}
TREE = {"make_queue": FairShareQueue, "path": PathExtractor(["user"])}


def submitted(*jobs: Job, **rules) -> Scheduler:
    """Return a farm of one slot to which these jobs are submitted, one by one."""
    scheduler = Scheduler(SchedulingRules(**rules), Oracle())
    processors = ("a", "b")
    scheduler.handle(BuilderJoined(0.0, Builder(id="x", pool="p", index=1, processors=processors)))
    for job in jobs:
        scheduler.handle(JobsSubmitted(0.0, (job,)))
    return scheduler


def both_orders(scheduler: Scheduler) -> tuple[list[int], list[int]]:
    """Return the waiting jobs' serials: in the view of a snapshot, and in a sweep of the queues."""
    lanes, builders = scheduler.dispatcher.matching.lanes, scheduler.builders.values()
    sweep = QueueSweep(lanes, builders, 0.0)
    while sweep.step():
        pass
    return [job.id for job in view_of(snapshot_of(scheduler, 0.0)).waiting()], list(sweep.places)


@pytest.mark.parametrize("rules", [{}, HEAVY_LIGHT, TREE, HEAVY_LIGHT | TREE])
def test_heavy_and_light_jobs_are_in_the_order_of_the_queues(rules) -> None:
    """Whether they wait in one queue or in two: the second job is heavy, and not the last one."""
    names = ["runs", "L0", "H0", "L1", "L2", "H1", "L3"]
    jobs = [
        Job(id=name, service_time=100.0, heavy=name[0] == "H", attributes={"user": name[-1]})
        for name in names
    ]
    seen, swept = both_orders(submitted(*jobs, **rules))
    assert seen == swept
    if "path" not in rules:
        assert seen == [2, 3, 4, 5, 6, 7]


def test_a_shared_execution_holds_up_no_queue() -> None:
    """The job that shares it came late; the jobs behind it in the queue did not."""
    names = ("a-runs", "a1", "a2", "b1", "a3")
    jobs = [
        Job(id=name, service_time=100.0, platform=Platform(name[0]), action=action)
        for name, action in zip(names, (None, "compile", None, None, "compile"), strict=True)
    ]
    seen, _ = both_orders(submitted(*jobs, dedup=True))
    assert seen == [2, 5, 3, 4]


def test_running_jobs_free_their_slots() -> None:
    """Elapsed time counts from the start, else from dispatch; draining builders do not count."""
    scheduler = Scheduler(SchedulingRules(), Oracle())
    jobs = [Job(id=f"{time:g}", service_time=time) for time in (100.0, 101.0, 60.0, 80.0)]
    two, one = (Builder(id=f"b{n}", pool="p", index=n, slots=n) for n in (2, 1))
    for event in (
        BuilderJoined(0.0, one),
        DrainRequested(0.0, "b1"),
        BuilderJoined(0.0, two),
        JobsSubmitted(5.0, (jobs[0],)),
        JobStarted(10.0, "100", 1, "b2"),
        JobsSubmitted(30.0, (jobs[1],)),
        JobsSubmitted(40.0, tuple(jobs[2:])),
    ):
        scheduler.handle(event)
    lanes = scheduler.dispatcher.matching.lanes
    sweep = QueueSweep(lanes, scheduler.builders.values(), 40.0)
    while sweep.step():
        pass
    found = sweep.estimates
    # 100 s estimated, 30 s done; then 60 s ahead ÷ 1 job
    assert whole_table(found) == [70.0, 130.0]
    assert found.new_job(Platform()) == 70 + 140 / 2
