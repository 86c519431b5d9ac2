"""How another machine joins a farm: the one command that its builder host runs."""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from farm.app.long_running.access import apply, users_of
from farm.core.errors import InputError
from farm.live.hosts.host_processes import host_command
from farm.live.redis.connection import redacted
from farm.live.settings import DEFAULT_PREFIX, from_environment


def join_commands(
    server: str, hosts: Sequence[str], passwords: Path, admin: str | None, room: int, pool: str
) -> list[str]:
    """Return the command line of each host (one for all, if none is named), with a user for each.

    ``server``: its URL as the other machine sees it; ``passwords``: the folder of the files, each
    named after its user, that have the passwords; ``admin``: the server as a user who may use ACL:
    there the users are made. Raises InputError for a server that no other machine reaches, and
    without ``admin`` for a user who has no file yet; ServerError if the server refuses.
    """
    _as_user(server, "")  # refused before anything else is made of it
    users = users_of(from_environment().prefix, ["builder"], hosts, server)
    files = [passwords / user.name for user in users]
    names: Sequence[str | None] = hosts or [None]
    lines = [_command(server, f, name, room, pool) for f, name in zip(files, names, strict=True)]
    if admin:
        apply(users, passwords, admin)
    elif missing := [str(file) for file in files if not file.exists()]:
        raise InputError(
            f"{missing[0]}: found no such file; needed: the password of a user whom the server "
            "has (farm admin acl builder), or --redis URL, where the user is made"
        )
    return lines


def _command(server: str, password: Path, host: str | None, room: int, pool: str) -> str:
    """Return one command line; ``host``: None, and each machine has a name of its own."""
    settings = from_environment()
    settings_of_host = {
        "FARM_REDIS_URL": _as_user(server, password.name),
        "FARM_REDIS_PASSWORD_FILE": str(password),
        "FARM_PREFIX": settings.prefix if settings.prefix != DEFAULT_PREFIX else "",
        "FARM_HOST": host or "",
        "FARM_HOST_ROOM": str(room or ""),
        "FARM_HOST_POOL": pool,
        "FARM_WORK_RATES": settings.work_rates,
    }
    words = [f"{name}={shlex.quote(value)}" for name, value in settings_of_host.items() if value]
    return " ".join([*words, shlex.join(host_command(host))])


def _as_user(server: str, user: str) -> str:
    """Return the server's URL for this user."""
    try:
        parts = urlsplit(server)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("redis", "rediss") or not parts.hostname or _is_here(parts.hostname):
        raise InputError(
            f"SERVER: found {redacted(server)!r}; allowed: rediss://HOST:PORT/0 as another machine "
            "reaches it (neither localhost nor a socket)"
        )
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}@{place}"))


def _is_here(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
