"""Fastest: builders of different speeds, waiting for a better one, and its worst cases."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.dispatching.fastest import LOOK_AHEAD
from farm.core.events import (
    AlarmRang,
    BuilderJoined,
    BuilderLost,
    DrainRequested,
    Event,
    FarmOpened,
    JobsSubmitted,
    PriorityChanged,
)
from farm.core.model import Builder, Job, Platform
from farm.core.policies import POLICIES, PolicyOptions
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from tests.fixtures.examples import examples
from tests.worlds.virtual import FAIR, Ledger, Story


class Speeds(Ledger):
    """Builders of these speeds, in one pool; the test sets the time, and sees what is started."""

    def __init__(self, *speeds: float, slots: int = 1, **rules: Any) -> None:
        super().__init__(by_speed=True, **rules)
        for number, speed in enumerate(speeds):
            builder = Builder(id=f"b{number}", pool="p", index=number, speed=speed, slots=slots)
            self.tell(BuilderJoined(0.0, builder))

    def tell(self, event: Event) -> list[str]:
        super().tell(event)
        return self.starts

    def submit(self, at: float, **times: float) -> list[str]:  # type: ignore[override]
        """Submit jobs together, each with its service time."""
        jobs = tuple(Job(id=name, service_time=time) for name, time in times.items())
        return self.tell(JobsSubmitted(at, jobs))

    def finish(self, at: float, name: str) -> list[str]:  # type: ignore[override]
        self.at = at
        super().finish(name)
        return self.starts


def test_the_fastest_free_builder_takes_the_job():
    """Speed decides, not the index, nor how busy a builder is."""
    farm = Speeds(1.0, 4.0, 2.0, slots=2)
    assert farm.submit(0, a=40.0, b=40.0, c=40.0) == ["a@b1", "b@b1", "c@b2"]


@pytest.mark.parametrize("rules", [{}, FAIR])
def test_a_builder_that_joins_takes_as_many_waiting_jobs_as_it_has_slots(rules):
    """More wait than that; each slot takes one, and the next job waits for the first end."""
    farm = Speeds(slots=2, **rules)
    assert farm.submit(0, a=40.0, b=40.0, c=40.0, d=40.0) == []
    late = Builder(id="late", pool="p", index=0, slots=2)
    assert farm.tell(BuilderJoined(1.0, late)) == ["a@late", "b@late"]
    assert farm.finish(41.0, "b") == ["c@late"]


def test_a_job_waits_for_a_faster_builder_when_that_ends_sooner():
    """Ten seconds for the fast one to be free and ten on it, or forty on the slow one."""
    farm = Speeds(1.0, 4.0)
    assert farm.submit(0, a=40.0) == ["a@b1"]
    assert farm.submit(0, b=40.0) == []
    assert farm.finish(10, "a") == ["b@b1"]


def test_it_does_not_wait_when_that_ends_later_or_at_the_same_time():
    """Forty seconds for the fast one: the slow one is as good."""
    farm = Speeds(1.0, 4.0)
    farm.submit(0, a=160.0)
    assert farm.submit(10, b=40.0) == ["b@b0"]
    farm = Speeds(1.0, 2.0)
    farm.submit(0, a=40.0)
    assert farm.submit(0, b=40.0) == ["b@b0"]


def test_waiting_jobs_reserve_so_that_not_all_wait_for_the_same_builder():
    """Two may end sooner on the fast one, the third is as well off on the slow one."""
    farm = Speeds(1.0, 4.0)
    assert farm.submit(0, a=40.0, b=40.0, c=40.0, d=40.0, e=40.0) == ["a@b1", "d@b0"]
    assert farm.finish(10, "a") == ["b@b1"]
    assert farm.finish(20, "b") == ["c@b1"]
    assert farm.finish(30, "c") == ["e@b1"]


def test_patience_ends_when_the_hoped_for_saving_has_passed():
    """The worst case, a fast builder that hangs: the job goes to the slow one.

    It hoped to save 40 - 10 seconds; after those thirty it has ended in less than twice forty.
    """
    farm = Speeds(1.0, 4.0)
    farm.submit(0, a=40.0)
    assert farm.submit(0, b=40.0) == []
    assert farm.alarms == [30.0]
    assert farm.tell(AlarmRang(30.0)) == ["b@b0"]


def test_each_waiting_job_has_its_own_patience():
    """The alarm is set for the next one as soon as one has rung."""
    farm = Speeds(1.0, 1.0, 4.0)
    farm.submit(0, a=40.0)
    assert farm.submit(0, b=40.0) == []
    assert farm.submit(5, c=40.0) == []
    assert farm.tell(AlarmRang(30.0)) == ["b@b0"]
    assert farm.alarms == [30.0, 35.0]
    assert farm.tell(AlarmRang(35.0)) == ["c@b1"]


def test_no_job_waits_for_a_fast_builder_that_is_lost_or_drains():
    """The reason to wait is gone: the jobs take the slow one at once."""
    farm = Speeds(1.0, 4.0, retries=0)
    farm.submit(0, a=40.0)
    farm.submit(0, b=40.0)
    assert farm.tell(BuilderLost(3.0, "b1")) == ["b@b0"]
    farm = Speeds(1.0, 4.0)
    farm.submit(0, a=40.0)
    farm.submit(0, b=40.0)
    assert farm.tell(DrainRequested(3.0, "b1")) == ["b@b0"]


def test_the_first_in_order_gets_the_fast_builder_first():
    """A job of a higher level that comes later takes the place that another waited for."""
    farm = Speeds(1.0, 4.0)
    farm.submit(0, a=40.0)
    assert farm.submit(0, b=40.0) == []
    assert farm.tell(JobsSubmitted(5.0, (Job(id="c", service_time=40.0, level=1),))) == []
    assert farm.finish(10, "a") == ["c@b1"]
    farm.tell(PriorityChanged(11.0, "b", level=2))
    assert farm.finish(20, "c") == ["b@b1"]


def test_only_builders_of_the_right_platform_count():
    """A fast builder of another kind is no reason to wait."""
    farm = Speeds(1.0)
    fast = Builder(id="x", pool="q", index=9, speed=9.0, processors=("arm64",))
    farm.tell(BuilderJoined(0.0, fast))
    slow = Builder(id="y", pool="q", index=8, processors=("amd64",))
    farm.tell(BuilderJoined(0.0, slow))
    jobs = [Job(id=n, service_time=9.0, platform=Platform("amd64")) for n in "ab"]
    assert farm.tell(JobsSubmitted(0.0, tuple(jobs))) == ["a@y"]


def test_the_number_of_jobs_that_wait_by_choice_is_bounded():
    """The worst case of a long queue: jobs beyond the look-ahead take any free builder."""
    farm = Speeds(1.0, 1000.0)
    farm.submit(0, a=1000.0)
    times = {f"j{number}": 1000.0 for number in range(200)}
    assert farm.submit(0, **times) == [f"j{LOOK_AHEAD}@b0"]


def test_fair_share_orders_the_candidates():
    """With a tree, users take turns for the fast builder."""
    farm = Speeds(1.0, 4.0, **FAIR)

    def job(name: str) -> Job:
        return Job(id=name, service_time=40.0, attributes={"user": name[0]})

    assert farm.tell(JobsSubmitted(0.0, (job("a1"), job("a2"), job("b1")))) == ["a1@b1"]
    assert farm.finish(10, "a1") == ["b1@b1"]
    assert farm.finish(20, "b1") == ["a2@b1"]


def test_a_restored_scheduler_expects_the_same_ends():
    """After a restart it waits for the same builder, and not forever."""
    farm = Speeds(1.0, 4.0)
    farm.submit(0, a=40.0)
    farm.submit(0, b=40.0)
    farm.restart(at=1.0)
    assert farm.submit(2.0, c=40.0) == []
    assert farm.alarms[1:] == [30.0]
    assert farm.finish(10.0, "a") == ["b@b1"]


def test_a_restored_scheduler_knows_a_job_that_was_dispatched_at_the_beginning():
    """The instant 0 is an instant like any other: the fast builder is free at 10, not at 19."""
    farm = Speeds(1.0, 4.0)
    farm.submit(0, a=40.0)
    farm.restart(at=9.0)
    assert farm.submit(9, b=12.0) == []


def test_a_restored_scheduler_stops_waiting_at_the_same_instant():
    """Alarms do not outlive a scheduler: the next one sets them again, as they were."""
    farm = Speeds(1.0, 10.0)
    farm.submit(0, a=1000.0)
    farm.submit(6, b=500.0)
    assert farm.alarms == [456.0]
    farm.restart(at=50.0)
    assert farm.tell(FarmOpened(50.0)) == []
    assert farm.alarms == [456.0, 456.0]
    assert farm.tell(AlarmRang(456.0)) == ["b@b0"]


def test_a_scheduler_restored_too_late_dispatches_when_it_opens():
    """The job has waited for long enough while there was no scheduler."""
    farm = Speeds(1.0, 10.0)
    farm.submit(0, a=1000.0)
    farm.submit(6, b=500.0)
    farm.restart(at=50.0)
    assert farm.tell(FarmOpened(500.0)) == ["b@b0"]


def test_a_fork_that_holds_no_jobs_back_dispatches_when_it_opens():
    """What if any builder would do? The job that waits goes to the one that is free."""
    farm = Speeds(1.0, 10.0)
    farm.submit(0, a=1000.0)
    farm.submit(6, b=500.0)
    farm.rules = SchedulingRules()
    farm.restart(at=50.0, rekey=True)
    assert farm.tell(FarmOpened(50.0)) == ["b@b0"]


# --- whole farms -------------------------------------------------------------------------------

jobs_of = st.lists(
    st.tuples(st.floats(0.0, 100.0), st.floats(0.5, 50.0), st.sampled_from("ab")),
    min_size=1,
    max_size=50,
)


def run(pools: list[PoolSpec], drawn: Any, check: Any = None, **rules: Any) -> Story:
    """Simulate, with a check after each event."""
    story = Story()
    if check is not None:
        story.then = lambda *_: check(story.scheduler)
    jobs = [
        Job(id=f"j{n}", service_time=time, arrived_at=at, attributes={"user": user})
        for n, (at, time, user) in enumerate(sorted(drawn))
    ]
    return story.play(pools, jobs, **rules)


@examples(60)
@given(
    drawn=jobs_of,
    slots=st.integers(1, 3),
    fair=st.booleans(),
    policy=st.sampled_from(sorted(POLICIES)),
    cleaning=st.sampled_from([0.0, 3.0]),
)
def test_every_job_ends_and_a_builder_works_while_any_job_waits(
    drawn, slots, fair, policy, cleaning
):
    """No job waits for idle builders, and the counted slots are those that run."""
    pools = [
        PoolSpec(name="slow", builders=2, slots=slots, inter_job_time=cleaning),
        PoolSpec(name="fast", builders=1, slots=slots, speed=3.0),
        PoolSpec(name="faster", builders=1, slots=1, speed=5.0, inter_job_time=cleaning),
    ]
    rules: dict[str, Any] = {"policy": POLICIES[policy](PolicyOptions())}
    if fair:
        rules |= FAIR

    def check(scheduler: Scheduler) -> None:
        busy = sum(builder.busy for builder in scheduler.builders.values())
        waiting = sum(lane.waiting for lane in scheduler.dispatcher.matching.lanes)
        assert busy or not waiting
        groups: Any = scheduler.dispatcher.matching.groups.values()
        assert sum(len(group.ends) for group in groups) == busy

    run(pools, drawn, check, by_speed=True, **rules)


@examples(40)
@given(drawn=jobs_of, builders=st.integers(1, 4), slots=st.integers(1, 3))
def test_among_equal_builders_it_is_the_jenkins_balancer(drawn, builders, slots):
    """Where all are equally fast no job waits by choice: the same commands."""
    pools = [PoolSpec(name="p", builders=builders, slots=slots)]
    assert run(pools, drawn, by_speed=True).events == run(pools, drawn).events


def test_waiting_pays():
    """Its purpose: six jobs on two fast and four slow builders end sooner than without."""
    pools = [PoolSpec(name="slow", builders=4), PoolSpec(name="fast", builders=2, speed=8.0)]
    drawn = [(at, 40.0, "a") for at in (0.0, 0.0, 1.0, 1.0, 2.0, 2.0)]

    def last(**rules: Any) -> float:
        return max(end for _, end in run(pools, drawn, **rules).times().values())

    assert last(by_speed=True) < last() / 2


def test_a_job_taken_from_the_middle_comes_back_to_its_place():
    """The slow builder that took a later job is lost: each job waits once, in the old order."""
    farm = Speeds(1.0, 4.0)
    farm.submit(0, a=40.0, b=40.0, c=40.0, d=40.0, e=40.0)
    assert farm.tell(BuilderLost(1.0, "b0")) == []
    assert farm.waiting == ["b", "c", "d", "e"]
    for n, name in enumerate("abcd", 1):
        assert farm.finish(10.0 * n, name) == [f"{'abcde'[n]}@b1"]
    assert farm.waiting == []
