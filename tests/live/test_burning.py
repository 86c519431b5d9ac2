"""Jobs that burn, through a whole live farm: real server, real Celery worker, real processors."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec
import pytest

from farm.core import events

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc"),
]

#: given, so that no job waits for a measurement, and small, so that a second is soon over
RATES = "cpu=300.0,memory=1000.0"


@pytest.fixture(autouse=True)
def own_burner(monkeypatch) -> None:
    """Burn alike wherever the tests run."""
    monkeypatch.setenv("FARM_BURNER", "own")


def burning_under(pids: list[int]) -> list[int]:
    """Return the live processes two generations below these: what a host's burner has forked."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            parents[int(stat.parent.name)] = int(parent)
    programs = {pid for pid, parent in parents.items() if parent in pids}
    return [pid for pid, parent in parents.items() if parent in programs]


@pytest.mark.parametrize("mode", ["stress", "memory", "mixed"])
def test_burning_jobs_go_through_the_farm(farm, jobs_like, mode):
    """Each mode, with threads: every job ends once, and fails where it is meant to."""
    jobs = jobs_like(4, service_time=0.2, mode=mode, threads=2)
    bad = jobs_like(1, service_time=0.1, mode=mode, fails=True)[0]
    jobs.append(msgspec.structs.replace(bad, id="bad"))
    farm.run(jobs, builders=1, pool={"slots": 2}, work_rates=RATES)
    ended = {end.job.id: end.outcome for end in farm.ends}
    assert ended == {f"job-{n}": "succeeded" for n in range(4)} | {"bad": "failed"}
    farm.assert_replayable()


def test_heavy_jobs_together_on_one_core_are_slower_than_alone(farm, jobs_like):
    """Slowdown emerges from the machine: nobody wrote it down. Direction only, wide margin."""
    alone = jobs_like(3, service_time=0.5, mode="stress", every=0.0)
    farm.run(alone, builders=1, pool={"slots": 1, "cores": 1}, work_rates=RATES)
    best_alone = min(end.finished_at - end.started_at for end in farm.ends)
    farm.scheduler = type(farm.scheduler)(farm.rules, farm.scheduler.estimator)
    farm.story.clear()
    together = jobs_like(4, service_time=0.5, mode="stress")
    farm.run(together, builders=1, pool={"slots": 4, "cores": 1}, work_rates=RATES)
    worst = max(end.finished_at - end.started_at for end in farm.ends)
    assert worst > 1.5 * best_alone


def test_a_cancelled_job_stops_burning_at_once(farm, jobs_like):
    """CancelAttempt kills the processes: nothing burns on, the slot goes to the next job."""
    hosts: list[int] = []
    seen: dict[str, list[int]] = {}
    worlds = []

    def cancel_when_started(event):
        if isinstance(event, events.JobStarted) and event.job == "job-0":
            deadline = time.monotonic() + 30
            while not burning_under(hosts) and time.monotonic() < deadline:
                time.sleep(0.02)
            seen["before"] = burning_under(hosts)
            worlds[0].stop()
            worlds[0].stop()

    def up(world, processes):
        worlds.append(world)
        hosts.extend(process.pid for process in processes.alive)

    jobs = jobs_like(1, service_time=1e6, mode="stress", threads=2)
    farm.run(jobs, builders=1, work_rates=RATES, on_event=cancel_when_started, on_up=up)
    assert [end.outcome for end in farm.ends] == ["cancelled"]
    assert len(seen["before"]) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in seen["before"])
