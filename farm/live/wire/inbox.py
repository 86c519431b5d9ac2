"""The scheduler's inbox: one stream, one reader, each envelope taken in once."""

from __future__ import annotations

import logging

from farm.live.redis.connection import Connection
from farm.live.redis.keys import Keys
from farm.live.wire.messages import Envelope, MessageError, decode_envelope

log = logging.getLogger(__name__)

#: stream entries read at once: bounds how long a batch of decisions can take
AT_ONCE = 100
#: senders that are remembered, to know what they sent twice
MOST_SENDERS = 10_000


class Inbox:
    """Reads envelopes in order and drops those that were sent twice or cannot be understood."""

    def __init__(self, client: Connection, keys: Keys, cursor: str = "0-0") -> None:
        self._client = client
        self._key = keys.inbox
        #: the last entry read
        self.cursor = cursor
        #: messages refused, for metrics and for one warning each kind
        self.refused = 0
        #: what each sender sent last, whoever has been silent longest first
        self._last_seq: dict[tuple[str, str], int] = {}

    def read(self, timeout: float) -> list[Envelope]:
        """Return what came, waiting up to ``timeout`` real seconds; raises redis.RedisError."""
        block = max(1, int(timeout * 1000)) if timeout > 0 else None
        found = self._client.xread({self._key: self.cursor}, count=AT_ONCE, block=block)
        envelopes: list[Envelope] = []
        for _, entries in found or ():
            for entry, fields in entries:
                self.cursor = entry.decode()
                envelope = self._open(fields.get(b"m", b""))
                if envelope is not None and self._is_new(envelope):
                    envelopes.append(envelope)
        return envelopes

    @property
    def taken_at(self) -> float:
        """When the last entry read was written, Unix seconds by the server's clock."""
        return int(self.cursor.partition("-")[0]) / 1000

    def _open(self, data: bytes) -> Envelope | None:
        try:
            return decode_envelope(data)
        except MessageError as error:
            self.refused += 1
            log.warning("refused a report: %s", error)
            return None

    def _is_new(self, envelope: Envelope) -> bool:
        who = (envelope.sender, envelope.life)
        last = self._last_seq.pop(who, 0)
        self._last_seq[who] = max(last, envelope.seq)
        if len(self._last_seq) > MOST_SENDERS:  # every command of an operator is another one
            del self._last_seq[next(iter(self._last_seq))]
        return envelope.seq > last
