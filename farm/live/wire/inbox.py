"""The scheduler's inbox: one stream per role, one reader, each envelope read once.

Reports do not wait behind submissions: a turn takes in either what there is of everything else,
or one envelope of submissions, and the two kinds of turn alternate.
"""

from __future__ import annotations

import select
import time
from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
import redis

from farm.live.redis.connection import SOCKET_TIMEOUT, Connection
from farm.live.redis.keys import LAST_ENTRY, STREAMS, Cursor, Keys, Stream, place_of, written_at
from farm.live.redis.leader_fencing import LostWritesError
from farm.live.redis.trouble import RedisError, is_spoilt, ours_or
from farm.live.wire.dead_letters import DeadLetter, Reason, Refusals, shown
from farm.live.wire.messages import Envelope, MessageError, Report, decode_envelope
from farm.live.wire.report_checks import flaw_of_envelope
from farm.processes.signals import Wake

#: entries per read of a stream, which limits how long a batch of decisions takes
AT_ONCE = 100
#: senders that are remembered, to know what they sent twice
MOST_SENDERS = 10_000
#: real seconds for which the server waits for something to read, before it says that there is none
BLOCK = 5.0
#: a read that waited so long (real seconds) found all that there was: the next one may wait at once
REST = 0.1

URGENT: tuple[Stream, ...] = tuple(name for name in STREAMS if name != "submissions")

Found = list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes] | None]]]]
"""New entries by their streams' keys, each with its id and its fields, as redis-py returns them."""


class StreamReads:
    """Reads of streams, on a connection of their own; one that waits does so in several pieces.

    The server looks at its time-outs ten times a second only; here a wait ends when it should, or
    when something else is to be done, and the read (``XREAD BLOCK``) stays. The connection is one
    of the client's pool, and is kept: to return it and take it again costs as much as a read.
    """

    def __init__(self, client: Connection) -> None:
        self._client = client
        self._connection: Any = None
        #: the read that waits at the server, and when it was sent; none: empty
        self._words: tuple[object, ...] = ()
        self._sent_at = 0.0

    def now(self, streams: dict[str, str], count: int) -> Found | None:
        """Return what is new in these streams without waiting; None: nothing.

        Raises redis.RedisError.
        """
        if self._words:
            self.close()
        with self._closed_by_errors():
            self._send("XREAD", "COUNT", count, "STREAMS", *streams, *streams.values())
            return self._answer()

    def wait(
        self, streams: dict[str, str], count: int, timeout: float, *also: object
    ) -> Found | None:
        """Return what is new in these streams; None: nothing came in time.

        The wait ends after ``timeout`` real seconds, and when one of ``also`` becomes readable.
        Raises redis.RedisError.
        """
        wanted = (count, "BLOCK", int(BLOCK * 1000), "STREAMS", *streams, *streams.values())
        words = ("XREAD", "COUNT", *wanted)
        if self._words and words != self._words:
            self.close()
        with self._closed_by_errors():
            if not self._words:
                self._send(*words)
                self._words, self._sent_at = words, time.monotonic()
            if not self._is_answered(timeout, also):
                return None
            self._words = ()
            return self._answer()

    @contextmanager
    def _closed_by_errors(self) -> Iterator[None]:
        try:
            yield
        except redis.ResponseError:  # an answer, so that the connection is sound
            raise
        except BaseException:
            self.close()
            raise

    def _send(self, *words: object) -> None:
        if self._connection is None:
            self._connection = self._client.connection_pool.get_connection()
        self._connection.send_command(*words)

    def _answer(self) -> Found | None:
        found: Found = self._client.parse_response(self._connection, "XREAD")
        return found or None  # an empty answer is none

    def _is_answered(self, timeout: float, also: Iterable[object]) -> bool:
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
        return bool(self._words)

    def close(self) -> None:
        """Give up what was sent; nothing has been taken off a stream."""
        self._words = ()
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.disconnect()
            self._client.connection_pool.release(connection)


class InboxEntry(msgspec.Struct, frozen=True, gc=False):
    """An envelope and where it stood."""

    stream: Stream
    id: str
    envelope: Envelope[Report]
    data: bytes = b""

    def refused(self, reason: Reason, why: str, text: str = "", jobs: int = 1) -> DeadLetter:
        """Return what is kept of it, or of the part of it that is this text."""
        kept = text or shown(self.data)
        return DeadLetter(self.stream, self.id, reason, why, self.envelope.sender, kept, jobs)


