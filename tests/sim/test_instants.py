"""Simultaneous events happen in a stated, reproducible order."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from farm.assembly import make_scheduler, run_info
from farm.core.commands import StartJob, log_name
from farm.core.contention.laws import ContentionLaw, SlowdownTable
from farm.core.events import BuilderJoined, JobFinished, JobsSubmitted, JobStarted
from farm.core.policies import sjf
from farm.results.audit.auditor import Auditor
from farm.results.log.reader import read_log
from farm.results.log.replay import replay
from farm.results.log.writer import EventLogWriter
from farm.results.summary.summary import summarise
from farm.results.table.recorder import Recorder
from farm.scenario import load_scenario, parse_scenario
from farm.sim.simulation import Simulation
from farm.testing import small_scenario

MAC = {"processor": "arm64", "virtualized": False}
MATRICES = {
    "count": 12,
    "size": 9,
    "every": "30s",
    "service_time": {"pareto": {"alpha": 1.161, "scale": "2s"}, "max": "1h"},
    "heavy": {"longest": 0.3},
    "fails": 0.1,
    "platform": {"processor": "amd64"},
    "attributes": {"team": {"a": 1, "b": 2}},
}
OTHERS = {
    "poisson": {"rate": "0.2/s"},
    "count": 60,
    "service_time": {"exponential": {"mean": "10s"}},
    "platform": [MAC, {"processor": "amd64"}],
    "attributes": {"team": {"a": 1, "c": 1}},
}
LINUX = {"builders": 3, "slots": 2, "contention": {"slowdown": [1, 1, 1.4]}, "failure_rate": 0.2}
TIMES = {"boot_time": "20s", "idle_timeout": "2m", "inter_job_time": "5s"}
BUSY = small_scenario(
    [LINUX | TIMES, {"name": "mac", "platform": MAC, "builders": 2}],
    [{"matrices": MATRICES}, OTHERS],
    scheduling={"policy": "ljf-aging", "fair_share": ["team"], "fail_fast": True},
)


def test_finishes_before_lives_before_arrivals(story, pool, jobs):
    """At 10 s jobs end by builder and slot, a builder joins, a job arrives."""
    late = pool(name="late", builders=1, boot_time=10.0)
    made = jobs((0, 10), (0, 10), (0, 10), (10, 1))
    story.play([pool(builders=2, slots=2), late], made)
    at_ten = [event for event, _ in story.events if event.at == 10.0]
    assert [type(event) for event in at_ten[:5]] == [
        JobFinished,
        JobFinished,
        JobFinished,
        BuilderJoined,
        JobsSubmitted,
    ]
    assert [event.job for event in at_ten[:3]] == ["a", "c", "b"]
    assert story.where() == {"a": "p-1", "b": "p-2", "c": "p-1", "d": "p-1"}


def test_a_start_precedes_all_else_at_its_instant(story, pool, jobs):
    """A job without length still starts, then ends, at the instant of its dispatch."""
    story.play([pool(builders=1)], jobs((3, 0), (3, 0)))
    kinds = [(log_name(type(event)), getattr(event, "job", "")) for event, _ in story.events[2:]]
    assert kinds == [
        ("job-submitted", ""),
        ("arrivals-ended", ""),
        ("job-started", "a"),
        ("job-finished", "a"),
        ("job-started", "b"),
        ("job-finished", "b"),
    ]
    assert {event.at for event, _ in story.events[2:]} == {3.0}


def test_jobs_of_one_instant_are_submitted_together(story, pool, jobs):
    """They compete with each other before any of them is dispatched."""
    story.play([pool(builders=1)], jobs((1, 9), (1, 3), (1, 6)), policy=sjf.key)
    assert [start.job.id for start in story.of(StartJob)] == ["b", "c", "a"]
    assert len(story.of(JobsSubmitted)) == 1


def test_contention_moves_the_finishes_of_neighbours(story, pool, jobs):
    """Two heavy jobs at 1.4: by hand, three pieces of time."""
    law = ContentionLaw(SlowdownTable((1.0, 1.0, 1.4)))
    made = jobs((0, 10), (4, 10), heavy=True)
    story.play([pool(builders=1, slots=2, law=law)], made)
    # a: 4 s alone, 6 s of work at 1.4 = 8.4 s; b: 6 s of work done by then, 4 s alone
    assert story.times()["a"] == (0.0, pytest.approx(12.4))
    assert story.times()["b"] == (4.0, pytest.approx(16.4))


def test_contention_with_a_stopped_neighbour(story, pool, jobs):
    """A cancelled job no longer counts, from that instant on."""
    law = ContentionLaw(SlowdownTable((1.0, 1.0, 2.0)))
    made = jobs((0, 10), (0, 10), (0, 2), heavy=True)
    quick = msgspec.structs.replace(made[2], heavy=False, fails=True, matrix="m")
    made = [made[0], msgspec.structs.replace(made[1], matrix="m"), quick]
    story.play([pool(builders=1, slots=3, law=law)], made, fail_fast=True)
    # the light job runs at 1/2 too: it fails at 4 s, and takes b with it
    assert story.ends()["b"].finished_at == pytest.approx(4.0)
    assert story.times()["a"] == (0.0, pytest.approx(12.0))


def test_equal_finishes_under_contention_come_in_slot_order(story, pool, jobs):
    """Ties within a builder: by slot, as without contention."""
    law = ContentionLaw(SlowdownTable((1, 1, 1.4, 1.8)))
    made = jobs((0, 7), (0, 7), (0, 7), heavy=True)
    story.play([pool(builders=1, slots=3, law=law)], made)
    assert [event.job for event in story.of(JobFinished)] == ["a", "b", "c"]
    assert len({event.at for event in story.of(JobFinished)}) == 1


def test_the_same_seed_gives_the_same_log_byte_for_byte(tmp_path: Path):
    """With contention, cleaning, broken boots, fail-fast and fair share; another seed differs."""
    logs = []
    for number, seed in enumerate([1, 1, 2]):
        scenario = parse_scenario({**BUSY, "seed": seed})
        path = tmp_path / f"{number}.jsonl"
        auditor = Auditor()
        with EventLogWriter(path) as log:
            Simulation.of(scenario).play([log, auditor])
        auditor.close()
        logs.append(path.read_bytes())
        assert replay(read_log(path), make_scheduler(scenario)) is None
    assert logs[0] == logs[1] != logs[2]
    assert logs[0].count(b"\n") > 500


def test_a_part_of_the_scenario_that_changes_leaves_the_rest(tmp_path: Path):
    """Another policy sees the very same jobs: draws come from named streams."""

    def jobs_of(**scheduling):
        seen = []
        scenario = parse_scenario({**BUSY, "scheduling": scheduling})
        Simulation.of(scenario).play([lambda event, _: seen.append(event)])
        return [job for event in seen if isinstance(event, JobsSubmitted) for job in event.jobs]

    assert jobs_of(policy="fifo") == jobs_of(policy="sjf", balancer="longest-idle")


def test_phases_count_only_the_run(tmp_path: Path):
    """Arrivals continue through the ramp-down, the summary is of the run phase alone."""
    text = """\
phases: {ramp_up: 100s, run: 200s, ramp_down: 100s}
pools: [{name: linux, platform: {processor: amd64}, builders: 2}]
workload: [{arrivals: {every: 10s, service_time: 5s}}]
"""
    path = tmp_path / "phases.yaml"
    path.write_text(text)
    scenario = load_scenario(path)
    recorder, starts = Recorder(), []
    Simulation.of(scenario).play([recorder, lambda event, _: starts.append(event)])
    arrivals = [event.at for event in starts if isinstance(event, JobsSubmitted)]
    assert (arrivals[0], arrivals[-1], len(arrivals)) == (0.0, 390.0, 40)
    summary = summarise(recorder.records(), run_info(scenario, "simulated", "reference"), 0.0)
    assert summary.jobs.submitted == 20
    assert sum(isinstance(event, JobStarted) for event in starts) == 40
