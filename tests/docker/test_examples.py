"""Examples run on a composed farm, one after the other on one server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.scenario import load_scenario
from tests.docker.conftest import RECORDING
from tests.fixtures.docker_engine import Compose, Engine
from tests.worlds.composed import Composed

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[2] / "examples"
#: one for each thing that containers could hinder: burning, one use of a builder, cancelled jobs,
#: reports of load, several pools, several platforms, a recording in the image
PLAYED = (
    "burning", "ephemeral-runners", "fail-fast", "heavy-light", "heterogeneous", "quickstart",
    "taskcluster-firefox",
)  # fmt: skip
#: what the page on deployment recommends to users of SELinux, for access to the socket
SELINUX = {"security_opt": ["label=disable"]}
SERVICES = ("scheduler", "provisioner", "load")


class Stage(Composed):
    """A farm whose scenario changes: its server stays, all else is replaced."""

    def play(self, name: str) -> None:
        """Clear the stage, then bring up an example with its load."""
        self.clear()
        example = f"examples/{name}.yaml"
        self.environment |= {"FARM_SCENARIO": example, "FARM_LOAD": example}
        command = ["farm", "admin", "scheduler", example]
        self.override(scheduler={"command": command}, provisioner=SELINUX)
        self.compose("up", "-d", *SERVICES)

    def clear(self) -> None:
        """Remove what the previous example left."""
        self.compose("rm", "--stop", "--force", *SERVICES)
        for name in self.builders(everything=True):
            self.engine.docker("rm", "--force", name)
        self.redis("flushall", "admin")
        self.has_begun = False

    def pools_at_work(self) -> set[str]:
        """Return the pools on whose builders jobs have succeeded."""
        results = self.redis("hvals farm:results", "admin")
        ends = map(json.loads, filter(None, results.splitlines()))
        well = [end for end in ends if end["outcome"] == "succeeded"]
        return {end["builder"].rpartition("-")[0] for end in well}


@pytest.fixture(scope="module")
def stage(engine: Engine, newest: Compose, source: Path, image: str) -> Iterator[Stage]:
    """The server, up."""
    farm = Stage(engine, newest, source, f"farmexamples{os.getpid()}")
    try:
        farm.compose("up", "-d", "redis")
        yield farm
    finally:
        farm.end()


@pytest.mark.parametrize("name", PLAYED)
def test_an_example_runs(stage: Stage, name: str):
    """Each of its pools gets builders and ends jobs; no service logs errors."""
    pools = {pool.name for pool in load_scenario(EXAMPLES / f"{name}.yaml").pools}
    stage.play(name)
    stage.until(lambda: stage.pools_at_work() == pools, f"work in {pools}", 240)
    for service in SERVICES:
        assert "ERROR" not in (said := stage.log(service)), said
        assert "Traceback" not in said


def test_a_fixed_pool_works_and_keeps_its_size(stage: Stage):
    """A pool without an algorithm gets its builders, and successors of lost ones."""
    stage.play("fair-share-two-teams")
    stage.until(lambda: len(stage.builders()) == 4, "the pool")
    stage.until(lambda: sum(stage.ended().values()) > 20, "the first ends")
    stage.engine.docker("kill", stage.builders()[0])
    stage.until(lambda: stage.ended() == {"succeeded": 215}, "the end of all jobs")
    stage.until(lambda: len(stage.builders()) == 4, "a successor")


def test_a_missing_recording_is_named(stage: Stage):
    """The load ends with one message: which file, and where to get it."""
    alone = "cp examples/taskcluster-firefox.yaml /tmp && farm submit /tmp/taskcluster-firefox.yaml"
    refused = stage.run("run", "--rm", "-T", "--no-deps", "load", "sh", "-c", alone, timeout=60)
    assert refused.returncode == 2
    said = refused.stdout + refused.stderr
    assert RECORDING in said
    assert "github.com/taskcluster/taskcluster-provisioning-simulator" in said
    assert "Traceback" not in said
