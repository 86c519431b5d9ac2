"""Sends reports to one of the scheduler's streams: in order, none lost while this process lives."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections import deque
from collections.abc import Iterator

import redis

from farm.core.events import JobsSubmitted
from farm.live.redis.connection import Connection, connect
from farm.live.redis.keys import Keys, Stream
from farm.live.wire.messages import (
    UNSTAMPED,
    VERSION,
    Beat,
    Envelope,
    MessageError,
    Report,
    TooLargeError,
    encode,
)
from farm.live.wire.report_checks import MAX_JOBS

#: reports in one envelope
AT_ONCE = 500


class EnvelopeMaker:
    """Makes envelopes of reports, in order; ``life`` is a name that cannot be guessed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.life = secrets.token_hex(16)
        self._seq = 0

    def envelopes(self, *reports: Report) -> Iterator[bytes]:
        """Yield these reports in as few envelopes as the bounds allow.

        Jobs submitted together stay together if there are no more than MAX_JOBS of them. Raises
        TooLargeError for a single report, or job, that no envelope holds.
        """
        if len(reports) == 1 and _jobs_of(reports[0]) > MAX_JOBS:
            yield from self._halved(reports)
            return
        self._seq += 1
        try:
            data = encode(Envelope(VERSION, self.name, self.life, self._seq, reports))
        except TooLargeError:
            if len(reports) == 1 and _jobs_of(reports[0]) < 2:
                raise
            yield from self._halved(reports)
        else:
            yield data

    def _halved(self, reports: tuple[Report, ...]) -> Iterator[bytes]:
        half = len(reports) // 2
        if half:
            yield from self.envelopes(*reports[:half])
            yield from self.envelopes(*reports[half:])
        elif isinstance(one := reports[0], JobsSubmitted):
            # as many full ones as there are, then the rest
            half = MAX_JOBS if len(one.jobs) > MAX_JOBS else len(one.jobs) // 2
            yield from self.envelopes(JobsSubmitted(UNSTAMPED, one.jobs[:half]))
            yield from self.envelopes(JobsSubmitted(UNSTAMPED, one.jobs[half:]))


class Reporter:
    """One thread that writes what ``put`` is given, trying again while the server is away.

    A heartbeat is an ordinary report at its place in the order, so what it says about the
    attempts held agrees exactly with the reports before it; of several unsent ones one is kept.
    """

    def __init__(self, url: str, keys: Keys, sender: str, stream: Stream = "reports") -> None:
        self._client: Connection = connect(url, f"farm-{sender}")
        self._key = keys.stream(stream)
        self._sender = EnvelopeMaker(sender)
        #: the first report that could not be sent at all (too large)
        self.refused: MessageError | None = None
        self._queue: deque[Report] = deque()
        self._beat_queued = False
        self._changed = threading.Condition()
        #: reports in the envelope that is being sent
        self._sending = 0
        #: tries to send that failed, and were made again
        self.failures = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="farm-reporter", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def put(self, report: Report) -> None:
        """Queue one report."""
        with self._changed:
            if isinstance(report, Beat):
                # the one that says good-bye is never left out: it says what others cannot
                if self._beat_queued and not report.leaving:
                    return
                self._beat_queued = True
            self._queue.append(report)
            self._changed.notify_all()

    def new_life(self) -> None:
        """Throw away what is queued and speak as another life from now on."""
        with self._changed:
            self._queue.clear()
            self._beat_queued = False
            self._sender = EnvelopeMaker(self._sender.name)

    @property
    def life(self) -> str:
        """The name of this life of the sender; see Envelope."""
        return self._sender.life

    @property
    def waiting(self) -> int:
        """How many reports are not in the inbox yet."""
        with self._changed:
            return len(self._queue) + self._sending

    def flush(self, timeout: float) -> bool:
        """Wait until everything queued is in the inbox; False if it is not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue and not self._sending, timeout)

    def close(self, timeout: float) -> bool:
        """Flush, then stop; False if something could not be sent in time."""
        done = self.flush(timeout) if self._thread.is_alive() else not self._queue
        with self._changed:
            self._closing.set()
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)
        self._client.close()
        return done

    def _run(self) -> None:
        with contextlib.suppress(redis.RedisError):
            self._client.ping()  # connect now: the first report must not wait for it
        while (batch := self._next_batch()) is not None:
            sender, reports = batch
            try:
                for data in sender.envelopes(*reports):
                    self._add(data)
            except MessageError as error:
                self.refused = self.refused or error
            with self._changed:
                self._sending = 0
                self._changed.notify_all()

    def _next_batch(self) -> tuple[EnvelopeMaker, list[Report]] | None:
        """Return what is to be sent together, and as which life."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing.is_set())
            if not self._queue:
                return None
            reports: list[Report] = []
            while self._queue and len(reports) < AT_ONCE:
                if reports and isinstance(self._queue[0], JobsSubmitted):
                    break  # submissions are large: one an envelope
                reports.append(self._queue.popleft())
                if isinstance(reports[-1], JobsSubmitted):
                    break
                if isinstance(reports[-1], Beat):
                    self._beat_queued = False
            self._sending = len(reports)
            return self._sender, reports

    def _add(self, data: bytes) -> None:
        pause = 0.02
        while True:
            try:
                self._client.xadd(self._key, {"m": data})
            except redis.RedisError:
                # whatever is wrong with the server, it may recover
                self.failures += 1
                if self._closing.wait(pause):
                    return
                pause = min(2 * pause, 0.25)
                with contextlib.suppress(redis.RedisError):
                    self._client.connection_pool.disconnect()
            else:
                return


def _jobs_of(report: Report) -> int:
    return len(report.jobs) if isinstance(report, JobsSubmitted) else 0
