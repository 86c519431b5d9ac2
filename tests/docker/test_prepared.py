"""Profile prepared on a real Engine: a provisioner that may only list, start and stop."""

from __future__ import annotations

import json

import pytest

from tests.docker.conftest import Farms
from tests.fixtures.docker_engine import Compose
from tests.worlds.composed import Composed

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]

JOBS = 24
PROFILE = ("--profile", "prepared")
#: tries what the provisioner must not do, and what it may do; prints the answers
ASK = """
import http.client, json

def ask(method, path, body=None, **headers):
    connection = http.client.HTTPConnection("engine-proxy", 2375, timeout=10)
    connection.request(method, path, body, headers)
    return connection.getresponse().status

NAME = {name!r}
WAR = json.dumps({{"Privileged": True, "Binds": ["/:/host"]}})
JSON = {{"Content-Type": "application/json"}}
print(json.dumps({{
    "list": ask("GET", "/v1.41/containers/json?all=1"),
    "version": ask("GET", "/version"),
    "start": ask("POST", f"/v1.41/containers/{{NAME}}/start"),
    "create": ask("POST", "/v1.41/containers/create", WAR, **JSON),
    "start with a configuration": ask("POST", f"/v1.18/containers/{{NAME}}/start", WAR, **JSON),
    "exec": ask("POST", f"/v1.41/containers/{{NAME}}/exec", "{{}}", **JSON),
    "delete": ask("DELETE", f"/v1.41/containers/{{NAME}}?force=1"),
    "kill": ask("POST", f"/v1.41/containers/{{NAME}}/kill"),
    "inspect": ask("GET", f"/v1.41/containers/{{NAME}}/json"),
    "read a file": ask("GET", f"/v1.41/containers/{{NAME}}/archive?path=/etc/passwd"),
    "attach": ask("GET", f"/v1.41/containers/{{NAME}}/attach/ws?stdin=1"),
    "stop another's": ask("POST", "/v1.41/containers/{scheduler}/stop"),
    "images": ask("GET", "/v1.41/images/json"),
}}))
"""


@pytest.fixture
def farm(farms: Farms, newest: Compose) -> Composed:
    """A farm whose four builders are created and not started."""
    found = farms(newest, FARM_SCENARIO="examples/prepared.yaml")
    found.compose(*PROFILE, "up", "--no-start", "--scale", "prepared=4", "prepared")
    return found


def running(farm: Composed) -> list[str]:
    """Return the prepared containers that run."""
    project = f"label=com.docker.compose.project={farm.name}"
    return farm.containers("label=farm.role=prepared", project)


def test_a_pool_of_prepared_containers(farm: Composed):
    """1, 3 and 1 of 4; one is killed in between and nothing is lost; down leaves nothing."""
    assert running(farm) == []
    farm.compose(*PROFILE, "up", "-d", "redis", "scheduler", "provisioner-prepared")
    farm.until(lambda: farm.status()["builders"] == {"idle": 1}, "the least pool")
    assert len(running(farm)) == 1
    farm.farm(
        "submit", "--quiet", "--service-time", "40s", "--count", str(JOBS),
        "--platform", "amd64/virtual",
    )  # fmt: skip
    farm.until(lambda: len(running(farm)) == 3, "the pool's growth")
    farm.until(lambda: farm.status()["builders"].get("building") == 3, "work on all of them")
    farm.engine.docker("kill", running(farm)[0])
    assert_least_privilege(farm)
    farm.until(lambda: farm.ended() == {"succeeded": JOBS}, "the end of all jobs")
    farm.until(lambda: len(running(farm)) == 1, "scaling back")
    assert farm.pool()["trouble"] == ""

    # needed ones are adopted by the next provisioner, not started anew
    (left,) = running(farm)
    began = farm.state(left)["StartedAt"]
    farm.die("provisioner-prepared")
    farm.until(lambda: farm.log("provisioner-prepared").count("sizing linux") == 2, "its return")
    farm.farm("submit", "--quiet", "--service-time", "1s", "--platform", "amd64/virtual")
    farm.until(lambda: farm.ended() == {"succeeded": JOBS + 1}, "the end of one more")
    assert (running(farm), farm.state(left)["StartedAt"]) == ([left], began)

    farm.compose(*PROFILE, "stop", "provisioner-prepared")
    assert running(farm) == [left]
    farm.compose(*PROFILE, "down", "--volumes")
    assert farm.left() == []


def assert_least_privilege(farm: Composed) -> None:
    """From within the provisioner's container: no socket, and a proxy that refuses the rest."""
    provisioner = farm.service("provisioner-prepared")
    name = farm.containers("label=farm.role=prepared", everything=True)[0]
    script = ASK.format(name=name, scheduler=farm.service("scheduler"))
    answers = json.loads(farm.engine.docker("exec", provisioner, "python3", "-c", script))
    assert (answers.pop("list"), answers.pop("version")) == (200, 200)
    assert answers.pop("start") in (204, 304)
    assert set(answers.values()) == {403}, answers
    sockets = "import pathlib; print([*pathlib.Path('/').glob('var/run/docker*')])"
    assert farm.engine.docker("exec", provisioner, "python3", "-c", sockets).strip() == "[]"
    assert farm.engine.docker("exec", provisioner, "id", "-u").strip() == "10001"
