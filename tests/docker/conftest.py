"""What the tests on a Docker Engine share: an Engine, and a composed farm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.live.server import free_port
from tests.docker.engine import BUNDLE, Engine, OwnEngine

ROOT = Path(__file__).parents[2]
IN_CI = bool(os.environ.get("CI") or os.environ.get("FARM_CI"))
SCENARIO = """
name: composed
pools:
  - name: linux
    platform: {processor: amd64}
    slots: 2
    provisioner: {algorithm: target-wait, objective: 30s, hold: 60s, min: 1, max: 3, interval: 10s}
    contention: {slowdown: thesis}
workload:
  - arrivals: {every: 1s, count: 1, service_time: {constant: 1s}}
scheduling: {fair_share: [team], stickiness: [10s], retries: 3}
live: {speed: 10}
"""


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The Engine that answers; in CI, as root, one of our own if there is none."""
    found = Engine()
    if found.answers():
        yield found
        return
    can_start = os.geteuid() == 0 and all(map(shutil.which, ("dockerd", "debootstrap")))
    if not (IN_CI or os.environ.get("FARM_OWN_ENGINE")):
        pytest.skip("needs a Docker Engine (FARM_OWN_ENGINE=1 starts one, as root)")
    if not can_start:
        pytest.fail("needs a Docker Engine, or dockerd and debootstrap as root")
    folder = Path(tempfile.mkdtemp(prefix="farm-docker-"))
    own = OwnEngine(folder)
    try:
        yield own.start()
    finally:
        own.stop()
        shutil.rmtree(folder, ignore_errors=True)


class Composed:
    """The farm of docker-compose.yml, under a name and on ports of its own."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.name = f"farmtest{os.getpid()}"
        self.prometheus = f"http://127.0.0.1:{free_port()}"
        scenario = folder / "composed.yaml"
        scenario.write_text(SCENARIO)
        scenario.chmod(0o644)
        mount = {"volumes": [f"{scenario}:/app/composed.yaml:ro"]}
        override = folder / "override.yml"
        override.write_text(json.dumps({"services": {"scheduler": mount, "provisioner": mount}}))
        self._files = ["-f", str(ROOT / "docker-compose.yml"), "-f", str(override)]
        self._environment = engine.environment | {
            "COMPOSE_PROJECT_NAME": self.name,
            "FARM_NAME": self.name,
            "FARM_NETWORK": self.name,
            "FARM_IMAGE": "build-farm:test",
            "FARM_SCENARIO": "/app/composed.yaml",
            "FARM_REDIS_PASSWORD": "not a simple/one:",
            "FARM_DOCKER_SOCKET": engine.socket,
            "FARM_PROMETHEUS_PORT": self.prometheus.rpartition(":")[2],
        }
        if BUNDLE.exists():
            self._environment.setdefault("PIP_CERT", str(BUNDLE))

    def compose(self, *arguments: str, timeout: float = 600, given: str | None = None) -> str:
        """Run compose, the new one or the old one, with this on its standard input."""
        old = shutil.which("docker-compose")
        command = [old] if old else ["docker", "compose"]
        run = subprocess.run(
            [*command, *self._files, *arguments],
            env=self._environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=timeout,
            input=given,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    def farm(self, *arguments: str) -> str:
        """Run the command farm in the scheduler's container."""
        return self.compose("exec", "-T", "scheduler", "farm", *arguments, timeout=60)

    def status(self) -> dict[str, Any]:
        """Return the farm at a glance."""
        found: dict[str, Any] = json.loads(self.farm("status", "--json"))
        return found

    def containers(self, *filters: str, everything: bool = False) -> list[str]:
        """Return names of containers that the filters let through."""
        words = [word for one in filters for word in ("--filter", one)]
        every = ["--all"] if everything else []
        return self.engine.docker("ps", *every, "--format", "{{.Names}}", *words).split()

    def builders(self) -> list[str]:
        """Return the containers that the provisioner started and that run."""
        return self.containers("label=farm.role=builder", f"label=farm.farm={self.name}")

    def service(self, name: str) -> str:
        """Return the container of a service, running or not."""
        label = f"label=com.docker.compose.project={self.name}"
        (found,) = self.containers(
            label, f"label=com.docker.compose.service={name}", everything=True
        )
        return found

    def until(self, there: Callable[[], bool], what: str, timeout: float = 90) -> None:
        """Wait for something."""
        deadline = time.monotonic() + timeout
        while not there():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not happen\n{self.compose('logs', '--tail=40')}")
            time.sleep(1)


@pytest.fixture
def composed(engine: Engine, tmp_path: Path) -> Iterator[Composed]:
    """A farm that is not up yet; whatever comes of it is gone afterwards."""
    farm = Composed(engine, tmp_path)
    yield farm
    for name in farm.builders():
        engine.docker("rm", "--force", name)
    farm.compose("--profile", "static", "down", "--volumes", "--timeout", "5")
