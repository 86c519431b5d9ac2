"""The values of the metrics after known events."""

from __future__ import annotations

import pytest

from farm.core.events import (
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    DrainRequested,
    EstimateMade,
    JobFinished,
    JobsSubmitted,
    JobStarted,
    PoolPlanned,
)
from farm.core.model import Builder, Platform
from farm.core.pools.spec import PoolSpec
from farm.core.rules import Choices
from farm.metrics.farm_metrics import FarmMetrics
from farm.metrics.series import Bounded


def run_job(farm, job, at: float, builder: str, *, ends_at: float, outcome="succeeded") -> None:
    """Submit a job that goes to this builder, starts at once and ends."""
    farm.tell(JobsSubmitted(at, (job,)))
    farm.tell(JobStarted(at, job.id, 1, builder))
    farm.tell(JobFinished(ends_at, job.id, 1, builder, outcome))


@pytest.fixture
def farm(play):
    """A farm with one builder."""
    farm = play()
    farm.join(0.0, "b1")
    return farm


def test_jobs_are_counted_by_outcome(farm, job):
    """Submitted, dispatched and ended jobs; waiting, service and response times."""
    run_job(farm, job("one", arrived_at=3.0), 5.0, "b1", ends_at=15.0)
    run_job(farm, job("two"), 20.0, "b1", ends_at=26.0, outcome="failed")
    farm.tell(JobsSubmitted(30.0, (job("three"), job("four"))))
    farm.metrics.publish(31.0, is_logged=False, at_once=True)
    assert farm.value("farm_event_log_ok") == 0
    assert farm.value("farm_jobs_submitted_total", "amd64/virtual") == 4
    assert farm.value("farm_jobs_dispatched_total", "amd64/virtual") == 3
    assert farm.values("farm_jobs_total", "succeeded", "failed", "cancelled") == [1, 1, 0]
    assert farm.value("farm_queue_depth", "amd64/virtual") == 1
    assert farm.value("farm_jobs_running", "linux") == 1
    assert farm.value("farm_job_waiting_seconds", "amd64/virtual") == (2, 2.0)
    assert farm.value("farm_job_service_seconds", "amd64/virtual") == (2, 16.0)
    assert farm.value("farm_job_response_seconds", "amd64/virtual") == (2, 18.0)
    assert farm.value("farm_queue_oldest_wait_seconds", "amd64/virtual") == 1.0


def test_lost_attempts_and_builders_differ_from_failed_jobs(play, job):
    """A lost builder's attempt is lost; with no retries left its job is failed."""
    farm = play(retries=1)
    farm.join(0.0, "b1")
    farm.tell(JobsSubmitted(1.0, (job("one"),)))
    farm.tell(BuilderLost(2.0, "b1", "gone"))
    farm.join(3.0, "b2")
    farm.tell(BuilderLost(4.0, "b2", "gone"))
    farm.metrics.publish(5.0, at_once=True)
    assert farm.values("farm_attempts_total", "lost", "failed") == [2, 0]
    assert farm.value("farm_jobs_total", "failed") == 1
    assert farm.value("farm_builders_ended_total", "linux", "lost") == 2
    assert farm.value("farm_builder_seconds_total", "linux") == 3.0
    assert farm.value("farm_job_service_seconds", "amd64/virtual") == (0, 0.0)


def test_stopped_builders_differ_from_lost_ones(farm):
    """An operator's actions must not look like failing builders."""
    farm.tell(BuilderLost(2.0, "b1", "its host left", excused=True))
    farm.metrics.publish(3.0, at_once=True)
    assert farm.values("farm_builders_ended_total", "left", "lost", pool="linux") == [1, 0]
    farm.metrics.publish(3.0, unplaced={"linux": 2}, at_once=True)
    assert farm.value("farm_builders_unplaced", "linux") == 2


def test_builders_and_slots_are_counted_by_state(play, job):
    """Booting, idle and building ones; a pool stays at zero when its builders are gone."""
    farm = play()
    farm.join(0.0, "b1", slots=2)
    farm.request(1.0, "b2")
    farm.tell(JobsSubmitted(2.0, (job("one"),)))
    farm.metrics.publish(3.0, at_once=True)
    states = ("building", "booting", "idle")
    assert farm.values("farm_builders", *states, pool="linux") == [1, 1, 0]
    assert farm.values("farm_slots", "busy", "idle", pool="linux") == [1, 1]
    farm.tell(BuilderLost(4.0, "b2"), BuilderRetired(5.0, "b1"))
    farm.metrics.publish(6.0, at_once=True)
    assert farm.value("farm_builders", "linux", "building") == 0
    assert farm.value("farm_slots", "linux", "busy") == 0
    assert farm.value("farm_builder_seconds_total", "linux") == 5.0


