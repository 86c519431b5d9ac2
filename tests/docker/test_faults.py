"""Faults around a composed farm: bounded, logged once, and over when their cause is.

One farm for all of them. Its jobs have no retries: a lost attempt fails a job.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.fixtures.docker_engine import Compose, Engine
from tests.fixtures.wire import EngineWire
from tests.worlds.composed import ADMIN_PASSWORD, Composed

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]

#: never joins
SLEEPER = 'FROM {image}\nENTRYPOINT ["sh", "-c", "sleep 9999"]\n'


class Faulty(Composed):
    """A running farm whose connection to the Engine and whose builder image can be broken."""

    engine_wire: EngineWire
    builders_image: str

    def submit(self, count: int, service_time: str = "80s") -> None:
        """Submit jobs."""
        self.farm("submit", "--quiet", "--service-time", service_time, "--count", str(count))

    def assert_all_succeeded(self) -> None:
        """Check that every job ever submitted succeeded, at its first attempt."""
        jobs = self.status()["submitted"]
        self.until(lambda: sum(self.ended().values()) == jobs, "the end of all jobs", 240)
        assert self.ended() == {"succeeded": jobs}

    def is_idle(self) -> bool:
        """Return whether the smallest pool is up, and all jobs have ended."""
        builders = self.status()["builders"]
        return len(self.builders()) == 1 and builders.get("idle") == 1


@pytest.fixture(scope="module")
def faulty(
    engine: Engine,
    newest: Compose,
    source: Path,
    image: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Faulty]:
    """The farm, up."""
    wire = EngineWire(tmp_path_factory.mktemp("wire"), engine.socket)
    wire.mend()
    name = f"farmfaults{os.getpid()}"
    builders_image = f"build-farm:{name}"
    farm = Faulty(
        engine, newest, source, name,
        FARM_SCENARIO="examples/faults.yaml",
        FARM_BUILDER_IMAGE=builders_image,
        FARM_BOOT_TIMEOUT="20",
        FARM_DOCKER_SOCKET=str(wire.folder),
        FARM_DOCKER_HOST="unix:///var/run/docker.sock/engine.sock",
    )  # fmt: skip
    farm.engine_wire, farm.builders_image = wire, builders_image
    try:
        engine.docker("tag", image, builders_image)
        farm.compose("up", "-d", "redis", "scheduler", "provisioner")
        yield farm
    finally:
        farm.end()
        wire.cut()
        engine.docker("rmi", builders_image)


@pytest.fixture
def farm(faulty: Faulty) -> Iterator[Faulty]:
    """The farm, idle; each test leaves it that way, or the next one fails."""
    faulty.until(faulty.is_idle, "the least pool")
    yield faulty
    faulty.engine_wire.mend()
    faulty.engine.docker("tag", faulty.environment["FARM_IMAGE"], faulty.builders_image)


def test_the_engine_goes_away_and_comes_back(farm: Faulty):
    """Running work continues, no builder is started or removed; then the pool grows."""
    (builder,) = farm.builders()
    farm.engine_wire.cut()
    farm.until(lambda: "Docker Engine" in farm.pool()["trouble"], "telling it")
    farm.submit(18)
    farm.until(lambda: sum(farm.ended().values()) >= 3, "work going on")
    assert farm.builders() == [builder]
    told = [line for line in farm.log("provisioner").splitlines() if "Docker Engine:" in line]
    assert len(told) <= 2, "once, or twice if a call was on its way"

    farm.engine_wire.mend()
    farm.until(lambda: len(farm.builders()) == 3, "growth")
    farm.until(lambda: farm.pool()["trouble"] == "", "forgetting it")
    assert "the backend works again" in farm.log("provisioner")
    farm.assert_all_succeeded()


def test_stopping_the_engine_costs_no_attempt(farm: Faulty):
    """It stops all containers at once, the server first of all; a job has no second attempt.

    Builders do not wait for a server that is gone, end in time, and have left, not died. (No job
    is on its way to a builder then: a start that was never obeyed is an attempt.)
    """
    farm.submit(6, "800s")
    farm.until(lambda: farm.status()["builders"].get("building") == 3, "work on all of them")
    farm.until(lambda: farm.status()["running"] == 6, "their jobs")
    builders = farm.builders()
    services = [farm.service(name) for name in ("redis", "scheduler", "provisioner")]
    farm.engine.docker("stop", *services, *builders)
    assert {farm.state(name)["ExitCode"] for name in builders} == {0}
    farm.engine.docker("start", *services)
    farm.assert_all_succeeded()


def test_killing_the_provisioner_and_restarting_cost_no_attempt(farm: Faulty):
    """SIGKILL, then `restart`: the same containers, the same attempts."""
    farm.submit(36)
    farm.until(lambda: farm.status()["builders"].get("building") == 3, "growth")
    builders = sorted(farm.builders())
    began = farm.log("provisioner").count("sizing linux")

    farm.die("provisioner")
    farm.until(lambda: farm.log("provisioner").count("sizing linux") == began + 1, "its return")
    farm.compose("restart", "scheduler", "provisioner")
    farm.until(lambda: farm.log("provisioner").count("sizing linux") == began + 2, "its return")
    farm.until(lambda: farm.log("scheduler").count("in charge of") >= 2, "the scheduler's")
    assert sorted(farm.builders()) == builders
    farm.assert_all_succeeded()
    assert farm.status()["builders"].get("lost", 0) == 0


def test_a_killed_redis_restores_everything(farm: Faulty):
    """Its file has every job and attempt; all services wait for it, and continue.

    The scheduler dies with it, so that nothing can be written anew from memory.
    """
    farm.submit(20)
    farm.until(lambda: len(farm.builders()) == 3, "growth")
    before = farm.status()
    farm.engine.docker("kill", farm.service("redis"))
    farm.until(lambda: "trouble with the Redis server" in farm.log("provisioner"), "noticing it")
    farm.die("scheduler")
    farm.engine.docker("start", farm.service("redis"))
    farm.until(lambda: "the Redis server is well again" in farm.log("provisioner"), "its return")
    assert farm.status()["submitted"] == before["submitted"]
    farm.assert_all_succeeded()
    assert "has lost" not in farm.log("scheduler")
    assert farm.state(farm.service("scheduler"))["Running"]


def test_an_image_that_is_missing_and_one_that_never_joins(farm: Faulty):
    """Shown in the log and `farm pools`, retried with backoff, without leftovers; then repaired."""
    farm.compose("stop", "provisioner")
    farm.until(lambda: farm.pool()["trouble"] == "no provisioner is running", "telling it")
    for name in farm.builders():
        farm.engine.docker("rm", "--force", name)
    farm.engine.docker("rmi", farm.builders_image)
    farm.compose("start", "provisioner")
    missing = f"Docker image '{farm.builders_image}' is not there"
    farm.until(lambda: missing in farm.pool()["trouble"], "telling what is missing")
    assert missing in farm.log("provisioner")

    sleeper = SLEEPER.format(image=farm.environment["FARM_IMAGE"])
    farm.engine.docker("build", "-q", "-t", farm.builders_image, "-", stdin=sleeper)
    farm.until(lambda: "did not join within 20s" in farm.pool()["trouble"], "giving it up")
    farm.until(lambda: farm.builders(everything=True) == [], "removing it")
    tries = tries_to_start(farm)
    pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert pauses
    assert all(pause > 1.5 * 2**number for number, pause in enumerate(pauses))

    farm.engine.docker("tag", farm.environment["FARM_IMAGE"], farm.builders_image)
    farm.until(farm.is_idle, "a builder that comes")
    assert farm.pool()["trouble"] == ""


def tries_to_start(farm: Composed) -> list[float]:
    """Return when builders were started since the provisioner's last start."""
    last_life = farm.log("provisioner").rpartition("sizing linux")[2].splitlines()
    return [
        datetime.fromisoformat(line[:23].replace(",", ".")).timestamp()
        for line in last_life
        if "started builder" in line or "cannot be started" in line
    ]


