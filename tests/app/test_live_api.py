"""``farm.run``: what ``farm.simulate`` does, on a live farm."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import farm
from farm.app.runs.planning_pace import too_fast_to_plan
from farm.cli.main import app
from farm.live.redis.connection import connect
from farm.live.redis.server import EmbeddedServer
from farm.scenario import parse_scenario
from farm.testing import small_scenario

pytestmark = pytest.mark.live

LITTLE = small_scenario({"builders": 2}, {"every": "10s", "count": 30, "service_time": "25s"})


def jobs(count: int, service_time: float) -> list[farm.Job]:
    """Return jobs that arrive a second after each other."""
    times = {"service_time": service_time}
    return [farm.Job(id=f"j{n}", arrived_at=float(n), **times) for n in range(count)]


def test_a_live_run(tmp_path: Path):
    """The same scenario, the same parts, the same type: only the waiting is real."""
    mine = jobs(9, 5.0)
    live = farm.run(LITTLE, speed=20, jobs=mine, policy=lambda job, *_: -int(job.id[1:]))
    assert live.summary["world"] == "live"
    assert sorted(live.jobs["job_id"]) == [job.id for job in mine]
    assert not live.interrupted
    assert not live.summary["warnings"]
    kept = farm.open_run(live.save(tmp_path / "live"))
    assert list(kept.events) == list(live.events)


@pytest.mark.slow
def test_a_live_run_keeps_to_its_prefix(server: EmbeddedServer, monkeypatch):
    """It deletes what an earlier run with this prefix left, and nothing of another farm."""
    monkeypatch.setenv("FARM_PREFIX", "mine:")
    with closing(connect(server.url, "t")) as client:
        left = [f"{prefix}jobs" for prefix in ("mine:", "farm:", "mine:too:")]
        for key in left:
            client.hset(key, "a", "waits")
        assert farm.run(LITTLE, speed=20, jobs=jobs(1, 1.0), redis=server.url).summary["jobs"]
        assert [client.exists(key) for key in left] == [0, 1, 1]
        client.delete(*left)


@pytest.mark.parametrize("play", [farm.simulate, pytest.param(farm.run, marks=pytest.mark.slow)])
def test_a_run_lasts_until_its_phases_end_in_both_worlds(play: Callable[..., farm.Result]):
    """Idle builders leave after the last job, while it continues; that some stay is a warning."""
    sized = {"algorithm": "target-wait", "objective": "1s", "max": 1}
    pool: dict[str, Any] = {"idle_timeout": "5s", "provisioner": {**sized, "min": 0}}
    how: dict[str, Any] = {"live": {"speed": 20}, "jobs": jobs(1, 2.0)}
    ended = play(small_scenario(pool), phases={"run": "10s", "ramp_down": "60s"}, **how)
    at = {line["event"]: line["at_s"] for line in ended.events}
    # a starved machine may end the job so late that the phases end first
    assert max(at.values()) >= at["job-finished"] + 5 or at["job-finished"] > 30
    phases = {"run": "50s", "ramp_down": "10s"}  # time for a slow machine
    ended = play(small_scenario({"provisioner": sized}), phases=phases, **how)
    [warning] = ended.summary["warnings"]
    assert warning == "1 builder was still there when the ramp-down ended: p 1"


@pytest.mark.slow
def test_a_live_run_that_is_too_fast_is_reported():
    """Jobs of a few real milliseconds measure the farm, not the scenario; the run does not fail."""
    live = farm.run(LITTLE, speed=200, jobs=jobs(9, 1.0))
    [remark] = live.summary["remarks"]
    assert remark.startswith("at speed 200 the median job lasts 5ms of real time")
    assert "(speed 20)" in remark
    assert live.kept.summary.ended_well


@pytest.mark.slow
def test_a_speed_at_which_plans_come_late_is_reported(tmp_path: Path):
    """At the start and in the summary: lag x speed against the shortest interval of a pool."""
    sized = {"algorithm": "keda", "max": 2}
    short = small_scenario({"provisioner": sized}, {"count": 1, "service_time": "1s"})
    assert too_fast_to_plan(parse_scenario(short | {"live": {"speed": 100}})) == []
    (tmp_path / "s.yaml").write_text(json.dumps(short), encoding="utf-8")
    run = ["run", str(tmp_path / "s.yaml"), "--speed", "600", "--json", "--no-save"]
    told = CliRunner().invoke(app, run)
    said = "pool p is planned every 25ms of real time, and plans come some 10ms late, 40 %"
    assert said in " ".join(told.stderr.split())
    assert said in json.loads(told.stdout)["remarks"][-1]