def test_counters_of_a_pool_are_zero_from_the_start(play):
    """A counter that first appears at 40 looks, to a rate, as if nothing had happened."""
    farm = play(pools=[PoolSpec(name="linux", processors=("amd64", "i386"))])
    farm.metrics.publish(0.0, at_once=True)
    for name in ("builders_requested", "builders_joined", "builder_seconds"):
        assert farm.value(f"farm_{name}_total", "linux") == 0.0
    assert farm.value("farm_builders_ended_total", "linux", "lost") == 0.0
    for name in ("farm_jobs_submitted_total", "farm_jobs_dispatched_total"):
        assert farm.values(name, "amd64/virtual", "i386/virtual") == [0.0, 0.0]


def test_booting_and_plans_are_measured(play):
    """Request to join, and how many builders there should be."""
    farm = play()
    farm.request(1.0, "b1")
    farm.join(31.0, "b1")
    farm.tell(PoolPlanned(32.0, "linux", 7, 6, 1, 20))
    farm.metrics.publish(33.0, at_once=True)
    assert farm.value("farm_provisioner_desired_builders", "linux") == 7
    assert farm.value("farm_builders_requested_total", "linux") >= 1


def test_an_estimate_is_compared_with_the_actual_dispatch(farm, job):
    """Later and earlier dispatches are counted apart; a job counts once."""
    run_job(farm, job("first"), 0.0, "b1", ends_at=0.0)
    farm.tell(JobsSubmitted(1.0, (job("blocker"),)))
    farm.tell(JobsSubmitted(2.0, (job("late"),)), EstimateMade(2.0, "late", "farm", 5.0))
    farm.tell(JobFinished(11.0, "blocker", 1, "b1", "succeeded"))
    farm.metrics.publish(12.0, at_once=True)
    name, platform = "farm_dispatch_estimate_error_seconds", "amd64/virtual"
    assert farm.value(name, platform, "later") == (1, 6.0)
    assert farm.value(name, platform, "earlier") == (0, 0.0)


def test_it_is_counted_how_often_ranges_hold(farm, job):
    """A share of 80 % should start within its range; who watches a farm sees where it does not."""
    ranges = {"early": (30.0, 40.0), "within": (10.0, 30.0), "late": (5.0, 8.0)}
    run_job(farm, job("first"), 0.0, "b1", ends_at=0.0)
    farm.tell(JobsSubmitted(1.0, (job("blocker"),)))
    for name, (low, high) in ranges.items():
        quantiles = tuple(low + (high - low) * n / 8 for n in range(9))
        made = EstimateMade(2.0, name, "rollout", low, "last-3", 1, None, quantiles)
        farm.tell(JobsSubmitted(2.0, (job(name),)), made)
    for number, name in enumerate(["blocker", *ranges]):
        farm.tell(JobFinished(11.0 + number, name, 1, "b1", "succeeded"))
    farm.metrics.publish(15.0, at_once=True)
    counted = [
        farm.value("farm_dispatch_forecasts_total", "amd64/virtual", dispatch)
        for dispatch in ("within", "earlier", "later")
    ]
    assert counted == [1, 1, 1]


def test_an_estimate_that_comes_too_late_is_not_kept(farm, job):
    """The job runs already, or has ended: there is nothing to compare the estimate with."""
    farm.tell(JobsSubmitted(0.0, (job("one"),)), EstimateMade(1.0, "one", "farm", 5.0))
    farm.tell(JobFinished(2.0, "one", 1, "b1", "succeeded"))
    farm.tell(EstimateMade(3.0, "one", "farm", 5.0))
    assert not farm.metrics._tally._expected


def test_estimates_are_shown_for_the_head_and_for_a_new_job(farm, job):
    """One running job of 10 s, one waiting: the head waits for the first, a new one for both."""
    farm.tell(JobsSubmitted(0.0, (job("one"), job("two"))))
    farm.metrics.publish(0.0, at_once=True)
    found = farm.values("farm_dispatch_estimate_seconds", "head", "new", pool="amd64/virtual")
    assert found == [10.0, 20.0]