class Inbox:
    """Reads envelopes in order and drops those that were sent twice or cannot be believed.

    Of the stream ``reports`` those that were sent twice are dropped by ``Hosts``, which knows from
    which life of its host each is.

    Args:
        cursor: the last entries read by an earlier scheduler.
        set_aside: entries that are not read again, as pairs of stream and id.
    """

    def __init__(
        self,
        client: Connection,
        keys: Keys,
        cursor: Cursor | None = None,
        set_aside: Container[tuple[str, str]] = (),
    ) -> None:
        self._client = client
        self._streams = {keys.stream(name).encode(): name for name in STREAMS}
        self._keys = {name: keys.stream(name) for name in STREAMS}
        #: the last entry read of each stream
        self.cursor: Cursor = dict.fromkeys(STREAMS, "0-0") | (cursor or {})
        #: what is refused is collected there
        self.refusals = Refusals()
        self._set_aside = set_aside
        #: the last envelope of each sender, the longest silent first; the roster knows hosts
        self._last_seq: dict[tuple[Stream, str, str], int] = {}
        #: the last turn left submissions out
        self._owed = False
        #: when the oldest report of the last turn was written (Unix); None: there was none
        self.oldest: float | None = None
        #: reports may have been there that the last turn did not read
        self.is_behind = False
        #: the last turn found something, so that there may be more
        self._found_some = True
        self._reads = StreamReads(client)
        #: entries per read of a stream: fewer after one that broke, as its answer may have been
        #: larger than the server lets a client's be
        self._at_once = AT_ONCE
        #: set from another thread, or a signal handler, it ends a read that waits
        self.wake = Wake()

    def read(self, timeout: float, *, submissions: bool = True) -> list[InboxEntry]:
        """Return what came, waiting up to ``timeout`` real seconds.

        Submissions are left where they are if the farm takes none at the moment. Raises
        LostWritesError, redis.RedisError.
        """
        self.oldest = None
        self.is_behind = self._owed  # such a turn reads one report at most
        if not self._owed and self._found_some:
            urgent = self._read(URGENT, self._at_once, 0.0)
            if urgent is not None:
                self._owed = True
                return urgent
        self._owed = False
        began = time.monotonic()
        found = self._read(STREAMS if submissions else URGENT, 1, timeout)
        self._found_some = found is not None and time.monotonic() < began + REST
        return found or []

    def begin_again(self, cursor: Cursor) -> Cursor:
        """Return the cursor for a server that lost what it had; from now on it is read from there.

        Streams may be new, and what is added to them may come before the old cursor: the server's
        clock may be behind. What was read already is dropped, as what is sent twice.
        """
        new: Cursor = {}
        for name, key in self._keys.items():
            last = ours_or(None, partial(self._client.xrevrange, key, count=1))
            if last is None:
                continue
            if not last or place_of(last[0][0].decode()) <= place_of(self.cursor[name]):
                new[name] = "0-0"
        self.cursor |= new
        return cursor | new

    def _read(
        self, names: Collection[Stream], count: int, timeout: float
    ) -> list[InboxEntry] | None:
        """Return what is new in these streams; None: nothing at all."""
        for name, entry in self.cursor.items():
            if entry == LAST_ENTRY:  # the stream was removed when that was committed
                self.cursor[name] = "0-0"
        cursors = {self._keys[name]: self.cursor[name] for name in names}
        try:
            found = self._xread(cursors, count, timeout)
        except RedisError as error:
            if not is_spoilt(error):
                self._at_once = max(1, self._at_once // 2)
                raise
            kinds = {key: self._client.type(key) for key in self._keys.values()}
            not_ours = [key for key, kind in kinds.items() if kind not in (b"stream", b"none")]
            raise LostWritesError(keys=not_ours) from None
        self._at_once = min(AT_ONCE, 2 * self._at_once)
        return self._entries(found, count) if found else None

    def _xread(self, cursors: dict[str, str], count: int, timeout: float) -> Found | None:
        if timeout <= 0 and not self._reads.is_pending:
            return self._reads.now(cursors, count)
        found = self._reads.wait(cursors, count, timeout, self.wake)
        self.wake.clear()
        return found

    def _entries(self, found: Found, count: int) -> list[InboxEntry]:
        entries: list[InboxEntry] = []
        for key, rows in found:
            stream = self._streams[key]
            if stream == "reports":
                self.oldest = written_at(rows[0][0].decode())
                self.is_behind = self.is_behind or len(rows) == count
            for name, fields in rows:
                self.cursor[stream] = name.decode()
                entry = self._open(stream, name.decode(), fields or {})
                if entry is not None:
                    entries.append(entry)
        return entries

    def _open(self, stream: Stream, name: str, fields: dict[bytes, bytes]) -> InboxEntry | None:
        if (stream, name) in self._set_aside:
            return None
        data = fields.get(b"m", b"")
        try:
            envelope = decode_envelope(data, stream)
        except MessageError as error:
            self.refusals.add(DeadLetter(stream, name, error.reason, str(error), "", shown(data)))
            return None
        entry = InboxEntry(stream, name, envelope, data)
        if (flaw := flaw_of_envelope(envelope)) is not None:
            self.refusals.add(entry.refused("out-of-bounds", flaw))
            return None
        return entry if stream == "reports" or self._is_new(stream, envelope) else None

    def _is_new(self, stream: Stream, envelope: Envelope[Report]) -> bool:
        who = (stream, envelope.sender, envelope.life)
        last = self._last_seq.pop(who, 0)
        self._last_seq[who] = max(last, envelope.seq)
        if len(self._last_seq) > MOST_SENDERS:  # every command of an operator is another one
            del self._last_seq[next(iter(self._last_seq))]
        return envelope.seq > last