def test_a_service_that_is_refused_reports_it_once_and_ends(farm: Faulty):
    """By Redis (a wrong password), or by a socket without a listener."""
    refused = ("scheduler", "provisioner", "load", "builder")
    wrong = {
        name: started(farm, name, "FARM_REDIS_URL=redis://:wrong@redis:6379/0") for name in refused
    }
    alone = started(
        farm, "provisioner", "DOCKER_HOST=unix:///dev/null", "FARM_PREFIX=other:", *ADMIN
    )
    again = farm.engine.docker(
        "run", "--detach", "--restart", "unless-stopped", "--network", f"{farm.name}_farm",
        "--label", f"com.docker.compose.project={farm.name}", "--env", "FARM_REDIS_HOST=redis",
        "--env", "FARM_REDIS_PASSWORD=wrong", farm.environment["FARM_IMAGE"],
        "farm", "admin", "scheduler", "examples/demo.yaml",
    ).strip()  # fmt: skip
    try:
        for name, process in wrong.items():
            assert_refused(name, process, "refuses us")
        assert_refused("provisioner", alone, "no Docker Engine answers")
        count = farm.engine.docker("inspect", "--format", "{{.RestartCount}}", again)
        assert int(count) <= 12, "the Engine's pauses grow, as long as it ends at once"
    finally:
        farm.engine.docker("rm", "--force", again)


#: allowed everything, whatever the farm's prefix; no service can read its password
ADMIN = (
    "FARM_REDIS_USER=farm-admin", "FARM_REDIS_PASSWORD_FILE=",
    f"FARM_REDIS_PASSWORD={ADMIN_PASSWORD}",
)  # fmt: skip


def started(farm: Composed, service: str, *settings: str) -> subprocess.Popen[str]:
    """Start a service once, with these settings, beside the running one."""
    extra = [word for one in settings for word in ("-e", one)]
    command = farm.command("run", "--rm", "-T", "--no-deps", *extra, service)
    environment = farm.environment | {"FARM_LOAD": "examples/demo.yaml"}
    return subprocess.Popen(
        command, env=environment, cwd=farm.source, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def assert_refused(name: str, process: subprocess.Popen[str], why: str) -> None:
    """One message, exit code 2, no password."""
    said, _ = process.communicate(timeout=90)
    assert process.returncode == 2, (name, said)
    (line,) = [line for line in said.splitlines() if "rror" in line]
    assert why in line, name
    assert "Traceback" not in said
    assert "wrong" not in said
