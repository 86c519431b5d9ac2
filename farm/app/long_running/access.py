"""The users of a shared server, with passwords in files, and how another machine joins as one."""

from __future__ import annotations

import ipaddress
import secrets
import shlex
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from farm.core.errors import InputError, ServerError
from farm.live.host_processes import host_command
from farm.live.redis.connection import check_server, connect, database_of, redacted
from farm.live.redis.keys import Keys
from farm.live.redis.roles import ANY_HOST, User, user_of
from farm.live.redis.trouble import RedisError
from farm.live.settings import DEFAULT_PREFIX, from_environment

#: settings by which a server is protected from clients that do not read their answers, and the
#: beginnings of their values if they are off
UNLIMITED = {
    "maxmemory": "0",
    "maxmemory-clients": "0",
    "client-output-buffer-limit": "normal 0 0 0",
}


def users_of(prefix: str, roles: Sequence[str], hosts: Sequence[str], url: str = "") -> list[User]:
    """Return the users of these roles, a builder for each host if some are named.

    ``url``: of the server; without a database in it they can use no other than 0.
    Raises InputError for a role that there is not, or a name that cannot be one.
    """
    if any(character.isspace() or character == '"' for character in prefix):
        raise InputError(f"FARM_PREFIX: found {prefix!r}; allowed here: no spaces and quotes")
    keys, users, database = Keys(prefix), list[User](), database_of(url)
    for role in roles:
        of_hosts = hosts if role == "builder" else ()
        names = of_hosts or (ANY_HOST,)
        users += [user_of(keys, role, host, database) for host in names]
    return users


def password_of(user: User, folder: Path) -> str:
    """Return a user's password: what stands in FOLDER/NAME, or a new one that is written there.

    Raises InputError for an empty file, or one that is not text.
    """
    path = folder / user.name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(f"{secrets.token_urlsafe(24)}\n", encoding="utf-8")
    try:
        password = path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text; allowed: a password in its only line") from None
    if not password:
        raise InputError(f"{path}: found nothing; allowed: a password in its only line")
    return password


def lines_of(users: Iterable[User], folder: Path, *, aclfile: bool) -> list[str]:
    """Return a line for each user: for redis-cli, or of a whole access list file.

    In a file no other user may log in: the user ``default`` is turned off. It keeps its rights, as
    Redis and Valkey read transactions back from the append-only file with them, or drop them.
    """
    first = "user" if aclfile else "ACL SETUSER"
    lines = [" ".join((first, u.name, *u.with_password(password_of(u, folder)))) for u in users]
    return ["user default reset off ~* &* +@all", *lines] if aclfile else lines


def apply(users: Iterable[User], folder: Path, url: str) -> bool:
    """Make the users on the server; return whether it keeps them when it starts again.

    Raises ServerError if it refuses.
    """
    with closing(connect(url, "farm-acl")) as client:
        check_server(client, url)
        try:
            for user in users:
                words = user.with_password(password_of(user, folder))
                client.execute_command("ACL", "SETUSER", user.name, *words)
        except RedisError as error:
            raise ServerError(
                f"Redis at {redacted(url)} makes no such user: {error} (needed: Redis or Valkey "
                "7.0, and a user that may use ACL)"
            ) from None
        try:
            client.execute_command("ACL", "SAVE")
        except RedisError:
            return False
        return True


def unlimited(url: str) -> list[str]:
    """Return the settings of a server that bound its clients' answers and memory, and are off.

    What it does not tell us is not among them.
    """
    found: list[str] = []
    with closing(connect(url, "farm-acl")) as client:
        for name, off in UNLIMITED.items():
            with suppress(RedisError):
                if str(client.config_get(name).get(name, "")).startswith(off):
                    found.append(name)
    return found


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
