"""The docker backend against a fake Engine: labels, limits, removal, and Engine failures."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import yaml

from farm.core.errors import InputError
from farm.core.model import Builder
from farm.live.settings import LiveSettings
from farm.live.wire.messages import Play, decode_play
from provisioner.backends.backend import BackendError
from provisioner.backends.docker import ContainerOptions, DockerBackend
from provisioner.reconciler import Instance, Remove
from tests.provisioner.tended import Refused
from workers.host import CLOSE_TIMEOUT

SETTINGS = LiveSettings(redis_url="redis://:secret@redis:6379/0", prefix="farm:")
OPTIONS = ContainerOptions(image="farm", network="farm_default", cpus=1.5, memory="256m")
PLAY = Play(builder=Builder(id="linux-7", pool="linux", index=7), speed=10.0)


#: the parameters of the SDK's create_container and create_host_config that may be used
TAKEN = {
    "name", "detach", "environment", "labels", "stop_timeout", "host_config", "networking_config",
}  # fmt: skip
LIMITS = {
    "nano_cpus", "mem_limit", "pids_limit", "init", "read_only", "tmpfs", "cap_drop",
    "security_opt", "log_config", "network_mode",
}  # fmt: skip


class NotFound(OSError):  # noqa: N818 - the SDK's name
    """Like the SDK's error of that name (its own classes are not needed here)."""


class ImageNotFound(NotFound):
    """Like the SDK's error of that name."""


class FakeEngine:
    """A client of an Engine that holds its containers in a dict."""

    def __init__(self) -> None:
        self.boxes: dict[str, dict[str, Any]] = {}
        self.has_image = True
        self.is_away = False
        self.number, self.api_version = "20.10.24", "1.41"
        self.closed = False
        self.said = b"error: no server\n"
        self.containers = SimpleNamespace(list=self._list, get=self._get)
        self.images = SimpleNamespace(get=self._image)
        self.api = SimpleNamespace(
            create_endpoint_config=lambda **named: named,
            create_networking_config=lambda named: named,
            create_host_config=lambda **limits: limits,
            create_container=self._create,
            start=lambda name: self.boxes[name].update(State="running"),
        )

    def version(self) -> dict[str, str]:
        self._answer()
        return {"Version": self.number, "ApiVersion": self.api_version}

    def close(self) -> None:
        self.closed = True

    @property
    def box(self) -> dict[str, Any]:
        """Return the only container."""
        (box,) = self.boxes.values()
        return box

    def _answer(self) -> None:
        if self.is_away:
            raise ConnectionRefusedError(111, "Connection refused")

    def _image(self, name: str) -> None:
        self._answer()
        if not self.has_image:
            raise ImageNotFound(f"No such image: {name}")

    def _list(self, *, all: bool, filters: dict[str, list[str]], **_: Any) -> list[Any]:  # noqa: A002
        self._answer()
        assert all
        wanted = dict(label.split("=") for label in filters["label"])
        network = filters.get("network")
        return [
            SimpleNamespace(
                attrs={"Names": [f"/{name}"], "State": "running", **box},
                logs=lambda tail: b"".join(self.said.splitlines(keepends=True)[-tail:]),
            )
            for name, box in self.boxes.items()
            if wanted.items() <= box["Labels"].items()
            and (network is None or network in box.get("networks", ()))
        ]

    def compose(self, service: str, project: str, name: str = "", *networks: str) -> None:
        """Let a container of a Compose project be there."""
        labels = {"com.docker.compose.project": project, "com.docker.compose.service": service}
        box = {"Labels": labels, "networks": networks or (f"{project}_farm",)}
        self.boxes[name or f"{project}_{service}_1"] = box

    def _create(self, image: str, command: list[str], **how: Any) -> Any:
        self._image(image)
        assert set(how) <= TAKEN
        assert set(how["host_config"]) <= LIMITS
        if how["name"] in self.boxes:
            raise Refused(409, f'The container name "/{how["name"]}" is already in use')
        how |= how.pop("host_config")
        box = {"Labels": how["labels"], "command": command, "how": how, "State": "created"}
        self.boxes[how["name"]] = box
        return {"Id": how["name"]}

    def _get(self, name: str) -> Any:
        self._answer()
        if name not in self.boxes:
            raise NotFound(f"No such container: {name}")
        box = self.boxes[name]
        networks = {network: {} for network in box.get("networks", ())}
        return SimpleNamespace(
            remove=lambda *, force, v: self.boxes.pop(name) if force and v else None,
            labels=box["Labels"],
            attrs={"NetworkSettings": {"Networks": networks}},
        )


@pytest.fixture
def engine() -> FakeEngine:
    """An Engine that has the image."""
    return FakeEngine()


@pytest.fixture
def backend(engine: FakeEngine) -> DockerBackend:
    """A backend on that Engine."""
    return DockerBackend(engine, SETTINGS, OPTIONS)


