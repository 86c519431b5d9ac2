"""Temporary troubles of the farm's Redis server: none of them ends a long-running farm.

What is wrong with a command itself is no trouble of the server's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
import redis

from farm.core.errors import RunError, ServerError
from farm.live.redis.connection import Connection, redacted

log = logging.getLogger("farm.server")

D = TypeVar("D")
T = TypeVar("T")
#: for rooms that may not see redis
RedisError = redis.RedisError

#: real seconds that the server may be gone from a single run
MAX_ABSENCE = 30.0
#: real seconds between two attempts at a call, which double: a server that only restarts is met at
#: once, and one that is away for long is not kept busy by all who call it
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5

KINDS: dict[str, str] = {
    "gone": "it does not answer",
    "clients": "it has as many connections as it may (maxclients), and refuses new ones",
    "refused": "it refuses the user or password",
    "denied": "this user may not do that: its role does not allow it, or its access list is old",
    "loading": "it is still loading its data",
    "busy": "it is busy with a script",
    "read-only": "it takes no writes: it is a replica, or has too few of them",
    "memory": "it is full: it uses all the memory that it may (maxmemory)",
    "disk": "it cannot write to its disk (full, or failing), and refuses what is new",
}
"""Every kind of trouble, with its description."""

TOO_MANY_CLIENTS = "max number of clients"
#: words with which a server answers, and what they mean; looked for in this order
_ANSWERS = {
    "NOAUTH": "refused",
    "WRONGPASS": "refused",
    "NOPERM": "denied",
    "LOADING": "loading",
    "BUSY ": "busy",
    "READONLY": "read-only",
    "NOREPLICAS": "read-only",
    "UNBLOCKED": "read-only",
    "MASTERDOWN": "read-only",
    "OOM ": "memory",
    "MISCONF": "disk",
}
#: redis-py takes those words away and raises these instead; the special ones first
_TYPES: dict[type[redis.RedisError], str] = {
    redis.AuthenticationError: "refused",
    redis.exceptions.AuthorizationError: "refused",
    redis.exceptions.NoPermissionError: "denied",
    redis.BusyLoadingError: "loading",
    redis.ReadOnlyError: "read-only",
    redis.exceptions.MasterDownError: "read-only",
    redis.OutOfMemoryError: "memory",
    redis.ConnectionError: "gone",
    redis.TimeoutError: "gone",
}


class Trouble(msgspec.Struct, frozen=True):
    """A trouble of a server."""

    #: one of KINDS
    kind: str
    #: the answer of the server, or the network
    details: str = ""

    @property
    def words(self) -> str:
        """A description, as part of a sentence."""
        return f"{KINDS[self.kind]} ({self.details})" if self.details else KINDS[self.kind]


def trouble_of(error: redis.RedisError) -> Trouble | None:
    """Return the trouble behind an error; None if it is not the server's."""
    answer = str(error).partition("\n")[0]
    # a pipeline's error repeats its command, with all that jobs brought along
    answer = answer.rpartition("of pipeline caused error: ")[2][:200]
    kinds = (kind for one, kind in _TYPES.items() if isinstance(error, one))
    kind = next(kinds, None)
    if TOO_MANY_CLIENTS in answer:  # redis-py takes it for a broken connection
        kind = "clients"
    if kind is None and isinstance(error, redis.ResponseError):
        kind = next((known for word, known in _ANSWERS.items() if word in answer), None)
    return None if kind is None else Trouble(kind, answer)


def unusable_server(url: str, error: redis.RedisError) -> ServerError:
    """Return the error of a command whose server cannot be used."""
    trouble = trouble_of(error)
    what = _refusal(error) if trouble is None else trouble.words
    return ServerError(f"Redis at {redacted(url)} cannot be used: {what}")


def _refusal(error: redis.RedisError) -> str:
    """Return why a server refuses a call although it is in no trouble, as part of a sentence."""
    answer = str(error).partition("\n")[0]
    if "WRONGTYPE" in answer:
        return (
            "a key of the farm holds what this release does not write: another release of the "
            "farm, or another program, uses these keys; run the same release on all sides, or use "
            "another FARM_PREFIX"
        )
    return answer


