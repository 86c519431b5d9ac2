"""The twin of a farm that a program of its own played, which shares nothing with the simulator.

It starts jobs some random seconds late, and boots runners in as random a time, as real farms do; it
writes pages of GitHub's jobs, with whole seconds.
"""

from __future__ import annotations

import heapq
import json
import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from farm_twin.importing import load_records
from farm_twin.twins.twin import PoolTwin, twin_of

BEGINS = datetime(2026, 10, 5, tzinfo=UTC).timestamp()
DAY = 86_400.0
#: a job's name, median run time (s) and the standard deviation of its logarithm
NAMES = (
    ("build", 600, 0.4), ("test (3.11)", 420, 0.3), ("test (3.12)", 430, 0.3),
    ("lint", 60, 0.2), ("e2e", 1500, 0.6), ("docs", 90, 0.3),
)  # fmt: skip
ARRIVED, FREED, LOOKED = range(3)


class JobRun(msgspec.Struct):
    """A job, with its instants (s); ``runner``: its number."""

    id: int
    run: int
    name: str
    created: float
    takes: float
    started: float = math.nan
    runner: int = 0


def arrivals(rng: random.Random, days: float, runs_per_day: float) -> Iterator[JobRun]:
    """Yield the jobs of runs that come by day more often than by night."""
    at, run, number = 0.0, 1000, 50_000
    while (at := at + rng.expovariate(2.2 * runs_per_day / DAY)) < days * DAY:
        if rng.random() > math.exp(-((((at / 3600) % 24 - 14) / 4.5) ** 2)):
            continue
        run += 1
        for name, median, sigma in NAMES:
            number += 1
            takes = rng.lognormvariate(math.log(median), sigma)
            yield JobRun(number, run, name, at + rng.uniform(0, 8), takes)


def played(*, runners: int = 0, most: int = 0, cap: int = 0, days: float = 6) -> list[JobRun]:
    """Return the jobs of a farm of fixed ``runners``, or of ephemeral ones, ``most`` at once.

    Its queue is served by arrival; of ``e2e`` at most ``cap`` run at once (0: any number).
    """
    rng = random.Random(7)
    jobs = sorted(arrivals(rng, days, 250), key=lambda one: one.created)
    events = [(one.created, ARRIVED, place) for place, one in enumerate(jobs)]
    free, waiting, running = list(range(1, runners + 1)), list[int](), dict[int, int]()
    ever, booting, by_boot = runners, 0, set[int]()
    if most:
        events.append((0.0, LOOKED, 0))
    heapq.heapify(events)
    while events:
        at, what, which = heapq.heappop(events)
        if what == ARRIVED:
            waiting.append(which)
        elif what == LOOKED:
            while booting + len(running) < min(most, len(waiting) + len(running)):
                ever, booting = ever + 1, booting + 1
                by_boot.add(ever)
                heapq.heappush(events, (at + rng.uniform(35, 70), FREED, ever))
            if events or waiting:
                heapq.heappush(events, (at + 10, LOOKED, 0))
        elif which in by_boot:
            by_boot.remove(which)
            free.append(which)
        else:
            del running[which]
            if most == 0:
                free.append(which)
        full = cap and sum(jobs[one].name == "e2e" for one in running.values()) >= cap
        for place in list(waiting):
            if not free:
                break
            if full and jobs[place].name == "e2e":
                continue
            runner, job = free.pop(0), jobs[place]
            waiting.remove(place)
            booting -= 1 if most else 0
            running[runner] = place
            job.started, job.runner = at + rng.uniform(2, 9), runner
            heapq.heappush(events, (job.started + job.takes, FREED, runner))
            full = cap and sum(jobs[one].name == "e2e" for one in running.values()) >= cap
    return jobs


def stamp(at: float) -> str:
    """Return an instant as GitHub writes it."""
    return datetime.fromtimestamp(round(BEGINS + at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def twin_made(folder: Path, jobs: list[JobRun]) -> PoolTwin:
    """Return the twin of these jobs, from GitHub's pages of them alone."""
    rows = [
        {
            "id": one.id, "run_id": one.run, "run_attempt": 1, "name": one.name,
            "workflow_name": "CI", "status": "completed", "conclusion": "success",
            "created_at": stamp(one.created), "started_at": stamp(one.started),
            "completed_at": stamp(one.started + one.takes), "labels": ["self-hosted", "linux"],
            "runner_id": one.runner, "runner_name": f"runner-{one.runner}", "steps": [],
        }
        for one in jobs
    ]  # fmt: skip
    file = folder / "jobs.json"
    pages = [rows[first : first + 100] for first in range(0, len(rows), 100)]
    file.write_text("".join(json.dumps({"jobs": page}) for page in pages), encoding="utf-8")
    (pool,) = twin_of(load_records([file]), "records").pools
    return pool


def assert_waits_alike(pool: PoolTwin) -> None:
    """The twin is believed, and the half that it was not made from waits as recorded."""
    check = pool.check
    assert check is not None
    assert pool.believable, pool.verdict
    assert abs(check.mean_error.value) <= 0.01
    assert abs(check.p95_error.value) <= 0.02
    assert check.error_per_job.value <= 0.03 * check.recorded_mean


@pytest.mark.slow
def test_fixed_runners_are_found_and_wait_alike(tmp_path: Path) -> None:
    """Nine runners that start a job 5.5 s late on average."""
    pool = twin_made(tmp_path, played(runners=9))
    assert_waits_alike(pool)
    assert pool.algorithm == "fixed"
    assert (pool.document["builders"], pool.document["slots"]) == (9, 1)
    assert pool.document["pickup_time"] == pytest.approx(5.5, abs=0.2)


@pytest.mark.slow
def test_ephemeral_runners_are_found_and_wait_alike(tmp_path: Path) -> None:
    """Twelve at most, one job each, which take 52.5 s to boot, and the job 5.5 s to start."""
    pool = twin_made(tmp_path, played(most=12))
    assert_waits_alike(pool)
    assert pool.document["uses"] == 1
    assert pool.document["provisioner"]["max"] == 12


@pytest.mark.slow
def test_a_cap_is_named_and_no_farm_believed(tmp_path: Path) -> None:
    """Two end-to-end tests at once, with runners idle."""
    pool = twin_made(tmp_path, played(runners=14, cap=2, days=3))
    assert not pool.believable
    assert "cap of 2 at once on name e2e" in pool.verdict
