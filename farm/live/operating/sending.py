"""Writes reports to a farm's streams."""

from __future__ import annotations

import redis

from farm.core.errors import ServerError
from farm.live.redis.connection import SOCKET_TIMEOUT, Connection, redacted
from farm.live.redis.keys import Keys
from farm.live.store.job_reader import JobReader
from farm.live.wire.messages import MessageError, Report, stream_of
from farm.live.wire.reporter import EnvelopeMaker

#: time-out for the server to write submissions to its disk, real seconds
SYNC_TIMEOUT = SOCKET_TIMEOUT - 1.0


class Sender(JobReader):
    """Sends reports under a name."""

    def __init__(self, client: Connection, keys: Keys, url: str, name: str) -> None:
        super().__init__(client, keys, url)
        self._sender = EnvelopeMaker(name)

    def send(self, *reports: Report, sync: bool = False) -> list[str]:
        """Put reports of one kind into their stream; return their places when they are there.

        ``sync``: when they are on the disk.
        """
        if not reports:
            return []
        key = self.keys.stream(stream_of(reports[0]))
        try:
            envelopes = list(self._sender.envelopes(*reports))
        except MessageError as error:
            raise ServerError(f"cannot be sent: {error}") from None
        places = [self._client.xadd(key, {"m": data}) for data in envelopes[:-1]]
        # over one connection: the server waits for the writes of the calling connection
        pipe = self._client.pipeline(transaction=False)
        pipe.xadd(key, {"m": envelopes[-1]})
        if sync:
            pipe.execute_command("WAITAOF", 1, 0, int(SYNC_TIMEOUT * 1000))
        place, *synced = pipe.execute()
        if sync and not synced[0][0]:
            raise ServerError(
                f"Redis at {redacted(self.url)} has the submitted jobs, but has not written them "
                f"to its disk within {SYNC_TIMEOUT:g}s: the loss of power would lose it"
            )
        return [name.decode() for name in (*places, place)]

    def check_sync(self) -> None:
        """Check that the server supports waiting for its disk; raises ServerError."""
        try:
            self._client.execute_command("WAITAOF", 1, 0, 1)
        except redis.ResponseError as error:
            raise ServerError(
                f"Redis at {redacted(self.url)} cannot tell what is on its disk ({error}): "
                "--sync needs Redis 7.2 or Valkey, with appendonly on"
            ) from None
