"""Permissions on a shared server: one user for each role, as Redis access control lists.

A role's rights are data: commands, and the keys that it may read and write. What is written to the
scheduler has a stream for each role, which only that role may write and only the scheduler
may read. What a role could do in spite of this is in SECURITY.md.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from farm.core.errors import InputError
from farm.live.redis.keys import Keys, literal, patterns

#: what every connection needs; `-@dangerous` takes away what looks at, or ends, those of others
COMMON = ("+@connection", "+@transaction", "-@dangerous", "+info", "+time")
READING = (
    "+get", "+getrange", "+exists", "+hget", "+hgetall", "+hkeys", "+hlen", "+hmget", "+llen",
    "+lrange", "+smembers", "+xlen", "+zcard", "+zrange", "+zrangebylex", "+zrank", "+zscore",
)  # fmt: skip

#: stands for a host's name in the keys of a user that may play any host
ANY_HOST = "*"


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """The permissions of one kind of process or person; keys are without the farm's prefix."""

    about: str
    commands: tuple[str, ...]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    #: read and written
    owns: tuple[str, ...] = ()


#: what people look at: neither Celery's keys, nor other programs' messages that are not of jobs
SHOWN = (
    "meta", "platforms", "pending:*", "jobs", "running", "builders", "results", "ended",
    "submitted", "tries:*", "pools", "requested", "hosts", "status", "learned", "lease",
    "provisioner", "provisioner:lease", "dead-letters", "refused", "submissions", "image:*",
)  # fmt: skip
_READER = Role(
    about="looks: farm status, jobs, job, builders, pools, explain, snapshot",
    commands=(*READING, "+xadd", "+blpop"),
    reads=SHOWN,
    writes=("questions",),
    owns=("reply:*",),
)

ROLES: dict[str, Role] = {
    "reader": _READER,
    "submitter": msgspec.structs.replace(
        _READER,
        about="a reader who hands jobs in: farm submit, load, retry",
        commands=(*_READER.commands, "+memory|usage"),
        writes=(*_READER.writes, "submissions"),
    ),
    "operator": msgspec.structs.replace(
        _READER,
        about="a submitter who changes things: farm cancel, drain, undrain, dead-letters --clear",
        commands=(*_READER.commands, "+memory|usage", "+del"),
        writes=(*_READER.writes, "submissions", "requests"),
        owns=(*_READER.owns, "dead-letters", "refused"),
    ),
    "builder": Role(
        about="a builder host: reports, and takes commands from its own list",
        commands=("+xadd", "+brpop", "+llen", "+unlink"),
        writes=("reports",),
        owns=("celery:host.{host}",),
    ),
    "provisioner": Role(
        about="python -m provisioner",
        commands=(*READING, "+xadd", "+set", "+setrange", "+pttl", "+del", "+hset"),
        reads=SHOWN,
        writes=("plans",),
        owns=("provisioner", "provisioner:*"),
    ),
    "scheduler": Role(
        about="farm admin scheduler, farm run: everything of this farm, and nothing else",
        commands=("+@read", "+@write"),
        owns=patterns(),
    ),
    "admin": Role(about="the server itself", commands=("+@all",), owns=("*",)),
}


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user of the server: a role on one farm; ``rules`` are words of ACL SETUSER."""

    name: str
    role: str
    rules: tuple[str, ...]

    def with_password(self, password: str) -> tuple[str, ...]:
        """Return all ACL words that define this user from scratch.

        The password is in them as its SHA-256, so that they can be kept and shown.
        """
        hashed = hashlib.sha256(password.encode()).hexdigest()
        return ("reset", "on", f"#{hashed}", *self.rules)


def user_of(keys: Keys, role: str, host: str = ANY_HOST) -> User:
    """Return the user of a role on a farm; ``host``: of a builder, whose name alone it can use.

    Raises InputError for a role that there is not, or a name that no user can have.
    """
    if role not in ROLES:
        raise InputError(f"--role: found {role!r}; allowed: {', '.join(ROLES)}")
    if host != ANY_HOST and not re.fullmatch(r"[\w.-]+", host):
        raise InputError(f"--host: found {host!r}; allowed: letters, digits, dots, dashes")
    name = f"{_farm_of(keys)}-{role}{'' if host == ANY_HOST else f'-{host}'}"
    rights = ROLES[role]
    every = role == "admin"
    patterns = [
        f"{access}~{'' if every else literal(keys.prefix)}{key.format(host=host)}"
        for access, found in (("%R", rights.reads), ("%W", rights.writes), ("", rights.owns))
        for key in found
    ]
    common = () if every else COMMON
    return User(name=name, role=role, rules=(*patterns, "-@all", *rights.commands, *common))


def _farm_of(keys: Keys) -> str:
    """Return what the names of a farm's users begin with."""
    return re.sub(r"[^\w.-]+", "-", keys.prefix).strip("-") or "farm"
