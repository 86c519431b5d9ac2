"""One scheduler per farm: a key with a token that its holder keeps refreshing."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import redis

from farm.core.errors import RunError, ServerError
from farm.live.redis.connection import Connection, redacted
from farm.live.redis.keys import Keys

LEASE_TIME = 10.0


class Holder(msgspec.Struct, frozen=True):
    """Who is in charge of a farm."""

    token: str
    machine: str
    pid: int


class Lease:
    """Taken once, refreshed by a thread of its own so that a long decision does not lose it."""

    def __init__(self, client: Connection, keys: Keys, lease_time: float = LEASE_TIME) -> None:
        self._client = client
        self._key = keys.lease
        self._time = lease_time
        self.holder = Holder(uuid.uuid4().hex, socket.gethostname(), os.getpid())
        self._value = msgspec.json.encode(self.holder)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        #: somebody else took over, or the key vanished and could not be taken again
        self.lost = False

    def take(self, url: str) -> None:
        """Take the farm in charge and keep it; raises ServerError if a live one has it."""
        if not self.try_to_take():
            raise ServerError(
                f"Redis at {redacted(url)} already has a farm with a live scheduler"
                f"{self._who()}: stop that one, use another server, or another FARM_PREFIX"
            )

    def try_to_take(self) -> bool:
        """Take the farm in charge if nobody has it; say whether that worked."""
        if not self._take_again():
            return False
        self._thread = threading.Thread(target=self._keep, name="farm-lease", daemon=True)
        self._thread.start()
        return True

    def check(self) -> None:
        """Raise RunError if the farm is not ours any more."""
        if self.lost:
            raise RunError("another scheduler took this farm over: this one stops")

    def release(self) -> None:
        """Stop refreshing and give the farm free if it is still ours."""
        self._stop.set()
        if self._thread is None:
            return
        self._thread.join()
        self._thread = None
        with contextlib.suppress(redis.RedisError):
            self._if_ours(lambda pipe: pipe.delete(self._key))

    def _keep(self) -> None:
        while not self._stop.wait(self._time / 4):
            # a server that is away, or still reads what it had: the next time will tell
            with contextlib.suppress(redis.RedisError):
                self.lost = not (self._refresh() or self._take_again())
                if self.lost:
                    return

    def _refresh(self) -> bool:
        return self._if_ours(lambda pipe: pipe.pexpire(self._key, int(self._time * 1000)))

    def _take_again(self) -> bool:
        # it expired while the server or we were away, and nobody else wanted it
        return bool(self._client.set(self._key, self._value, nx=True, px=int(self._time * 1000)))

    def _if_ours(self, action: Callable[[Any], object]) -> bool:
        with self._client.pipeline() as pipe:
            pipe.watch(self._key)
            if pipe.get(self._key) != self._value:
                return False
            pipe.multi()
            action(pipe)
            # raises WatchError if it was changed just now, or the connection broke just now
            pipe.execute()
        return True

    def _who(self) -> str:
        value = self._client.get(self._key)
        try:
            holder = msgspec.json.decode(value or b"", type=Holder)
        except msgspec.DecodeError:
            return ""
        return f" (process {holder.pid} on {holder.machine})"
