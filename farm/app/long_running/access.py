"""The users of a shared server: made from roles, with passwords in files, written or applied."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from farm.core.errors import InputError, ServerError
from farm.live.redis.connection import check_server, connect, database_of, redacted
from farm.live.redis.keys import Keys
from farm.live.redis.roles import ANY_HOST, User, user_of
from farm.live.redis.trouble import RedisError


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
