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
#: queries that need something that this test does not bring about
SELDOM = {"Matrix response time"}


def unanswered(farm: Composed) -> list[str]:
    """Return the panels of all dashboards with a query that Prometheus has no answer to."""
    silent = []
    for path in sorted(FOLDER.glob("*.json")):
        for panel in panels(load(path)):
            for target in panel["targets"]:
                expr = plain(target["expr"], **{"$__rate_interval": "5m"})
                query = urllib.parse.urlencode({"query": expr})
                url = f"{farm.prometheus}/api/v1/query?{query}"
                with urllib.request.urlopen(url, timeout=10) as answer:
                    found = json.load(answer)
                assert found["status"] == "success", expr
                if not found["data"]["result"] and panel["title"] not in SELDOM:
                    silent.append(f"{path.stem} / {panel['title']}")
    return silent


def test_a_composed_farm_works_survives_kills_and_leaves_nothing(composed: Composed):
    """Submit, grow, lose a builder and the scheduler, finish, shrink, answer, go."""
    composed.compose("build", "scheduler", timeout=800)
    composed.compose("up", "-d", "redis", "scheduler", "provisioner", "prometheus")
    composed.until(lambda: len(composed.builders()) == 1, "the least pool")
    for team in ("red", "blue"):
        composed.farm(
            "submit", "--quiet", "--service-time", "1m", "--count", str(JOBS // 2),
            "--platform", "amd64/virtual", "--attribute", f"team={team}",
        )  # fmt: skip
    assert composed.status()["submitted"] == JOBS
    composed.until(lambda: len(composed.builders()) == 3, "the pool's growth")
    composed.until(lambda: sum(composed.status()["ended"].values()) >= 5, "the first ends")

    composed.engine.docker("kill", composed.builders()[0])
    composed.engine.docker("kill", composed.service("scheduler"))
    composed.engine.docker("start", composed.service("scheduler"))
    composed.until(
        lambda: composed.status()["ended"] == {"succeeded": JOBS}, "the end of all jobs", 240
    )
    jobs = composed.status()
    assert (jobs["submitted"], jobs["waiting"], jobs["running"]) == (JOBS, 0, 0)

    composed.until(lambda: len(composed.builders()) == 1, "scaling back")
    composed.until(lambda: not unanswered(composed), "an answer to every query")

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
