"""The only permissions for prepared containers on a Docker Engine: list, start, stop.

Listing may go to another address than starting and stopping (two proxies, each with one right).
Nothing is requested before it is needed, so the caller can wait for an absent Engine or proxy.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from farm.core.errors import InputError
from provisioner.backends.backend import BackendError
from provisioner.backends.docker import FARM, POOL, ROLE
from provisioner.backends.engine import (
    COMPOSE,
    DEFAULT_NAME,
    connect_engine,
    engine_errors,
    first_line,
)

T = TypeVar("T")

#: real seconds that the API has to answer (a stop gets 10 more)
TIMEOUT = 10.0
#: characters of a container's id that are its machine's name, unless it was given another
HOSTNAME = 12
MAY_LIST = "a proxy for reading needs CONTAINERS=1 (and VERSION=1)"
MAY_START = "a proxy for writing needs POST=1, ALLOW_START=1, ALLOW_STOP=1 (and VERSION=1)"


class ContainerError(BackendError):
    """One container cannot be started; another one may."""


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """A prepared container."""

    name: str
    #: the name that its host announces (FARM_HOST={hostname})
    host: str
    #: the only pool whose builders it plays; empty: any
    pool: str = ""
    running: bool = False
    #: its state, as text
    status: str = ""


class _Listed(msgspec.Struct, rename="pascal"):
    """A container in an Engine's list."""

    id: str
    names: list[str]
    state: str
    status: str = ""
    labels: dict[str, str] | None = None


class PreparedApi:
    """Lists, starts and stops the prepared containers of one farm.

    Args:
        farm: its name, the label ``farm.farm`` of its containers; None: they are those of the
            Compose project that this process is a container of, or else are called ``farm``.
        read_host, write_host: addresses in the form of DOCKER_HOST; None: its value.
        connect: makes a client (``docker.DockerClient``) of an address.
    """

    def __init__(
        self,
        farm: str | None,
        read_host: str | None = None,
        write_host: str | None = None,
        connect: Callable[[str | None, float], Any] = connect_engine,
    ) -> None:
        #: the label that tells this farm's containers from another's; empty: not known yet
        self.mark = f"{FARM}={farm}" if farm else ""
        self._hosts = {"read": read_host or write_host, "write": write_host or read_host}
        self._connect = connect
        self._clients: dict[str, Any] = {}
        # a ValueError is an answer that is no JSON
        self._errors: tuple[type[Exception], ...] = (*engine_errors(), ValueError)

    def list(self) -> list[Box]:
        """Return this farm's containers, running or not; raises BackendError."""
        if not self.mark:
            own = self._listed({"id": [socket.gethostname()]})
            project = (own[0].labels or {}).get(f"{COMPOSE}.project") if own else None
            self.mark = f"{COMPOSE}.project={project}" if project else f"{FARM}={DEFAULT_NAME}"
        listed = self._listed({"label": [f"{ROLE}=prepared", self.mark]})
        return sorted(map(_box, listed), key=lambda box: box.name)

    def _listed(self, filters: dict[str, Sequence[str]]) -> Sequence[_Listed]:
        what = {"all": True, "filters": filters}
        found = self._calling("read", "list containers", lambda api: api.containers(**what))
        try:
            return msgspec.convert(found, list[_Listed])
        except msgspec.ValidationError as error:
            where = self._where("read")
            raise BackendError(f"{where} does not answer with containers: {error}") from None

    def start(self, box: Box) -> None:
        """Start one; raises ContainerError if it cannot be started, BackendError if none can."""
        self._calling("write", f"start {box.name}", lambda api: api.start(box.name))

    def stop(self, box: Box) -> None:
        """Stop one, and wait for that; a slow stop is no error."""
        try:
            self._calling("write", f"stop {box.name}", lambda api: api.stop(box.name))
        except BackendError as error:
            if type(error.__context__).__name__ != "ReadTimeout":
                raise

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()

    def _calling(self, way: str, what: str, action: Callable[[Any], T]) -> T:
        try:
            if way not in self._clients:
                self._clients[way] = self._connect(self._hosts[way], TIMEOUT)
            return action(self._clients[way].api)
        except InputError as error:
            raise BackendError(f"cannot {what}: {error}") from error
        except self._errors as error:
            raise self._explained(way, what, error) from error

    def _explained(self, way: str, what: str, error: Exception) -> BackendError:
        status = getattr(error, "status_code", None)
        where = self._where(way)
        if status == 403:
            rights = MAY_LIST if way == "read" else MAY_START
            return BackendError(f"{where} refuses to {what.partition(' ')[0]} containers: {rights}")
        kind = ContainerError if way == "write" and status in (404, 409, 500) else BackendError
        return kind(f"{where} cannot {what}: {first_line(error)}")

    def _where(self, way: str) -> str:
        return f"Docker API ({self._hosts[way] or 'DOCKER_HOST'})"


def _box(listed: _Listed) -> Box:
    return Box(
        name=(listed.names or [listed.id])[0].lstrip("/"),
        host=listed.id[:HOSTNAME],
        pool=(listed.labels or {}).get(POOL, ""),
        running=listed.state in ("running", "restarting", "paused"),
        # without "… seconds ago", which changes with every check
        status=listed.status.partition(")")[0] + ")" if ")" in listed.status else listed.status,
    )
