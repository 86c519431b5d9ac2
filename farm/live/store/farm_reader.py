"""What a farm that stays up has left in Redis, read by its next scheduler."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from math import inf
from typing import TypeVar

import msgspec

from farm.core.errors import ServerError
from farm.core.state.snapshot import BuilderRecord, JobRecord
from farm.live.clock import MachineClock
from farm.live.redis.connection import Connection, server_time
from farm.live.redis.keys import UNREADABLE, Cursor, Keys, written_at
from farm.live.redis.trouble import PassOverSpoilt
from farm.live.store.saved import Counts, HostLife, Learned, SavedFarm
from farm.live.wire.messages import VERSION, Play

T = TypeVar("T")

_WHAT_TO_DO = (
    "begin afresh (--fresh), restore the server's data from a copy, or use another FARM_PREFIX"
)


class FarmReader:
    """Reads one farm's keys. Calls raise redis.RedisError when the server is away."""

    def __init__(self, client: Connection, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        #: keys of which something could not be read
        self._spoilt: set[str] = set()

    def saved(self) -> SavedFarm | None:
        """Return the saved farm of an earlier scheduler; None if there is none.

        Raises ServerError for a farm of another version.
        """
        keys = self._keys
        pairs = self._client.hgetall(keys.meta).items()
        meta = {name.decode(errors="replace"): value for name, value in pairs}
        if "cursor" not in meta or "counts" not in meta:
            return None
        self._check_whole(meta)
        try:
            at, speed = _number(meta["at"]), _number(meta["speed"])
            cursor = msgspec.json.decode(meta["cursor"], type=Cursor)
            counts = msgspec.json.decode(meta["counts"], type=Counts)
            rules = meta.get("rules", b"").decode()
            age = MachineClock().since(meta.get("clock", b"").decode())
            if age is None:  # since the last report was read, by the server's clock
                read_at = max(map(written_at, cursor.values()), default=0.0)
                age = max(0.0, server_time(self._client) - read_at) if read_at else 0.0
        except (ValueError, *UNREADABLE) as error:
            raise ServerError(f"{keys.meta} cannot be read ({error}): {_WHAT_TO_DO}") from None
        return SavedFarm(
            at=at,
            speed=speed,
            cursor=cursor,
            age=age,
            rules=rules,
            counts=counts,
            jobs=self.jobs(),
            builders=self.builders(),
            lives=self._hash(keys.lives, HostLife),
            wanted=self._hash(keys.wanted, Play),
            requested=self._hash(keys.requested, Play),
            learned=self.learned(),
            spoilt=frozenset(self._spoilt),
        )

    def jobs(self) -> dict[str, JobRecord]:
        """Return the jobs that have not ended, by id."""
        return self._hash(self._keys.jobs, JobRecord)

    def builders(self) -> dict[str, BuilderRecord]:
        """Return the builders that are there, by id."""
        return self._hash(self._keys.builders, BuilderRecord)

    def learned(self) -> Learned:
        """Return what an earlier scheduler knew of the past, if that can be read."""
        with PassOverSpoilt(), contextlib.suppress(*UNREADABLE):
            return msgspec.json.decode(self._client.get(self._keys.learned) or b"{}", type=Learned)
        return Learned()

    def cursor(self) -> Cursor:
        """Return how far the farm's streams were read, if that can be read."""
        with PassOverSpoilt(), contextlib.suppress(*UNREADABLE):
            read = self._client.hget(self._keys.meta, "cursor") or b"{}"
            return msgspec.json.decode(read, type=Cursor)
        return {}

    def _hash(self, key: str, kind: type[T]) -> dict[str, T]:
        """Return what can be read of a hash."""
        pairs, found = dict[bytes, bytes](), dict[str, T]()
        self._spoilt.add(key)
        with PassOverSpoilt():
            pairs = self._client.hgetall(key)
            self._spoilt.discard(key)
        for name, text in pairs.items():
            try:
                found[name.decode()] = msgspec.json.decode(text, type=kind)
            except UNREADABLE:
                self._spoilt.add(key)
        return found

    def _check_whole(self, meta: Mapping[str, bytes]) -> None:
        """Raise ServerError for a farm of another version, or one with something missing."""
        if missing := {"version", "speed", "at"} - set(meta):
            jobs = self._client.hlen(self._keys.jobs)
            raise ServerError(
                f"what is left of the farm in Redis is incomplete: {self._keys.meta} has no "
                f"{' and no '.join(sorted(missing))} (the server was emptied while a farm ran, it "
                f"seems); {jobs:,} of its jobs are there: {_WHAT_TO_DO}"
            )
        version = meta["version"][:20].decode(errors="replace")
        if version != str(VERSION):
            raise ServerError(
                f"the farm in Redis is of version {version!r}, this is version {VERSION}: run the "
                "release that left it, use another FARM_PREFIX, or begin afresh (--fresh)"
            )


def _number(text: bytes) -> float:
    """Return a number that a farm's time, or its speed, can be; raises ValueError."""
    if not 0 <= (value := float(text)) < inf:
        raise ValueError(f"{value:g}")
    return value
