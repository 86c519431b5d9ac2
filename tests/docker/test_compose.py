"""docker-compose.yml on a real Docker Engine: up, work, kills, scaling back, down."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request

import pytest

from tests.docker.conftest import Composed
from tests.grafana.conftest import FOLDER, load, panels, plain

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]

JOBS = 60
#: of them; what they tell is asked for too
BURNING = 2


class Questions:
    """The queries of all dashboards that Prometheus has not answered yet."""

    def __init__(self, farm: Composed) -> None:
        self._url = f"{farm.prometheus}/api/v1/query?"
        self.left = [
            (f"{path.stem} / {panel['title']}", target["expr"])
            for path in sorted(FOLDER.glob("*.json"))
            for panel in panels(load(path))
            for target in panel["targets"]
        ]

    def ask(self) -> bool:
        """Ask those that are left; say whether all are answered (some are while work goes on)."""
        self.left = [(name, expr) for name, expr in self.left if not self._answer(expr)]
        return not self.left

    def _answer(self, expr: str) -> list[object]:
        query = urllib.parse.urlencode({"query": plain(expr)})
        with urllib.request.urlopen(self._url + query, timeout=10) as answer:
            found = json.load(answer)
        assert found["status"] == "success", expr
        return found["data"]["result"]


def test_a_composed_farm_works_survives_kills_and_leaves_nothing(composed: Composed):
    """Submit, grow, lose a builder and the scheduler, finish, shrink, answer, go."""
    composed.compose("build", "scheduler", timeout=800)
    composed.compose("up", "-d", "redis", "scheduler", "provisioner", "prometheus")
    composed.until(lambda: len(composed.builders()) == 1, "the least pool")
    for team, count, service_time, mode in (
        ("red", JOBS // 2, "1m", "timed"),
        ("blue", JOBS // 2 - BURNING, "1m", "timed"),
        ("blue", BURNING, "5s", "stress"),
    ):
        composed.farm(
            "submit", "--quiet", "--service-time", service_time, "--count", str(count),
            "--mode", mode, "--platform", "amd64/virtual", "--attribute", f"team={team}",
        )  # fmt: skip
    assert composed.status()["submitted"] == JOBS
    composed.until(lambda: len(composed.builders()) == 3, "the pool's growth")
    composed.until(lambda: sum(composed.status()["ended"].values()) >= 5, "the first ends")

    composed.engine.docker("kill", composed.builders()[0])
    composed.engine.docker("kill", composed.service("scheduler"))
    composed.engine.docker("start", composed.service("scheduler"))
    questions = Questions(composed)
    composed.until(
        lambda: questions.ask() or composed.status()["ended"] == {"succeeded": JOBS},
        "an answer to every query, or the end of all jobs",
        240,
    )
    composed.until(
        lambda: composed.status()["ended"] == {"succeeded": JOBS}, "the end of all jobs", 240
    )
    jobs = composed.status()
    assert (jobs["submitted"], jobs["waiting"], jobs["running"]) == (JOBS, 0, 0)

    composed.until(lambda: len(composed.builders()) == 1, "scaling back")
    composed.until(questions.ask, f"an answer to {[name for name, _ in questions.left]}")

    composed.compose("down", "--volumes")
    label = f"label=com.docker.compose.project={composed.name}"
    assert composed.containers(label, everything=True) == []
    ours = f"label=farm.farm={composed.name}"
    assert composed.containers(ours, everything=True) == []
    networks = composed.engine.docker("network", "ls", "--format", "{{.Name}}").split()
    assert composed.name not in networks
    volumes = composed.engine.docker("volume", "ls", "--format", "{{.Name}}").split()
    assert [name for name in volumes if name.startswith(composed.name)] == []


def test_a_static_set_needs_no_socket(composed: Composed):
    """Profile static: builders without the provisioner; they do the work too."""
    composed.compose("build", "scheduler", timeout=800)
    composed.compose(
        "--profile", "static", "up", "-d", "--scale", "builder=2", "redis", "scheduler", "builder"
    )
    composed.until(lambda: composed.status()["builders"].get("idle") == 2, "joining")
    composed.farm(
        "submit", "--quiet", "--service-time", "10s", "--count", "8", "--platform", "amd64/virtual"
    )
    composed.until(lambda: composed.status()["ended"] == {"succeeded": 8}, "the end of all jobs")