def test_estimates_may_be_calculated_in_steps(play, job):
    """They describe the moment at which the calculation began, however the farm continues."""
    farm = play(in_steps=True)
    farm.join(0.0, "b1")
    farm.tell(JobsSubmitted(0.0, (job("one"), job("two"), job("three"))))
    farm.metrics.publish(4.0, at_once=True)
    assert "farm_dispatch_estimate_seconds" not in farm.metrics.readings()
    farm.tell(JobFinished(5.0, "one", 1, "b1", "succeeded"))
    farm.metrics.publish(5.0, at_once=True)
    while farm.metrics.step():
        pass
    farm.metrics.publish(5.5, at_once=True)
    assert farm.value("farm_queue_depth", "amd64/virtual") == 1
    assert farm.value("farm_queue_oldest_wait_seconds", "amd64/virtual") == 4.0
    found = farm.values("farm_dispatch_estimate_seconds", "head", "new", pool="amd64/virtual")
    assert found == [6.0, 26.0]
    assert not farm.metrics.step()


def test_a_queue_too_long_to_estimate_shows_no_old_estimates(play, job, monkeypatch):
    """A value that was not updated for long is not shown."""
    clock = [0.0]
    farm = play(monotonic=lambda: clock[0])
    farm.join(0.0, "b1")
    farm.tell(JobsSubmitted(0.0, (job("one"), job("two"))))
    farm.metrics.publish(0.0, at_once=True)
    assert farm.value("farm_dispatch_estimate_seconds", "amd64/virtual", "head") == 10.0
    monkeypatch.setattr("farm.metrics.farm_metrics.MAX_WAITING", 0)
    clock[0] = 60.0
    farm.metrics.publish(60.0, at_once=True)
    assert not farm.metrics.readings()["farm_dispatch_estimate_seconds"]
    assert farm.value("farm_queue_depth", "amd64/virtual") == 1


def test_a_matrix_is_answered_when_its_last_job_ends(play, job):
    """From its release, once."""
    farm = play()
    farm.join(0.0, "b1", slots=2)
    pair = (job("m-1", matrix="m"), job("m-2", matrix="m"))
    farm.tell(JobsSubmitted(1.0, pair))
    farm.tell(JobFinished(5.0, "m-1", 1, "b1", "succeeded"))
    farm.metrics.publish(5.0, at_once=True)
    assert farm.value("farm_matrix_response_seconds") == (0, 0.0)
    farm.tell(JobFinished(9.0, "m-2", 1, "b1", "succeeded"))
    farm.metrics.publish(9.0, at_once=True)
    assert farm.value("farm_matrix_response_seconds") == (1, 8.0)


def test_shares_and_stickiness(play, job):
    """Slots are charged to the first key; a slot that stays with it is retained at level 0."""
    farm = play(("team", "build"), choices=Choices(weights={"red": 2.0}))
    farm.join(0.0, "b1")

    def of(name, team, build):
        return job(name, attributes={"team": team, "build": build})

    run_job(farm, of("1", "red", "a"), 0.0, "b1", ends_at=4.0)
    run_job(farm, of("2", "red", "b"), 5.0, "b1", ends_at=6.0)
    farm.tell(JobsSubmitted(7.0, (of("3", "blue", "c"),)))
    farm.metrics.publish(8.0, at_once=True)
    farm.tell(JobsSubmitted(8.0, (of("4", "red", "d"), of("5", "red", "e"))))
    farm.metrics.publish(8.0, at_once=True)
    assert farm.values("farm_share_queue_depth", "red", "blue") == [2, 0]
    assert farm.values("farm_share_slots", "red", "blue") == [0, 1]
    assert farm.values("farm_share_weight", "red", "blue") == [2, 1]
    assert farm.value("farm_share_slot_seconds_total", "red") == 5.0
    assert farm.value("farm_share_jobs_submitted_total", "red") == 4
    sticky = {("0", "retained"): 1, ("0", "switched"): 1, ("1", "switched"): 2}
    assert farm.metrics.readings()["farm_sticky_dispatches_total"] == sticky


def test_spans_of_jobs_are_separate_by_platform(farm, job):
    """Waiting quantiles obey the platform that is chosen on a dashboard."""
    farm.tell(JobsSubmitted(1.0, (job("one"),)))
    farm.tell(JobsSubmitted(1.0, (job("other", platform=Platform("riscv", True)),)))
    farm.tell(JobStarted(4.0, "one", 1, "b1"), JobFinished(9.0, "one", 1, "b1", "succeeded"))
    farm.metrics.publish(9.0, at_once=True)
    for span, seconds in (("waiting", 3.0), ("service", 5.0), ("response", 8.0)):
        found = farm.values(f"farm_job_{span}_seconds", "amd64/virtual", "riscv/virtual")
        assert found == [(1, seconds), (0, 0.0)], "there from its first job on, at zero"


