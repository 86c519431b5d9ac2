"""Every process of a farm is found and scraped by files that are made and removed with it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.processes import running
from tests.worlds.up import FARM, Up, scenario

pytestmark = pytest.mark.live

RUN = scenario("slots: 2, builders: 4", live="speed: 20, hosts: 2").replace(
    "count: 1", "count: 100000"
)


class Watched(Up):
    """A farm whose processes write files for a Prometheus."""

    @property
    def targets(self) -> Path:
        return self.folder / ".farm/targets"

    def addresses(self, job: str) -> list[str]:
        """Return where the processes of a job are scraped."""
        entries = []
        for path in self.targets.glob("*.json"):
            with contextlib.suppress(FileNotFoundError):  # its process has ended just now
                entries.append(json.loads(path.read_bytes())[0])
        return [e["targets"][0] for e in entries if e["labels"]["job"] == job]

    def value(self, job: str, pattern: str) -> float:
        """Scrape the processes of a job and add up the series with this prefix."""
        total = 0.0
        for address in self.addresses(job):
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
                text = answer.read().decode()
            total += sum(float(n) for n in re.findall(rf"^{pattern} (\S+)$", text, re.MULTILINE))
        return total


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A watched, running farm, which is down after the test whatever happens."""
    farm = Watched(tmp_path)
    with farm.running("--metrics-port", "0") as said:
        assert f"{tmp_path}/.farm/targets/*.json" in said
        yield farm


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_long_running_farm_can_be_scraped_as_a_whole(watched: Watched):
    """Scheduler, provisioner and hosts; a killed host is replaced; no file is left."""
    each = {"scheduler": 2, "provisioner": 1, "builders": 1}  # one scheduler on standby
    watched.until(lambda: {job: len(watched.addresses(job)) for job in each} == each, "targets")
    watched.farm("submit", "--service-time", "10s", "--count", "6", "--platform", "amd64/virtual")
    watched.until(
        lambda: watched.value("builders", r'farm_host_attempts_total\{result="succeeded"\}') == 6,
        "what the host counts",
    )
    watched.until(
        lambda: watched.value("scheduler", r'farm_jobs_total\{outcome="succeeded"\}') == 6,
        "what the scheduler counts",
    )
    watched.until(
        lambda: (
            watched.value("builders", "farm_host_builders")
            == watched.value("provisioner", r'farm_provisioner_actual_builders\{.*state="idle"\}')
        ),
        "what the provisioner sees",
    )

    (old,) = watched.addresses("builders")
    (pid,) = watched.hosts().values()
    os.kill(pid, signal.SIGKILL)
    watched.until(lambda: watched.addresses("builders") not in ([], [old]), "another host")
    assert len(watched.addresses("builders")) == 1

    watched.farm("down")
    assert list(watched.targets.iterdir()) == []


@pytest.mark.slow
def test_a_run_can_be_scraped_as_a_whole(tmp_path: Path):
    """With a folder and no port: each process takes any, writes a file, and removes it."""
    farm = Watched(tmp_path, RUN)
    words = ["run", "farm.yaml", "--quiet", "--metrics-targets", ".farm/targets"]
    with running([*FARM, *words], tmp_path, "log") as run:
        farm.until(lambda: len(farm.addresses("builders")) == 2, "two hosts")
        assert len(farm.addresses("scheduler")) == 1
        farm.until(
            lambda: farm.value("builders", r'farm_host_attempts_total\{result="succeeded"\}') >= 5,
            "some ends",
        )
        farm.until(lambda: farm.value("builders", "farm_host_builders") == 4, "a heartbeat each")
        run.send_signal(signal.SIGINT)
        run.wait(60)
    assert run.returncode == 130, (tmp_path / "log").read_text()
    assert list(farm.targets.iterdir()) == []
