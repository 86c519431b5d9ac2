"""Publishes pool reports, hosts, status and answers of a live farm."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import redis

from farm.live.redis.connection import Connection, server_time, time_of
from farm.live.redis.keys import Keys
from farm.live.redis.leader_fencing import Fence, LostWritesError
from farm.live.store.saved import SchedulerMemory
from farm.live.wire.pool_report import FarmStatus, HostRecord, PoolReport

#: real seconds that an answer waits to be fetched
REPLY_TIME = 60
#: … and within which an image is read that another has replaced
READ_TIME = 10
#: bytes of an image that are written, or read, together
PIECE = 1 << 20
#: ended jobs that are deleted per step: a bounded pause
FORGET_AT_ONCE = 1000


class Notices:
    """Each notice is written once; a server that is away misses it (the next one comes soon)."""

    def __init__(self, fence: Fence, client: Connection, keys: Keys) -> None:
        self._fence = fence
        self._client = client
        self._keys = keys
        self._json = msgspec.json.Encoder().encode
        #: what the server's clock shows more than this process's monotonic one, seconds;
        #: None: it has not been asked since the last publication failed
        self._clock_ahead: float | None = None
        #: writes what was published last
        self.publish_again: Callable[[Connection], object] = lambda _: None

    def server_time(self) -> float:
        """Return the time of day by the server's clock (Unix), as the last publication found it.

        It is asked before the first one; 0 if the server is away.
        """
        with contextlib.suppress(redis.RedisError):
            if self._clock_ahead is None:
                self._clock_ahead = server_time(self._client) - time.monotonic()
            return time.monotonic() + self._clock_ahead
        return 0.0

    def publish(
        self, pools: Mapping[str, PoolReport], hosts: Mapping[str, HostRecord], status: FarmStatus
    ) -> None:
        """Replace what was published before, all in one transaction."""
        keys, json = self._keys, self._json

        def fill(pipe: Connection) -> None:
            for key, values in ((keys.pools, pools), (keys.hosts, hosts)):
                pipe.delete(key)
                if values:
                    pipe.hset(key, mapping={name: json(value) for name, value in values.items()})
            pipe.set(keys.status, json(status))

        def fill_and_ask(pipe: Connection) -> None:
            fill(pipe)
            pipe.time()

        self.publish_again = fill
        self._clock_ahead = None
        if answers := self._write(fill_and_ask):
            self._clock_ahead = time_of(answers[-1]) - time.monotonic()

    def reply(self, answer: object, *reply_to: str) -> None:
        """Push the answer to one question, or to several, where the askers wait for it."""
        text = self._json(answer)

        def fill(pipe: Connection) -> None:
            for key in map(self._keys.reply, reply_to):
                pipe.rpush(key, text)
                pipe.expire(key, REPLY_TIME)

        self._write(fill)

    def keep_piece(self, image: str, piece: bytes) -> None:
        """Add to an image of the farm, from any thread; raises redis.RedisError.

        In a list, as the server copies all of a long string to make it longer.
        """
        key = self._keys.image(image)
        self._client.pipeline(transaction=False).rpush(key, piece).expire(key, REPLY_TIME).execute()

    def keep_image(self, image: str, good_for: float, *, before: str) -> None:
        """Keep an image for those named it within ``good_for`` real seconds.

        The one before can be read a little longer.
        """
        lives = {image: int(good_for) + REPLY_TIME, before: READ_TIME}

        def fill(pipe: Connection) -> None:
            for name, life in lives.items():
                pipe.expire(self._keys.image(name), life)

        self._write(fill)

    def keep_learned(self, learned: SchedulerMemory) -> None:
        """Save what the scheduler knows of the past, for the farm's next scheduler."""
        self._write(lambda pipe: pipe.set(self._keys.learned, self._json(learned)))

    def forget_ended(self, keep: int) -> bool:
        """Delete the histories of the jobs that ended longest ago, beyond a number.

        One step; returns whether there may be more to do.
        """
        keys = self._keys
        with contextlib.suppress(redis.RedisError):
            surplus = int(self._client.llen(keys.ended)) - keep
            if surplus > 0:
                count = min(surplus, FORGET_AT_ONCE)
                oldest = self._client.lrange(keys.ended, 0, count - 1)

                def fill(pipe: Connection) -> None:
                    pipe.ltrim(keys.ended, count, -1)
                    pipe.hdel(keys.results, *oldest)
                    pipe.zrem(keys.submitted, *oldest)
                    pipe.unlink(*(keys.tries(name.decode()) for name in oldest))

                self._write(fill)
            return surplus > FORGET_AT_ONCE
        return True

    def _write(self, fill: Callable[[Connection], object]) -> list[Any]:
        """Return the answers; none if it could not be written."""
        # a server that lost what it had is restored by the next commit
        with contextlib.suppress(redis.RedisError, LostWritesError):
            return self._fence.write(fill)
        return []
