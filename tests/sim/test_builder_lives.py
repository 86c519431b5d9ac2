"""The lives of simulated builders: boot, clean, idle, shut down, break, vanish."""

from __future__ import annotations

import msgspec
import pytest

import farm
from farm.core.commands import EndJob, LoseBuilder, RequestBuilder, RetireBuilder
from farm.core.events import (
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    JobsSubmitted,
    JobStarted,
    SlotCleaned,
)
from farm.core.model import Platform
from farm.testing import small_scenario


def test_boot_time(story, pool, jobs):
    """Jobs wait for a builder to boot; arrivals of the same instant come after the joining."""
    story.play([pool(builders=1, boot_time=20.0)], jobs((5, 10), (20, 1)))
    assert story.shape(RequestBuilder, BuilderJoined) == [
        (0.0, "builder-requested", "p-1"),
        (20.0, "builder-joined", "p-1"),
    ]
    assert story.times() == {"a": (20.0, 30.0), "b": (30.0, 31.0)}


def test_cleaning(story, pool, jobs):
    """A slot gets its next job only when it is clean; the other slots continue."""
    story.play([pool(builders=1, slots=2, inter_job_time=3.0)], jobs((0, 5), (0, 20), (1, 5)))
    assert story.times() == {"a": (0.0, 5.0), "b": (0.0, 20.0), "c": (8.0, 13.0)}
    assert [(f.at, f.slot) for f in story.of(SlotCleaned)][:2] == [(8.0, 0), (16.0, 0)]


def test_speed(story, pool, jobs):
    """Service time is the job's divided by the builder's speed."""
    story.play([pool(builders=1, speed=4.0)], jobs((0, 10)))
    assert story.times() == {"a": (0.0, 2.5)}


def test_idle_timeout_and_successor(story, pool, jobs):
    """Idle for the time-out, then shutting down; a fixed pool is kept at its size."""
    life = pool(builders=1, boot_time=2.0, idle_timeout=10.0, shutdown_time=5.0)
    story.play([life], jobs((0, 4), (100, 1)))
    assert story.shape(BuilderJoined, RetireBuilder, BuilderRetired)[:4] == [
        (2.0, "builder-joined", "p-1"),
        (16.0, "builder-drained", "p-1"),
        (21.0, "builder-retired", "p-1"),
        (23.0, "builder-joined", "p-2"),
    ]
    assert story.times()["a"] == (2.0, 6.0)


def test_work_in_between_restarts_the_idle_clock(story, pool, jobs):
    """The last idle period counts, not the first."""
    story.play([pool(builders=1, idle_timeout=10.0)], jobs((0, 1), (8, 1), (18, 1), (40, 1)))
    assert [at for at, _, _ in story.shape(RetireBuilder)][:1] == [29.0]


def test_a_job_at_the_instant_of_the_time_out(story, pool, jobs):
    """The builder goes first, arrivals come last: the successor gets the job."""
    story.play([pool(builders=1, idle_timeout=10.0, shutdown_time=1.0)], jobs((10, 1)))
    assert story.where() == {"a": "p-2"}
    assert story.times() == {"a": (11.0, 12.0)}


def test_idleness_counts_from_the_cleaning(story, pool, jobs):
    """A builder that cleans is not idle."""
    story.play([pool(builders=1, idle_timeout=10.0, inter_job_time=5.0)], jobs((0, 1), (50, 1)))
    assert story.shape(RetireBuilder)[0][0] == 16.0


def test_broken_boots(story, pool, jobs):
    """A builder that never accepts a job exists all the same; the others do the work."""
    life = pool(builders=3, fails_to_boot=lambda number: number != 2)
    story.play([life], jobs((0, 5), (0, 5)))
    assert story.where() == {"a": "p-2", "b": "p-2"}
    assert [f.builder.takes_jobs for f in story.of(BuilderJoined)] == [False, True, False]


