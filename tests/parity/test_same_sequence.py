"""One scenario leaves the same sequence of events and commands in both worlds, but for times."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tests.parity.test_provisioning import run

ALGORITHM = """
from msgspec.structs import replace

from provisioner.algorithms.sizing import Count, Memoryless, Seconds


class Stepwise(Memoryless, frozen=True, kw_only=True):
    sizes: dict[int, Count]
    interval: Seconds = 2.0

    def decide(self, snapshot):
        begun = [at for at in self.sizes if at <= snapshot.at]
        plan = self.towards(snapshot, self.sizes[max(begun)], "as written down")
        replaces = plan.start and snapshot.total
        return replace(plan, start=self.max) if replaces else plan
"""

#: a replacement that is planned with more builders than the pool may have,
#: a boot that fails, two losses (one drawn, one stated), idle time-outs, a busy builder that is
#: drained by a plan, contention, cleaning, and a job that no builder can run; whatever does not
#: follow at once from what was before is 3 s away from it, half a second on the live farm
SCENARIO = """
name: everything
seed: 24
allow_unrunnable: true
pools:
  - name: cloud
    platform: {processor: amd64}
    provisioner: {algorithm: "stepwise:Stepwise", max: 3, interval: 6s, sizes: {0: 0, 6: 2, 228: 1}}
    slots: 2
    boot_time: 23s
    shutdown_time: 12s
    idle_timeout: 118s
    inter_job_time: 16s
    failure_rate: 0.4
    contention: {slowdown: [1, 1, 2]}
  - name: kept
    platform: {processor: arm64}
    builders: 1
    boot_time: 16s
    losses: {rate: 20/h, at: [119s]}
workload:
  - arrivals: {name: a, every: 0, count: 1, start: 57s, service_time: 60s, heavy: {probability: 1},
               platform: {processor: amd64}}
  - arrivals: {name: b, every: 0, count: 1, start: 71s, service_time: 104s, heavy: {probability: 1},
               platform: {processor: amd64}}
  - arrivals: {name: c, every: 0, count: 1, start: 85s, service_time: 73s,
               platform: {processor: arm64}}
  - arrivals: {name: e, every: 0, count: 1, start: 101s, service_time: 70s,
               platform: {processor: amd64}}
  - arrivals: {name: odd, every: 0, count: 1, start: 249s, service_time: 50s,
               platform: {processor: s390x}}
live: {speed: 6}
"""
#: times that are drawn or written down, and so the same in both worlds
GIVEN_TIMES = ("service_time_s", "lifetime_s")


def sequence(log: Path) -> list[dict]:
    """Return the lines without their times, and without what only a live farm records."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [
        {k: v for k, v in line.items() if not k.endswith("_s") or k in GIVEN_TIMES}
        for line in lines
        if line["event"] != "estimate-made"
    ]


def assert_has_everything(lines: list[dict]) -> None:
    """Otherwise the comparison would prove little."""
    kinds = [line["event"] for line in lines]
    assert kinds.count("builder-lost") == 2
    assert kinds.count("builder-loss-sent") == 1
    assert kinds.count("job-requeued") == 2
    assert [line["builder"] for line in lines if line.get("takes_jobs") is False] == ["cloud-1"] * 2
    assert [line["builder"] for line in lines if line["event"] == "builder-draining"] == ["cloud-3"]
    assert {"slot-cleaned", "builder-retired", "job-cancelled"} < set(kinds)
    assert [line["start"] for line in lines if line.get("start")] == [2, 3]
    assert kinds.count("builder-requested") == 2 + 1 + 3
    idle = [a for a, b in pairwise(kinds) if b == "builder-drained"]
    assert "alarm-rang" in idle


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the provisioning algorithm in it."""
    (tmp_path / "stepwise.py").write_text(ALGORITHM)
    return tmp_path


@pytest.mark.live
@pytest.mark.timed
def test_both_worlds_produce_the_same_sequence(folder):
    """Decisions are made in the scheduler; only the waiting differs between the worlds."""
    run("simulate", folder, SCENARIO, "--out", "simulated")
    assert_has_everything(sequence(folder / "simulated/events.jsonl"))
    run("run", folder, SCENARIO, "--out", "live")
    logs = (folder / name / "events.jsonl" for name in ("simulated", "live"))
    simulated, live = (
        # an alarm is the scheduler's clock; what follows from it is compared
        [line for line in sequence(log) if line["event"] not in {"alarm-set", "alarm-rang"}]
        for log in logs
    )
    assert live == simulated
