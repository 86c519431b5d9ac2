"""Containers on a Docker Engine, through its SDK: one container per builder.

Containers carry labels, so that a provisioner that starts again finds its own: they outlive the one
that started them. They are limited in processors, memory and processes, have no privileges, and are
removed after use. Where docker compose started the provisioner they are labelled as what it was
asked to run once (``docker compose run provisioner``): ``up``, ``stop`` and ``restart`` leave such
containers alone, and ``down --remove-orphans`` removes them with everything else.
"""

from __future__ import annotations

import hashlib
import logging
import re
import socket
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from farm.core.errors import InputError
from farm.core.model import Builder
from farm.live.host_processes import host_command
from farm.live.settings import LiveSettings, host_environment
from farm.live.wire.messages import Play, encode_play
from provisioner.backends.backend import Backend, BackendError
from provisioner.backends.engine import (
    COMPOSE,
    DEFAULT_NAME,
    check_engine_version,
    engine_errors,
    first_line,
    is_conflict,
    is_gone,
    no_engine,
)
from provisioner.reconciler import Instance, Remove

T = TypeVar("T")

log = logging.getLogger("farm.provisioner")

ROLE, FARM, POOL, BUILDER = "farm.role", "farm.farm", "farm.pool", "farm.builder"
#: the service of docker-compose.yml with which `down` removes them
SERVICE = "provisioner"
#: … and the one with the farm's server
SERVER = "redis"
#: the name of every builder on its network, so that one query finds them all (Prometheus)
ALIAS = "builder"
#: networks of the Engine's own, on which containers have no aliases
NAMELESS = ("bridge", "default", "host", "none")
RUNNING = ("created", "running", "restarting", "paused")
#: real seconds in which a builder that is stopped may finish what it runs
DRAIN_TIME = 6.0
#: … and after which the Engine kills it: it must also sign off, beside all others of its machine
STOP_TIMEOUT = 20
#: how the Engine shows a builder that ended after SIGTERM: its own, or that of its whole machine
LEFT = re.compile(r"Exited \((0|143)\)")
#: … and one that was killed, also for want of memory, or as it had not ended in time
KILLED = re.compile(r"Exited \(137\)")
#: what it says when it is asked to stop
STOPPING = "Warm shutdown"
#: lines of an ended container's log that are read
LAST_LINES = 20


class ContainerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a builder's container is made.

    Attributes:
        image: image of the builders.
        network: network on which they reach the server. Default: that of the provisioner's own
            container, if it is one of a Compose project.
        cpus: processors of a builder.
        memory: memory of a builder, such as 512m.
        log_driver: the Engine's logging driver for builders, such as journald. Default: 1 MB of
            each, as long as it lives.
        log_options: an option of the logging driver; repeatable.
        builder_metrics_port: port on which each container serves metrics. Default: none.
    """

    image: Annotated[str, typer.Option(envvar=["FARM_BUILDER_IMAGE", "FARM_IMAGE"])] = (
        "build-farm-emulator"
    )
    network: Annotated[str | None, typer.Option(envvar="FARM_BUILDER_NETWORK")] = None
    cpus: Annotated[float, typer.Option(envvar="FARM_BUILDER_CPUS", min=0.01)] = 1.0
    memory: Annotated[str, typer.Option(envvar="FARM_BUILDER_MEMORY")] = "512m"
    log_driver: Annotated[str | None, typer.Option(envvar="FARM_BUILDER_LOG_DRIVER")] = None
    log_options: Annotated[
        dict[str, str], typer.Option("--log-opt", envvar="FARM_BUILDER_LOG_OPTIONS")
    ] = {}
    builder_metrics_port: Annotated[
        int | None, typer.Option(envvar="FARM_BUILDER_METRICS_PORT", min=1, max=65535)
    ] = None
    # processes and threads
    pids: int = 256
    # distinguishes the farms of one Engine: see EngineOptions.name
    farm: str | None = None


class DockerBackend(Backend):
    """Builders as containers.

    Args:
        client: a ``docker.DockerClient``.
        settings: those of a host; where the farm is, as seen from a container.
        options: how containers are made.
    """

    outside = True

    def __init__(self, client: Any, settings: LiveSettings, options: ContainerOptions) -> None:
        self._client = client
        # each container has an address of its own, with all ports free
        self._settings = msgspec.structs.replace(
            settings,
            metrics_port=str(options.builder_metrics_port or ""),
            metrics_address="0.0.0.0",  # noqa: S104 - reached by its neighbours on the network only
            metrics_targets="",
        )
        self._options = options
        self._errors = engine_errors()
        self._farm = options.farm or DEFAULT_NAME
        self._network = options.network
        #: the Compose project that this process is a container of; empty: of none
        self._project = ""

    def check(self) -> None:
        """Check that the Engine answers, is not too old, and has no other farm of our name.

        Raises InputError. The image may be missing for now.
        """
        try:
            found = self._client.version()
        except self._errors as error:
            raise InputError(no_engine(error)) from None
        check_engine_version(found)
        self._find_own_project()
        try:
            self._check_names()
        except self._errors as error:
            raise InputError(no_engine(error)) from None
        try:
            self._client.images.get(self._options.image)
        except self._errors as error:
            log.warning("%s", self._no_image(error))

    def instances(self) -> list[Instance]:
        """Return this farm's containers, running or not."""
        found = self._calling(lambda: self._listed(f"{ROLE}=builder", f"{FARM}={self._farm}"))
        return [self._instance(container) for container in found]

    def launch(self, play: Play) -> None:
        """Start a container that runs this builder, unless another provisioner has just done so."""
        options, builder = self._options, play.builder
        name = f"{self._farm}-{builder.id}-{_short(play)}"
        settings = msgspec.structs.replace(
            self._settings, host=name, play=encode_play(play), drain_time=DRAIN_TIME
        )
        api = self._client.api
        limits = api.create_host_config(**self._limits(), network_mode=self._network)
        try:
            # not run(), which would pull a missing image from anywhere; not the SDK's
            # containers.create(), which knows no stop_timeout
            container = self._calling(
                lambda: api.create_container(
                    options.image,
                    host_command(name),
                    name=name,
                    detach=True,
                    environment=host_environment(settings),
                    labels=self._labels(builder),
                    stop_timeout=STOP_TIMEOUT,
                    host_config=limits,
                    networking_config=self._named_network(),
                )
            )
        except BackendError as error:
            if is_conflict(error.__cause__) and name in {one.name for one in self.instances()}:
                return
            raise
        self._calling(lambda: api.start(container["Id"]))

    def remove(self, command: Remove) -> None:
        """Remove a container, running or not."""
        try:
            name, every = command.instance.name, self._client.containers
            self._calling(lambda: every.get(name).remove(force=True, v=True))
        except BackendError as error:
            if not isinstance(error.__context__, self._errors) or not is_gone(error.__context__):
                raise

    def close(self) -> None:
        """Leave the containers running: the next provisioner adopts them."""
        self._client.close()

    def _find_own_project(self) -> None:
        """Take name and network from the Compose project that this process is a container of."""
        try:
            own = self._client.containers.get(socket.gethostname())
        except self._errors:
            return
        self._project = str(own.labels.get(f"{COMPOSE}.project", ""))
        if not self._project:
            return
        networks = own.attrs.get("NetworkSettings", {}).get("Networks") or {}
        self._farm = self._options.farm or self._project
        self._network = self._options.network or min(networks, default=None)

    def _check_names(self) -> None:
        """Raise InputError if another Compose project's farm would be taken for ours.

        Of two servers on one network a service would reach now the one and now the other; and
        builders that are called as ours would be adopted, or removed.
        """
        if not self._project:
            return
        servers = self._listed(f"{COMPOSE}.service={SERVER}", network=self._network)
        if others := self._projects_of(servers):
            raise InputError(
                f"the network {self._network!r} has the server of another farm, too (Compose "
                f"project {others[0]!r}): give each project a network of its own"
            )
        builders = self._listed(f"{ROLE}=builder", f"{FARM}={self._farm}")
        if others := self._projects_of(builders):
            raise InputError(
                f"--name: found {self._farm!r}, as which the Compose project {others[0]!r} has "
                "builders on this Engine; allowed: another one (FARM_NAME), or none: the project's"
            )

    def _projects_of(self, containers: list[Any]) -> list[str]:
        """Return the other Compose projects that these containers belong to."""
        projects = {
            (one.attrs.get("Labels") or {}).get(f"{COMPOSE}.project", "") for one in containers
        }
        return sorted(projects - {"", self._project})

    def _listed(self, *labels: str, network: str | None = None) -> list[Any]:
        """Return the containers with these labels, running or not, and on this network."""
        filters = {"label": list(labels)} | ({} if network is None else {"network": network})
        containers: list[Any] = self._client.containers.list(
            all=True, sparse=True, ignore_removed=True, filters=filters
        )
        return containers

    def _calling(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except self._errors as error:
            if is_gone(error) and "image" in str(error).lower():
                raise BackendError(self._no_image(error)) from error
            raise BackendError(f"Docker Engine: {first_line(error)}") from error

    def _instance(self, container: Any) -> Instance:
        attrs = container.attrs
        labels = attrs.get("Labels") or {}
        running = str(attrs.get("State", "")) in RUNNING
        detail = str(attrs.get("Status", ""))
        excused = False
        if not running:
            lines = self._last_log_lines(container)
            # which ends are excused: farm.core.jobs.requeueing. This one was asked to stop, and
            # killed as the machine was too busy for it to end in time
            was_stopped = KILLED.match(detail) and any(STOPPING in line for line in lines)
            excused = bool(LEFT.match(detail) or was_stopped)
            detail += f"; it said: {lines[-1][:300]}" if lines else ""
        return Instance(
            name=str((attrs.get("Names") or [attrs.get("Id", "")])[0]).lstrip("/"),
            builder=labels.get(BUILDER, ""),
            pool=labels.get(POOL, ""),
            running=running,
            excused=excused,
            detail=detail,
        )

    def _last_log_lines(self, container: Any) -> list[str]:
        """Return the last lines of an ended container's log, which is removed with it."""
        try:
            text = container.logs(tail=LAST_LINES).decode("utf-8", "replace")
        except self._errors:
            return []
        return [line.strip() for line in text.splitlines() if line.strip()]

    def _labels(self, builder: Builder) -> dict[str, str]:
        return {
            ROLE: "builder",
            FARM: self._farm,
            POOL: builder.pool,
            BUILDER: builder.id,
            # an image that docker compose built names its service, and containers inherit
            # that: a search for that service's containers would find builders
            f"{COMPOSE}.project": self._project or f"{self._farm}-builders",
            f"{COMPOSE}.service": SERVICE,
            f"{COMPOSE}.container-number": str(builder.index),
            f"{COMPOSE}.oneoff": "True",
            f"{COMPOSE}.config-hash": "",
        }

    def _limits(self) -> dict[str, object]:
        options = self._options
        return {
            "nano_cpus": round(options.cpus * 1e9),
            "mem_limit": options.memory,
            "pids_limit": options.pids,
            "init": True,
            "read_only": True,
            "tmpfs": {"/tmp": "size=64m"},  # noqa: S108 - the container's own
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "log_config": self._logging(),
        }

    def _logging(self) -> dict[str, object]:
        driver = self._options.log_driver
        if driver is None:
            return {"type": "json-file", "config": {"max-size": "1m", "max-file": "1"}}
        return {"type": driver, "config": self._options.log_options}

    def _named_network(self) -> object:
        network, api = self._network, self._client.api
        if network is None or network in NAMELESS:
            return None
        named = api.create_endpoint_config(aliases=[ALIAS])
        return api.create_networking_config({network: named})

    def _no_image(self, error: Exception) -> str:
        return (
            f"Docker image {self._options.image!r} is not there ({first_line(error)}): build it "
            "(docker-compose build), or name another with --image"
        )


def _short(play: Play) -> str:
    """Return a text that distinguishes containers of one builder in two lives of a farm."""
    return hashlib.sha256(msgspec.json.encode(play)).hexdigest()[:6]
