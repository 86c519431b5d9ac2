"""Failures, losses and retries are told as numbers of the farm, and can be drawn instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import farm as farms
from farm.records.attempt import Attempt
from farm.records.bundle import Bundle
from farm.records.traces.bundle import without_losses
from farm.results.run_directory import load_run
from farm_twin.importing import load_records
from farm_twin.run_attempts import attempts_of
from farm_twin.sources import export_attempts
from farm_twin.twins.drawn_workload import workload_text
from farm_twin.twins.pool_shapes import pools_of
from farm_twin.twins.tries import retries_go_first, tries_of
from farm_twin.twins.twin import PoolTwin, write_twin
from tests.fixtures.attempts import attempt

RATE = 0.4
"""Losses per builder-hour."""
TRUTH = {
    "seed": 4,
    "pools": [{"name": "hidden", "builders": 7, "losses": {"rate": f"{RATE}/h"}}],
    "workload": [{"arrivals": {"poisson": {"rate": "75/h"}, "count": 1200, "service_time": "4m",
                               "fails": 0.1}}],
    "scheduling": {"retries": 9, "max_builders_lost": 0},
}  # fmt: skip
DRAWN = "workload.0.trace.format"


@pytest.fixture(scope="module")
def records(tmp_path_factory) -> Bundle:
    """What GitLab would have recorded of it."""
    folder = tmp_path_factory.mktemp("truth")
    farms.simulate(TRUTH, out=folder / "run")
    export_attempts("gitlab", attempts_of(load_run(folder / "run")), folder / "jobs.json")
    return load_records([folder / "jobs.json"])


@pytest.fixture
def made(records: Bundle, tmp_path: Path) -> PoolTwin:
    """Its twin, written to mine.yaml."""
    [one] = write_twin(records, None, tmp_path / "mine.yaml").pools
    return one


def mean(path: Path, **changes: Any) -> float:
    """Return the mean wait of all jobs of a scenario (s)."""
    return float(farms.simulate(path, **changes).summary["waiting_time_s"]["mean"])


def test_rates_have_their_evidence(made: PoolTwin, tmp_path: Path):
    """In the file, for a person; what is lost in the records is not lost again in the replay."""
    tries = made.shape.tries
    assert tries.failed / tries.attempts == pytest.approx(0.1, rel=0.15)
    assert tries.loss_rate == pytest.approx(RATE, rel=0.4)
    assert tries.lost_again == tries.lost > 20
    text = (tmp_path / "mine.yaml").read_text()
    assert f"{tries.failed} of 1,{tries.attempts - 1000} attempts failed (" in text
    assert f"{tries.lost} were lost with their runner, {tries.loss_rate:g} losses per" in text
    assert f"retries: {tries.most_lost}\n" in text
    assert "losses" not in made.document


def test_lost_jobs_that_get_their_old_place_back(made: PoolTwin, records: Bundle, tmp_path: Path):
    """Their next attempt starts before older ones that wait; at the tail it would be 13 % off."""
    assert "format: bundle-retries-first  " in (tmp_path / "mine.yaml").read_text()
    assert made.check is not None
    assert made.check.share_per_job < 0.001
    assert made.job_by_job
    assert retries_go_first(records.attempts)
    of_github = [
        msgspec.structs.replace(one, result="failed") if one.result == "lost" else one
        for one in records.attempts
    ]
    assert retries_go_first(of_github)  # which has no word for a loss
    [(shape, _)] = pools_of(msgspec.structs.replace(records, attempts=of_github))
    assert shape.is_replaced
    others = [msgspec.structs.replace(one, job="", attempt=1) for one in records.attempts]
    assert not retries_go_first(others)


@pytest.mark.slow
def test_what_if_more_or_fewer_were_lost(made: PoolTwin, tmp_path: Path):
    """With losses drawn the farm waits about as recorded, and less if none are lost."""
    path, name = tmp_path / "mine.yaml", f"pools.{made.name}.losses.rate"
    assert made.triangle is not None
    recorded = made.triangle.recorded.mean
    drawn = {DRAWN: "bundle-without-losses", "scheduling.retries": 9}
    as_recorded = [
        mean(path, **drawn, **{name: f"{made.shape.tries.loss_rate}/h", "seed": seed})
        for seed in (1, 2, 3)
    ]
    assert 0.7 * recorded < sum(as_recorded) / 3 < 1.4 * recorded
    assert mean(path, **drawn, **{name: "1/h"}) > 1.2 * recorded
    assert mean(path, **drawn) < 0.95 * min(recorded, *as_recorded)


def test_a_drawn_load_has_each_job_once(records: Bundle):
    """Losses are the pool's: a load of all attempts would lose them twice."""
    jobs = {one.job for one in records.attempts}
    text = workload_text(records, "mine")
    assert f"A load like that of the {len(jobs):,} jobs" in text
    assert f"draws such (recorded: {tries_of(records.attempts).loss_rate:g}/h)" in text


def tried(number: int, begins: float, ends: float, result: Any = "lost", job: str = "a") -> Attempt:
    """Return an attempt that waited for a second."""
    known = {"id": f"{job}{number}", "job": job, "attempt": number, "runner": "r"}
    return attempt(number, begins - 1, begins, ends, result=result, **known)


def test_an_attempt_that_was_tried_again_is_the_job_s():
    """The last one keeps its time, and arrives as the first did; one that was given up stays."""
    lost = tried(1, 10, 20), tried(2, 30, 70)
    given_up, failed = tried(1, 5, 9, job="b"), tried(1, 80, 90, "failed", "c")
    again = tried(2, 100, 190, job="c", result="succeeded")
    last = tried(3, 80, 180, "succeeded")
    kept = without_losses([given_up, *lost, failed, last, again])
    assert [one.id for one in kept] == ["b1", "c1", "a3", "c2"]
    assert (kept[2].eligible_at, kept[2].started_at, kept[2].ran) == (9, 80, 100)
    assert kept[3] == again
    found = tries_of([given_up, *lost, failed, last, again])
    assert (found.lost, found.lost_again, found.most_lost) == (3, 1, 2)
    assert (found.failed, found.failed_again, found.most_failed) == (1, 1, 1)


def test_a_runner_that_takes_several_attempts_with_it_is_one_loss():
    """It was busy once, too, however many slots it has."""
    found = tries_of([tried(1, 0, 3600), tried(1, 1800, 3600, job="b")])
    assert (found.lost, found.loss_rate) == (2, 1.0)