def test_a_builder_becomes_a_limited_container_that_plays_it(engine, backend):
    """Labels to find it again, limits, no privileges, and all settings that it needs."""
    backend.launch(PLAY)
    ((name, box),) = engine.boxes.items()
    how = box["how"]
    assert box["Labels"] == {
        "farm.role": "builder",
        "farm.farm": "farm",
        "farm.pool": "linux",
        "farm.builder": "linux-7",
        # not those of the image: builders do not belong to the service that it was built for
        "com.docker.compose.project": "farm-builders",
        "com.docker.compose.service": "provisioner",
        "com.docker.compose.container-number": "7",
        "com.docker.compose.oneoff": "True",
        "com.docker.compose.config-hash": "",
    }
    assert (how["nano_cpus"], how["mem_limit"], how["pids_limit"]) == (1_500_000_000, "256m", 256)
    assert (how["cap_drop"], how["security_opt"]) == (["ALL"], ["no-new-privileges"])
    assert "privileged" not in how
    assert "volumes" not in how
    assert (how["read_only"], how["tmpfs"]) == (True, {"/tmp": "size=64m"})
    assert (how["network_mode"], how["init"], how["detach"]) == ("farm_default", True, True)
    environment = how["environment"]
    assert environment["FARM_REDIS_URL"] == SETTINGS.redis_url
    assert environment["FARM_HOST"] == name
    assert decode_play(environment["FARM_PLAY"]) == PLAY
    assert box["command"][:1] == ["celery"]
    assert box["State"] == "running"
    assert json.loads(environment["FARM_PLAY"])["speed"] == 10.0
    # stopped, it drains first, signs off in three steps of two seconds at most, and is not alone
    assert 0 < float(environment["FARM_DRAIN_TIME"]) + 3 * CLOSE_TIMEOUT < how["stop_timeout"] / 1.5


def test_builders_share_a_name_on_a_separate_network(engine, backend):
    """One DNS query finds them all; the Engine's own networks have no such names."""
    backend.launch(PLAY)
    assert engine.box["how"]["networking_config"] == {"farm_default": {"aliases": ["builder"]}}
    for network in (None, "bridge", "host"):
        engine.boxes.clear()
        options = ContainerOptions(image="farm", network=network)
        DockerBackend(engine, SETTINGS, options).launch(PLAY)
        assert engine.box["how"]["networking_config"] is None
        assert engine.box["how"]["network_mode"] == network


def test_what_builders_print_goes_where_it_is_wanted(engine, backend):
    """By default the Engine keeps a little of it; a logging driver keeps what its options say."""
    backend.launch(PLAY)
    assert engine.box["how"]["log_config"]["config"] == {"max-size": "1m", "max-file": "1"}
    engine.boxes.clear()
    options = msgspec.structs.replace(OPTIONS, log_driver="journald", log_options={"tag": "t"})
    DockerBackend(engine, SETTINGS, options).launch(PLAY)
    assert engine.box["how"]["log_config"] == {"type": "journald", "config": {"tag": "t"}}


def test_an_engine_that_is_too_old_is_refused(engine, backend):
    """With the version that was found and the one that is needed, before anything is started."""
    backend.check()
    engine.number, engine.api_version = "19.03.15", "1.40"
    with pytest.raises(InputError, match=r"19\.03\.15 \(API 1\.40\); needed: 20\.10 .* newer"):
        backend.check()


def test_its_own_containers_are_found_again_and_only_those(engine, backend):
    """A restarted provisioner adopts what exists; another farm's containers are ignored."""
    backend.launch(PLAY)
    other = DockerBackend(engine, SETTINGS, ContainerOptions(image="farm", farm="other"))
    assert other.instances() == []
    (instance,) = DockerBackend(engine, SETTINGS, OPTIONS).instances()
    assert (instance.builder, instance.pool, instance.running) == ("linux-7", "linux", True)


def test_an_ended_container_is_reported_with_its_reason(engine, backend):
    """With the Engine's reason, and its own output: its log is removed with it."""
    backend.launch(PLAY)
    engine.box.update(State="exited", Status="Exited (2) 3 seconds ago")
    (instance,) = backend.instances()
    assert not instance.running
    assert instance.detail == "Exited (2) 3 seconds ago; it said: error: no server"
    assert not instance.excused


@pytest.mark.parametrize(("code", "excused"), [(0, True), (143, True), (137, False), (1, False)])
def test_a_container_that_was_stopped_in_order_is_excused(engine, backend, code, excused):
    """As when the Engine itself is stopped: no builder is lost by that."""
    backend.launch(PLAY)
    engine.box.update(State="exited", Status=f"Exited ({code}) 3 seconds ago")
    assert [instance.excused for instance in backend.instances()] == [excused]


@pytest.mark.parametrize("asked", [True, False])
def test_one_that_was_killed_is_excused_if_it_had_been_asked_to_stop(engine, backend, asked):
    """Where the Engine stops with many builders at once, one may be too late; its jobs run again.

    One that was killed unasked (137 is also what the kernel leaves for want of memory) is lost.
    """
    backend.launch(PLAY)
    engine.box.update(State="exited", Status="Exited (137) 3 seconds ago")
    engine.said = b"worker: Warm shutdown (MainProcess)\n" * asked + b"Connection to broker lost\n"
    (instance,) = backend.instances()
    assert instance.excused is asked
    assert instance.detail.endswith("it said: Connection to broker lost")


