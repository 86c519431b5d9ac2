"""A provisioned pool in both worlds: the same algorithm asks for about the same builders."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

SCENARIO = """
name: provisioned
seed: 3
pools:
  - name: linux
    platform: {processor: amd64}
    provisioner: {algorithm: taskcluster, min: 0, max: 20, interval: 5s}
    boot_time: 20s
    idle_timeout: 60s
workload:
  - arrivals: {poisson: {rate: 0.1/s}, count: 60, service_time: {exponential: {mean: 60s}}}
live: {speed: 60}
"""

OFFICE_HOURS = """
name: office-hours
starts: mon 07:58
pools:
  - name: linux
    platform: {processor: amd64}
    provisioner:
      algorithm: arc
      max: 9
      by_time: [{when: "08:00-08:03", min: 2}]
workload:
  - arrivals: {every: 1s, count: 1, service_time: 8m}
live: {speed: 60}
"""


def run(command: str, folder: Path, scenario: str, *options: str) -> dict:
    """Run a scenario in one of the worlds; return its summary."""
    (folder / "s.yaml").write_text(scenario)
    done = subprocess.run(
        [sys.executable, "-m", "farm.cli.main", command, "s.yaml", "--json", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def kinds(events: Path) -> set[str]:
    """Return the kinds of events in a log."""
    return {json.loads(line)["event"] for line in events.read_text().splitlines()}


@pytest.mark.live
@pytest.mark.timed
def test_taskcluster_asks_for_about_the_same_builders_in_both_worlds(tmp_path):
    """Counts, waiting times and the kinds of events; live there is latency at every step."""
    live = run("run", tmp_path, SCENARIO, "--out", "live")
    simulated = run("simulate", tmp_path, SCENARIO, "--out", "simulated")
    assert live["jobs"] == simulated["jobs"]
    wanted = simulated["builders"]["requested"]
    assert abs(live["builders"]["requested"] - wanted) <= max(4, 0.25 * wanted)
    assert abs(live["builders"]["max_running"] - simulated["builders"]["max_running"]) <= 3
    boot_time = 20.0
    difference = live["waiting_time_s"]["mean"] - simulated["waiting_time_s"]["mean"]
    assert abs(difference) < boot_time / 2
    seen = kinds(tmp_path / "live/events.jsonl") - {"estimate-made"}  # only a live farm gives them
    assert seen == kinds(tmp_path / "simulated/events.jsonl")


@pytest.mark.live
@pytest.mark.timed
def test_ephemeral_runners_boot_for_each_job_in_both_worlds(tmp_path):
    """The packaged example: as many builders as jobs, and the boot in every wait."""
    example = Path(__file__).parents[2] / "examples/ephemeral-runners.yaml"
    count = ("--set", "workload.0.arrivals.count=20")
    live, simulated = (
        run(how, tmp_path, example.read_text(), *count) for how in ("run", "simulate")
    )
    for found in (live, simulated):
        assert found["jobs"]["succeeded"] == found["builders"]["joined"] == 20
        assert found["builders"]["lost"] == 0
    assert 45.0 < simulated["waiting_time_s"]["mean"] < 46.0
    means = [found["response_time_s"]["mean"] for found in (live, simulated)]
    assert means[0] == pytest.approx(means[1], rel=0.1)


@pytest.mark.slow
@pytest.mark.live
def test_the_time_of_the_week_is_the_same_in_both_worlds(tmp_path):
    """One job keeps a builder; two more are idle for the three minutes of the period."""
    for command in ("run", "simulate"):
        run(command, tmp_path, OFFICE_HOURS, "--out", command)
        log = (tmp_path / command / "events.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in log]
        sizes = [e["desired"] for e in events if e["event"] == "pool-planned"]
        # none before the job has arrived, which live may be after the first plan
        assert [size for size, _ in groupby(filter(None, sizes))] == [1, 3, 1]
