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
    "+get", "+exists", "+hget", "+hlen", "+hmget", "+hscan", "+llen",
    "+lrange", "+smembers", "+xlen", "+zcard", "+zrange", "+zrangebylex", "+zrank", "+zscore",
)  # fmt: skip

#: taking, renewing and releasing a lease
HOLDING = ("+set", "+getex", "+setrange", "+pttl", "+del", "+hset", "+watch")

#: stands for a host's name in the keys of a user that may play any host
ANY_HOST = "*"


class Grant(msgspec.Struct, frozen=True):
    """Commands, and the keys on which they may be used, without the farm's prefix."""

    commands: tuple[str, ...]
    keys: tuple[str, ...]
    #: how they may be used: %R, %W; nothing: both
    access: str = ""


class Role(msgspec.Struct, frozen=True):
    """The permissions of one kind of process or person."""

    about: str
    #: a command is allowed if one of these allows it, with all its keys
    grants: tuple[Grant, ...]


#: what people look at: neither Celery's keys, nor other programs' messages that are not of jobs
SHOWN = (
    "meta", "platforms", "pending:*", "jobs", "running", "builders", "results", "ended",
    "submitted", "tries:*", "pools", "requested", "hosts", "status", "learned", "lease",
    "provisioner", "provisioner:lease", "dead-letters", "refused", "submissions", "image:*",
)  # fmt: skip
LOOK = Grant((*READING, "+memory|usage"), SHOWN, "%R")
#: an answer is taken off its list, on which only the scheduler may put something
ASK = (Grant(("+xadd",), ("questions",), "%W"), Grant(("+blpop",), ("reply:*",)))
HAND_IN = Grant(("+xadd",), ("submissions",), "%W")

ROLES: dict[str, Role] = {
    "reader": Role("looks: farm status, jobs, job, builders, pools, status --save", (LOOK, *ASK)),
    "submitter": Role("a reader who hands jobs in: farm submit, retry", (LOOK, *ASK, HAND_IN)),
    "operator": Role(
        "a submitter who changes things: farm cancel, drain, set, admin dead-letters --clear",
        (
            LOOK,
            *ASK,
            HAND_IN,
            Grant(("+xadd",), ("requests",), "%W"),
            Grant(("+del",), ("dead-letters", "refused")),
        ),
    ),
    "builder": Role(
        "a builder host: reports, and takes commands from its own list",
        (
            Grant(("+xadd",), ("reports",), "%W"),
            Grant(("+brpop", "+llen", "+unlink"), ("celery:host.{host}",)),
        ),
    ),
    "provisioner": Role(
        "python -m provisioner",
        (
            LOOK,
            Grant(("+xadd",), ("plans",), "%W"),
            # small ones, read together at one instant
            Grant(("+hgetall",), ("pools", "requested", "hosts"), "%R"),
            Grant((*READING, "+hgetall", *HOLDING), ("provisioner", "provisioner:*")),
        ),
    ),
    "scheduler": Role(
        "farm admin scheduler, farm run: everything of this farm, and nothing else",
        (Grant(("+@read", "+@write"), patterns()),),
    ),
    # by name alone: see BY_NAME
    "keda": Role(
        "KEDA's trigger redis, which counts a queue by a script; it can stop the server by one",
        (Grant(("+eval", "+type", "+zcard"), ("pending:*",)),),
    ),
    "admin": Role("the server itself", (Grant(("+@all",), ("*",)),)),
}


#: roles that are made by name only: the one may do everything, the other run scripts,
#: which the server does not end by itself
BY_NAME = ("admin", "keda")


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


def user_of(keys: Keys, role: str, host: str = ANY_HOST, database: int = 0) -> User:
    """Return the user of a role on a farm; ``host``: of a builder, whose name alone it can use.

    ``database``: where the farm is; if that is 0, the user can use no other. Raises InputError for
    a role that there is not, or a name that no user can have.
    """
    if role not in ROLES:
        raise InputError(f"--role: found {role!r}; allowed: {', '.join(ROLES)}")
    if host != ANY_HOST and not re.fullmatch(r"[\w.-]+", host):
        raise InputError(f"--host: found {host!r}; allowed: letters, digits, dots, dashes")
    farm = re.sub(r"[^\w.-]+", "-", keys.prefix).strip("-") or "farm"
    name = f"{farm}-{role}{'' if host == ANY_HOST else f'-{host}'}"
    every = role == "admin"
    first, *more = (
        (
            *(
                f"{one.access}~{'' if every else literal(keys.prefix)}{key.format(host=host)}"
                for key in one.keys
            ),
            "-@all",
            *one.commands,
        )
        for one in ROLES[role].grants
    )
    # a client of database 0 selects none; one of another must, and could then select any
    common = () if every else (*COMMON, *(["-select"] if database == 0 else []))
    # what an access list calls selectors
    selectors = (f"({' '.join(words)})" for words in more)
    return User(name=name, role=role, rules=(*first, *common, *selectors))