def test_a_container_is_removed_once(engine, backend):
    """One that was removed by hand is no error."""
    backend.launch(PLAY)
    (instance,) = backend.instances()
    backend.remove(Remove(instance, "retired"))
    assert engine.boxes == {}
    backend.remove(Remove(instance, "retired"))


def test_closing_leaves_builders_running(engine, backend):
    """A restart of the provisioner costs no attempt; an absent Engine is no error then."""
    backend.launch(PLAY)
    engine.is_away = True
    backend.close()
    assert (engine.box["State"], engine.closed) == ("running", True)


def test_in_a_compose_project_builders_are_containers_of_a_service_of_it(engine, backend):
    """So that `docker compose down --remove-orphans` leaves none, whatever has died."""
    engine.compose("provisioner", "mine", socket.gethostname())
    backend.check()
    backend.launch(PLAY)
    builder = list(engine.boxes.values())[-1]["Labels"]
    assert builder["com.docker.compose.project"] == "mine"
    text = (Path(__file__).parents[2] / "docker-compose.yml").read_text(encoding="utf-8")
    assert "profiles" not in yaml.safe_load(text)["services"][builder["com.docker.compose.service"]]


def test_name_and_network_are_those_of_the_project(engine):
    """A second clone on the Engine, with a project name of its own, is a farm of its own."""
    engine.compose("redis", "other")
    engine.compose("redis", "mine")
    engine.compose("provisioner", "mine", socket.gethostname())
    backend = DockerBackend(engine, SETTINGS, ContainerOptions(image="farm"))
    backend.check()
    backend.launch(PLAY)
    (name,) = [name for name in engine.boxes if name.startswith("mine-linux-7-")]
    builder = engine.boxes[name]
    assert (builder["Labels"]["farm.farm"], builder["how"]["network_mode"]) == ("mine", "mine_farm")
    assert [instance.name for instance in backend.instances()] == [name]


def test_a_network_with_two_farms_servers_is_refused(engine):
    """Of two servers called `redis`, a service would reach now the one, now the other."""
    for project in ("mine", "other"):
        engine.compose("redis", project, "", "shared")
    engine.compose("provisioner", "mine", socket.gethostname(), "shared")
    backend = DockerBackend(engine, SETTINGS, ContainerOptions(image="farm"))
    with pytest.raises(InputError, match=r"network 'shared' has the server .* project 'other'"):
        backend.check()


def test_another_projects_builders_are_not_taken_for_ours(engine):
    """A name that was given twice would have each remove the other's builders."""
    engine.compose("redis", "other")
    engine.compose("provisioner", "mine", socket.gethostname())
    engine.boxes["theirs"] = {
        "Labels": {
            "farm.role": "builder", "farm.farm": "farm", "com.docker.compose.project": "other",
        }
    }  # fmt: skip
    DockerBackend(engine, SETTINGS, ContainerOptions(image="farm")).check()
    backend = DockerBackend(engine, SETTINGS, ContainerOptions(image="farm", farm="farm"))
    with pytest.raises(InputError, match=r"found 'farm', as which the Compose project 'other'"):
        backend.check()


def test_no_engine_is_one_clear_message(engine, backend):
    """At the start, with instructions."""
    engine.is_away = True
    with pytest.raises(InputError, match=r"no Docker Engine answers .*DOCKER_HOST"):
        backend.check()


def test_a_missing_image_is_one_clear_message(engine, backend, caplog):
    """At the start, where it may still be built, and whenever a builder is started."""
    engine.has_image = False
    backend.check()
    assert re.search(r"image 'farm' is not there .*--image", caplog.text)
    with pytest.raises(BackendError, match=r"image 'farm' is not there"):
        backend.launch(PLAY)


def test_an_engine_that_dies_is_a_temporary_error(engine, backend):
    """The service continues; without information it does nothing."""
    engine.is_away = True
    for action in (
        backend.instances,
        lambda: backend.launch(PLAY),
        lambda: backend.remove(Remove(Instance(name="x", builder="b", pool="p"), "orphan")),
    ):
        with pytest.raises(BackendError, match="Connection refused"):
            action()
    engine.is_away = False
    assert backend.instances() == []


def test_a_container_that_is_there_already_is_no_failure(engine, backend):
    """Another provisioner started it: its builder, which may run jobs, must not be given up."""
    backend.launch(PLAY)
    there = dict(engine.boxes)
    backend.launch(PLAY)
    assert engine.boxes == there


def test_a_name_that_something_else_has_is_a_failure(engine, backend):
    """There is no builder in it, so its builder is given up at once."""
    backend.launch(PLAY)
    (name,) = engine.boxes
    engine.boxes[name] |= {"Labels": {}}
    with pytest.raises(BackendError, match=f'"/{name}" is already in use'):
        backend.launch(PLAY)