def test_a_lost_builder_is_replaced_and_its_job_runs_again(story, pool, jobs):
    """From the beginning, on its successor; nothing of the lost attempt is reported."""

    def lose_it(event, world):
        if isinstance(event, JobStarted) and event.attempt == 1:
            world.execute(LoseBuilder("p-1"))
            world.execute(LoseBuilder("p-1"))
            world.execute(LoseBuilder("unknown"))

    story.then = lose_it
    story.play([pool(builders=1, boot_time=7.0)], jobs((10, 5)))
    assert [f.builder for f in story.of(BuilderLost)] == ["p-1"]
    assert story.times() == {"a": (17.0, 22.0)}
    assert story.ends()["a"].attempts == 2


@pytest.mark.parametrize(
    ("kind", "at"), [(JobsSubmitted, 0.0), (SlotCleaned, 8.0), (JobsSubmitted, 20.0)]
)
def test_builders_lost_at_odd_moments(story, pool, jobs, kind, at):
    """Booting, cleaning, shutting down: its later timers are void."""
    lost = []

    def lose_it(event, world):
        if type(event) is kind and event.at == at:
            lost.append(event)
            world.execute(LoseBuilder("p-1"))

    story.then = lose_it
    life = pool(builders=1, slots=2, boot_time=1.0, idle_timeout=9.0, shutdown_time=9.0,
                inter_job_time=2.0)  # fmt: skip
    story.play([life], jobs((0, 5), (0, 6), (20, 1), (60, 5)))
    assert lost
    assert [event.builder for event in story.of(BuilderLost)] == ["p-1"]
    assert {end.outcome for end in story.ends().values()} == {"succeeded"}


def test_builders_are_lost_when_their_life_is_over(story, pool, jobs):
    """Counted from joining; a fixed pool replaces them, a lost job begins anew."""
    lives = {1: 8.0, 2: 100.0}
    pools = [pool(builders=1, boot_time=2.0, lifetime=lives.get)]
    story.play(pools, jobs((0, 5), (0, 5)))
    assert story.shape(BuilderLost, RequestBuilder) == [
        (0.0, "builder-requested", "p-1"),
        (10.0, "builder-lost", "p-1"),
        (10.0, "builder-requested", "p-2"),
    ]
    assert story.times() == {"a": (2.0, 7.0), "b": (12.0, 17.0)}
    assert story.ends()["b"].attempts == 2


def test_a_pool_loses_builders_at_stated_instants(story, pool, jobs):
    """After the events of builders at that instant, before its arrivals."""
    story.play([pool(builders=2, lost_at=(5.0,))], jobs((0, 5), (0, 9), (5, 1)))
    assert story.shape(BuilderLost, LoseBuilder) == [
        (5.0, "builder-loss-sent", "p-1"),
        (5.0, "builder-lost", "p-1"),
    ]
    assert story.times() == {"a": (0.0, 5.0), "b": (0.0, 9.0), "c": (5.0, 6.0)}
    assert story.where()["c"] == "p-3"


def test_fail_fast_stops_running_jobs_at_once(story, pool, jobs):
    """In virtual time a cancelled attempt ends at the very instant."""
    made = jobs((0, 50), (0, 100), (0, 100), matrix="m")
    made[0] = msgspec.structs.replace(made[0], fails=True)
    story.play([pool(builders=2)], made, fail_fast=True)
    assert {name: end.finished_at for name, end in story.ends().items()} == dict.fromkeys("abc", 50)
    assert [end.outcome for end in story.ends().values()] == ["failed", "cancelled", "cancelled"]


# --- jobs that nothing can run ------------------------------------------------------------------


def test_jobs_that_no_builder_can_run_end_cancelled(story, pool, jobs):
    """Reported at the end of the run, with the reason; the other jobs are not affected."""
    made = [*jobs((0, 5)), *jobs((1, 5), platform=Platform("s390x"))]
    made[1] = msgspec.structs.replace(made[1], id="odd")
    story.play([pool(builders=1)], made)
    assert story.ends()["a"].outcome == "succeeded"
    odd = story.ends()["odd"]
    assert (odd.outcome, odd.reason) == ("cancelled", "no builder will ever be able to run it")


@pytest.mark.parametrize("broken", [False, True])
def test_builders_that_come_and_go_do_not_make_a_run_endless(story, pool, jobs, broken):
    """An idle time-out with nothing to run, or nothing but broken builders: the run ends."""
    life = pool(
        builders=2,
        idle_timeout=3600.0,
        boot_time=60.0,
        fails_to_boot=(lambda _: True) if broken else None,
    )
    story.play([life], jobs((0, 5), platform=Platform(None if broken else "s390x")))
    assert story.ends()["a"].outcome == "cancelled"


