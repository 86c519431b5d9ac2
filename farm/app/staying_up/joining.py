"""How a machine that is not ours joins a farm: the one command that its builder host runs."""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from farm.app.staying_up.access import apply, password_of, users_of
from farm.core.errors import InputError
from farm.live.hosts.processes import host_command
from farm.live.redis.connection import redacted
from farm.live.settings import DEFAULT_PREFIX, from_environment


def make_builders(hosts: Sequence[str], passwords: Path, admin: str | None) -> list[Path]:
    """Return the password file of each host's user (one of all hosts, if none is named).

    ``admin``: the server as a user who may use ACL: there the users are made. Raises ServerError
    if it refuses.
    """
    users = users_of(from_environment().prefix, ["builder"], hosts)
    if admin:
        apply(users, passwords, admin)
    for user in users:
        password_of(user, passwords)
    return [passwords / user.name for user in users]


def join_command(server: str, password: Path, host: str | None, room: int, pool: str) -> str:
    """Return the command line of a builder host elsewhere; no password is in it.

    ``server``: its URL as the other machine sees it; ``password``: the file that is named after
    its user; ``host``: None, and each gets a name of its own. Raises InputError for a server that
    no other machine reaches.
    """
    settings = from_environment()
    said = {
        "FARM_REDIS_URL": _as_user(server, password.name),
        "FARM_REDIS_PASSWORD_FILE": str(password),
        "FARM_PREFIX": settings.prefix if settings.prefix != DEFAULT_PREFIX else "",
        "FARM_HOST": host or "",
        "FARM_HOST_ROOM": str(room or ""),
        "FARM_HOST_POOL": pool,
        "FARM_WORK_RATES": settings.work_rates,
    }
    words = [f"{name}={shlex.quote(value)}" for name, value in said.items() if value]
    return " ".join([*words, shlex.join(host_command(host))])


def _as_user(server: str, user: str) -> str:
    """Return the server's URL for this user."""
    parts = urlsplit(server)
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
