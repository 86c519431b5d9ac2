"""A blocking read that waits on the server while its client does other things."""

from __future__ import annotations

import select
import time
from collections.abc import Iterable
from typing import Any

import redis

from farm.live.redis.connection import SOCKET_TIMEOUT, Connection

#: real seconds for which the server waits for something to read, before it says that there is none
BLOCK = 5.0


class PendingRead:
    """One ``XREAD BLOCK``, on a connection of its own, that is waited for in several pieces.

    The server looks at its time-outs ten times a second only; here a wait ends when it should, or
    when something else is to be done, and the read stays. It keeps a connection of the client's
    pool while it waits.
    """

    def __init__(self, client: Connection) -> None:
        self._client = client
        self._connection: Any = None
        self._words: tuple[Any, ...] = ()
        self._sent_at = 0.0

    def wait(
        self, streams: dict[str, str], count: int, timeout: float, *also: Any
    ) -> list[Any] | None:
        """Return what ``xread`` returns of these streams; None: nothing came in time.

        The wait ends after ``timeout`` real seconds, and when one of ``also`` becomes readable.
        Raises redis.RedisError.
        """
        wanted = (count, "BLOCK", int(BLOCK * 1000), "STREAMS", *streams, *streams.values())
        words = ("XREAD", "COUNT", *wanted)
        if words != self._words:
            self.close()
        try:
            if self._connection is None:
                self._connection = self._client.connection_pool.get_connection()
                self._connection.send_command(*words)
                self._words, self._sent_at = words, time.monotonic()
            if self._is_answered(timeout, also):
                found = self._client.parse_response(self._connection, "XREAD")
                self._release()
                return found or None  # an empty answer is none
        except BaseException:
            self.close()
            raise
        return None

    def _is_answered(self, timeout: float, also: Iterable[Any]) -> bool:
        socket = self._connection._sock
        if socket is None:
            raise redis.ConnectionError("the connection was closed")
        poll = select.poll()  # select would refuse a descriptor from 1024 on
        for one in (socket, *also):
            poll.register(one, select.POLLIN)
        if any(ready == socket.fileno() for ready, _ in poll.poll(max(0.0, timeout) * 1000)):
            return True
        if time.monotonic() > self._sent_at + BLOCK + SOCKET_TIMEOUT:
            raise redis.TimeoutError("the server does not answer")
        return False

    @property
    def is_pending(self) -> bool:
        """Whether a read has been sent and not been answered."""
        return self._connection is not None

    def close(self) -> None:
        """Give up what was sent; nothing has been taken off a stream."""
        if self._connection is not None:
            self._connection.disconnect()
            self._release()

    def _release(self) -> None:
        self._client.connection_pool.release(self._connection)
        self._connection, self._words = None, ()