def test_a_job_submitted_twice_does_not_make_a_run_endless(story, pool, jobs):
    """The scheduler ignores the second submission, which will have no end to wait for."""
    first, second = jobs((0, 5), (1, 5))
    twin = msgspec.structs.replace(second, id=first.id)
    story.play([pool(builders=1, idle_timeout=10.0)], [first, twin])
    assert [end.finished_at for end in story.of(EndJob)] == [5.0]


def test_a_long_job_is_not_given_up(story, pool, jobs):
    """Builders come and go for weeks while one works: the job still ends in its own time."""
    life = pool(builders=2, idle_timeout=86_400.0)
    story.play([life], jobs((0, 3e6), (0, 3e6), (1, 5)))
    assert {end.outcome for end in story.ends().values()} == {"succeeded"}


# --- Builders with limited uses, in virtual time: each boots before its job, and waits show it ----


def test_every_wait_has_a_boot_in_it(story, pool, jobs):
    """One builder, a job of 60 s every 120 s, a boot of 60 s: each job waits for just that boot."""
    story.play(
        [pool(builders=1, boot_time=60.0, uses=1)], jobs(*((120.0 * n, 60) for n in range(9)))
    )
    waits = [start - 120.0 * n for n, (start, _) in enumerate(story.times().values())]
    assert waits == [60.0] * 9


def test_a_queue_moves_on_by_job_shutdown_and_boot(story, pool, jobs):
    """Back to back: a job ends, its builder shuts down, the next one boots."""
    spec = pool(builders=1, boot_time=60.0, shutdown_time=5.0, uses=1)
    story.play([spec], jobs((0, 60), (0, 60), (0, 60)))
    assert story.times() == {"a": (60.0, 120.0), "b": (185.0, 245.0), "c": (310.0, 370.0)}
    assert story.shape(BuilderJoined, RetireBuilder, BuilderRetired)[:4] == [
        (60.0, "builder-joined", "p-1"),
        (120.0, "builder-drained", "p-1"),
        (125.0, "builder-retired", "p-1"),
        (185.0, "builder-joined", "p-2"),
    ]


def test_two_uses_halve_the_boots(story, pool, jobs):
    """Every second job finds a builder that is up."""
    story.play([pool(builders=1, boot_time=60.0, uses=2)], jobs(*[(0, 60)] * 4))
    assert [start for start, _ in story.times().values()] == [60.0, 120.0, 240.0, 300.0]


def test_thousands_of_builders_may_be_used_up_at_one_instant(story, pool, jobs):
    """Jobs without length on builders that boot at once: the run advances by its jobs."""
    story.play([pool(builders=1, uses=1)], jobs(*[(0, 0)] * 3000))
    assert len(story.of(BuilderRetired)) == 3000
    assert {finish for _, finish in story.times().values()} == {0.0}


@pytest.mark.parametrize(("slots", "uses", "most"), [(4, 1, 1), (4, 3, 3), (2, 3, 2)])
def test_a_builder_has_no_more_slots_than_uses(slots, uses, most):
    """A slot that could never be used would count as free for algorithms and estimates."""
    load = {"count": 6, "service_time": "1m"}
    run = farm.simulate(small_scenario({"slots": slots, "uses": uses}, load))
    started = [e for e in run.events if e["event"] == "job-started"]
    first = [e["at_s"] for e in started if e["builder"] == "p-1"]
    assert len(first) == uses
    assert sum(at < 60.0 for at in first) == most


def test_an_ephemeral_pool_by_its_algorithm():
    """ARC with a runner per job: each job waits for the next plan and the boot, nothing else."""
    scenario = farm.load_scenario("ephemeral-runners")
    run = farm.simulate(scenario)
    waits = run.jobs["waiting_time_s"]
    assert len(waits) == 150
    assert min(waits) >= 45.0
    assert max(waits) <= 46.0
    builders = run.summary["builders"]
    assert builders["joined"] == 150