def test_a_restarted_scheduler_knows_the_shares_of_existing_jobs(play, job):
    """One waits, one runs, and no more jobs are submitted: each has all three gauges."""
    farm = play(("team",))
    farm.join(0.0, "b1")
    farm.tell(JobsSubmitted(1.0, (job("1", attributes={"team": "red"}),)))
    farm.tell(JobsSubmitted(2.0, (job("2", attributes={"team": "blue"}),)))
    farm.metrics = FarmMetrics(farm.scheduler)
    farm.metrics.publish(3.0, at_once=True)
    gauges = ("farm_share_slots", "farm_share_queue_depth", "farm_share_weight")
    assert [farm.value(name, "red") for name in gauges] == [1, 0, 1]
    assert [farm.value(name, "blue") for name in gauges] == [0, 1, 1]


def test_slowdown_is_measured_against_the_service_time_alone(farm, job):
    """A job of 10 s that took 14 was slowed down by 1.4."""
    run_job(farm, job("one"), 0.0, "b1", ends_at=14.0)
    farm.metrics.publish(15.0, at_once=True)
    assert farm.value("farm_contention_slowdown_ratio", "linux") == 1.4


def test_slowdown_is_told_by_the_number_of_jobs_on_the_builder(play, job):
    """Alone a job took 10 s of 10, beside another one 15: contention, not a slow machine."""
    farm = play()
    farm.join(0.0, "b2", slots=2)
    run_job(farm, job("alone"), 0.0, "b2", ends_at=10.0)
    farm.tell(JobsSubmitted(20.0, (job("first"), job("second"))))
    farm.tell(*(JobStarted(20.0, name, 1, "b2") for name in ("first", "second")))
    farm.tell(*(JobFinished(35.0, name, 1, "b2", "succeeded") for name in ("first", "second")))
    farm.metrics.publish(36.0, at_once=True)
    found = [
        farm.value("farm_contention_slowdown_by_jobs_ratio", "linux", jobs) for jobs in ("1", "2")
    ]
    assert found == [1.0, 1.5]


def test_late_reports_count_as_ignored(farm, job):
    """An event about something that has ended changes nothing else."""
    run_job(farm, job("one"), 0.0, "b1", ends_at=1.0)
    farm.tell(JobFinished(2.0, "one", 1, "b1", "failed"))
    farm.metrics.publish(3.0, at_once=True)
    assert farm.value("farm_scheduler_ignored_events_total") == 1
    assert farm.value("farm_jobs_total", "failed") == 0


def test_readings_do_not_change_when_the_farm_does(farm, job):
    """A scrape sees one instant, whatever happens afterwards."""
    farm.metrics.publish(0.0, at_once=True)
    before = farm.metrics.readings()
    copy = {name: dict(values) for name, values in before.items()}
    run_job(farm, job("one"), 0.0, "b1", ends_at=1.0)
    farm.metrics.publish(1.0, at_once=True)
    assert before == copy
    assert farm.metrics.readings() != copy


def test_labels_are_bounded():
    """The first names keep a label of their own; the rest share one."""
    label = Bounded(2)
    assert [label(name) for name in ("a", "b", "c", "a", "d")] == ["a", "b", "other", "a", "other"]


def test_a_new_scheduler_continues_the_count_of_ended_jobs(play, job):
    """A standby shows none: its zeros, then the total, would look like a burst of jobs."""
    farm = play(stays=True)
    farm.metrics.lead(in_charge=False)
    assert "farm_jobs_total" not in farm.metrics.readings()
    farm.metrics.lead(in_charge=True)
    assert "farm_jobs_total" not in farm.metrics.readings()
    farm.metrics.adopt(50.0, {"succeeded": 477, "failed": 2})
    farm.join(51.0, "b1")
    run_job(farm, job("one"), 52.0, "b1", ends_at=53.0)
    farm.metrics.publish(54.0, at_once=True)
    assert farm.values("farm_jobs_total", "succeeded", "failed", "cancelled") == [478, 2, 0]


@pytest.mark.parametrize(("stays", "at", "seconds"), [(False, 10.0, 8.0), (True, 60.0, 10.0)])
def test_builder_time_is_counted_once(play, stays, at, seconds):
    """Of builders that were there before, from their joining on, and what no other has counted."""
    farm = play()
    farm.scheduler.builder_book.add(Builder(id="old", pool="linux", index=1), 2.0)
    farm.metrics = FarmMetrics(farm.scheduler, stays=stays)
    if stays:
        farm.metrics.adopt(50.0)
    farm.metrics.publish(at, at_once=True)
    assert farm.value("farm_builder_seconds_total", "linux") == seconds


# --- What is published by platform: which pools serve it, and which of its jobs none will run -----

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