def ours_or(default: D, ask: Callable[[], T]) -> T | D:
    """Return the server's answer, or the default where it refuses for what a key holds.

    What such a key holds is not ours: another program wrote it, or another release.
    """
    try:
        return ask()
    except redis.ResponseError as error:
        if not is_spoilt(error):
            raise
        return default


def is_spoilt(error: object) -> bool:
    """Return whether a server refuses a command for what a key holds."""
    return isinstance(error, redis.ResponseError) and trouble_of(error) is None


def trouble_in(info: Mapping[str, Any]) -> Trouble | None:
    """Return the trouble that a server has by its answer to INFO; it may answer reads all the same.

    (A snapshot that failed counts only where there is no append-only file.)
    """
    if info.get("loading"):
        return Trouble("loading")
    if info.get("role") == "slave":
        return Trouble("read-only", "it is a replica")
    last_write = "aof_last_write_status" if info.get("aof_enabled") else "rdb_last_bgsave_status"
    if info.get(last_write, "ok") != "ok":
        return Trouble("disk", f"{last_write}: {info[last_write]}")
    limit, used = info.get("maxmemory", 0), info.get("used_memory", 0)
    if limit and used >= limit and info.get("maxmemory_policy") == "noeviction":
        return Trouble("memory", f"{used:,} of {limit:,} bytes")
    return None


def diagnose(client: Connection) -> Trouble | None:
    """Ask a server for its trouble; None if there is none."""
    try:
        return trouble_in(client.info())
    except redis.RedisError as error:
        return trouble_of(error) or Trouble("gone", str(error).partition("\n")[0])


class ServerCalls:
    """Makes calls; while the server is in trouble nothing else is done or decided.

    It may be gone for ``limit`` real seconds at a stretch (None: forever): they count from the
    first call that it did not answer, and anew once it has answered with another trouble. All
    others are waited out: an operator has to end them. ``wait`` pauses, and returns True if a stop
    was requested.
    """

    def __init__(
        self,
        limit: float | None,
        wait: Callable[[float], bool],
        well_again: Callable[[], object] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        #: what is wrong with the server now, as far as a call has met it; safe from any thread
        self.trouble: Trouble | None = None
        self._limit = limit
        self._wait = wait
        self._well_again = well_again
        self._monotonic = monotonic
        #: when the trouble began, of whatever kinds, and when the present kind of it did
        self._began = 0.0
        self._kind_began = 0.0

    def __call__(self, action: Callable[[], T]) -> T:
        """Return what the action returns; raises RunError if it cannot be waited for."""
        pause = FIRST_PAUSE
        while True:
            try:
                done = action()
            except RedisError as error:
                self._meet(error)
                if self._wait(pause):
                    what = "stopped while there was trouble with the Redis server"
                    raise RunError(f"{what}: {self.trouble and self.trouble.words}") from None
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                self._end_trouble()
                return done

    def _meet(self, error: RedisError) -> None:
        """Note a trouble; raises RunError for one that is none, or lasts too long."""
        trouble = trouble_of(error)
        if trouble is None:
            raise RunError(f"the Redis server refuses calls: {_refusal(error)}") from None
        if self.trouble is None or self.trouble.kind != trouble.kind:
            log.error("trouble with the Redis server, work pauses: %s", trouble.words)
            self._kind_began = self._monotonic()
        if self.trouble is None:
            self._began = self._kind_began
        self.trouble = trouble
        lasted = self._monotonic() - self._kind_began
        if trouble.kind == "gone" and self._limit is not None and lasted > self._limit:
            raise RunError(
                f"the Redis server has been gone for {self._limit:g}s ({trouble.details}): "
                "the run cannot continue"
            ) from None

    def _end_trouble(self) -> None:
        if self.trouble is not None:
            lasted = self._monotonic() - self._began
            log.warning("the Redis server is well again after %.1fs: work continues", lasted)
            self.trouble = None
            self._well_again()
