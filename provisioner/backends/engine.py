"""A Docker Engine's client, by the optional docker package, and what its errors mean."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
import typer

from farm.core.errors import InputError

#: real seconds that the Engine has to answer
TIMEOUT = 30
#: the name of a farm that has none
DEFAULT_NAME = "farm"
#: what docker compose labels its containers with
COMPOSE = "com.docker.compose"
#: the oldest one that was tried, and the version of its API: others than Docker's have that, too
OLDEST, OLDEST_API = "20.10", (1, 41)


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which Engine, and which of its farms.

    Attributes:
        name: distinguishes the farms of one Engine. Default: the name of the Compose project that
            the provisioner is a container of, else farm.
        docker_host: address of the Engine. Default: DOCKER_HOST.
    """

    name: Annotated[str | None, typer.Option(envvar="FARM_NAME")] = None
    docker_host: Annotated[str | None, typer.Option(envvar="FARM_DOCKER_HOST")] = None


def connect_engine(host: str | None = None, timeout: float = TIMEOUT) -> Any:
    """Return a client of the Engine at this address, else of the one that DOCKER_HOST names.

    Raises InputError if there is no docker package, the address is invalid, or no Engine answers.
    """
    docker = _docker()
    try:
        if host is None:
            return docker.from_env(timeout=timeout)
        return docker.DockerClient(base_url=host, timeout=timeout)
    except docker.errors.DockerException as error:
        raise InputError(no_engine(error)) from None


def check_engine_address(host: str | None) -> None:
    """Raise InputError if there is no docker package, or the address cannot be one."""
    docker = _docker()
    try:
        docker.utils.parse_host(host or "tcp://localhost:2375")
    except docker.errors.DockerException as error:
        raise InputError(
            f"--docker-host: found {host!r} ({first_line(error)}); allowed: tcp://HOST:PORT, "
            "unix:///PATH"
        ) from None


def check_engine_version(found: Mapping[str, object]) -> None:
    """Raise InputError for an Engine that is too old, by its own account."""
    api = str(found["ApiVersion"])
    if tuple(map(int, api.split("."))) < OLDEST_API:
        raise InputError(
            f"Docker Engine: found version {found['Version']} (API {api}); needed: {OLDEST} "
            f"(API {'.'.join(map(str, OLDEST_API))}) or newer"
        )


def _docker() -> Any:
    try:
        import docker  # noqa: PLC0415 - an optional dependency
    except ImportError:
        raise InputError(
            "this backend needs the docker package: pip install 'build-farm-emulator[docker]'"
        ) from None
    return docker


def no_engine(error: BaseException) -> str:
    """Return the message that no Engine answers, with instructions."""
    return (
        f"no Docker Engine answers ({first_line(error)}): start one, or say where it is with "
        "DOCKER_HOST, or use --backend process"
    )


def engine_errors() -> tuple[type[Exception], ...]:
    """Return the SDK's exceptions for an Engine that refuses or is away."""
    try:
        docker = _docker()
    except InputError:
        return (OSError,)
    # the SDK's requests raise errors of their own, which are OSErrors
    return (docker.errors.DockerException, OSError)


def is_gone(error: BaseException | None) -> bool:
    """Return whether the requested object does not exist."""
    return type(error).__name__ in ("NotFound", "ImageNotFound", "NullResource")


def is_conflict(error: BaseException | None) -> bool:
    """Return whether the name of what is to be made is taken."""
    return getattr(error, "status_code", None) == HTTPStatus.CONFLICT


def first_line(error: BaseException) -> str:
    """Return an error's text, short enough for a line of a log."""
    # the Engine's errors have their own text, beside the request
    text = str(getattr(error, "explanation", None) or error)
    return text.partition("\n")[0][:300]
