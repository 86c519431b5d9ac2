"""Builders with limited uses, in virtual time: each boots before its job, and waits show it."""

from __future__ import annotations

import pytest

import farm
from farm.core.commands import RetireBuilder
from farm.core.events import BuilderJoined, BuilderRetired
from farm.testing import small_scenario


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
