"""Sends reports to one of the scheduler's streams: in order, none lost while this process lives."""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator

import redis

from farm.core.events import JobsSubmitted
from farm.live.redis.connection import Connection, connect
from farm.live.redis.keys import Keys, Stream
from farm.live.wire.messages import UNSTAMPED, VERSION, Beat, Envelope, MessageError, Report, encode
from farm.live.wire.report_checks import MAX_JOBS

log = logging.getLogger(__name__)

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
        MessageError for a single report, or job, that no envelope holds.
        """
        one, *others = reports
        if not others and isinstance(one, JobsSubmitted) and len(one.jobs) > MAX_JOBS:
            yield from self._each(_parts(reports))
            return
        self._seq += 1
        try:
            data = encode(Envelope(VERSION, self.name, self.life, self._seq, reports))
        except MessageError:
            if len(parts := _parts(reports)) < 2:
                raise
            yield from self._each(parts)
        else:
            yield data

    def _each(self, parts: Iterable[tuple[Report, ...]]) -> Iterator[bytes]:
        for part in parts:
            yield from self.envelopes(*part)


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
        #: when sending that envelope began (monotonic seconds); None: nothing is being sent
        self._sending_since: float | None = None
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

    @property
    def stuck_time(self) -> float:
        """Seconds for which the server has not taken what is being sent; 0 if nothing is."""
        since = self._sending_since
        return 0.0 if since is None else time.monotonic() - since

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
            for data in self._envelopes(*batch):
                self._add(data)
            with self._changed:
                self._sending = 0
                self._sending_since = None
                self._changed.notify_all()

    def _envelopes(self, sender: EnvelopeMaker, reports: list[Report]) -> list[bytes]:
        """Return what is sent of these; a report that cannot be sent at all is left out."""
        try:
            return list(sender.envelopes(*reports))
        except MessageError as error:
            if len(reports) > 1:
                return [data for one in reports for data in self._envelopes(sender, [one])]
            self.refused = self.refused or error
            log.warning("a report is left out (%s): %s", type(reports[0]).__name__, error)
            return []

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
            self._sending_since = time.monotonic()
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


def _parts(reports: tuple[Report, ...]) -> list[tuple[Report, ...]]:
    """Return two parts of what is too large for an envelope; one if it cannot be divided."""
    if half := len(reports) // 2:
        return [reports[:half], reports[half:]]
    one = reports[0]
    if isinstance(one, Beat):
        return [(part,) for part in one.halves()]
    if isinstance(one, JobsSubmitted) and len(one.jobs) > 1:
        # as many full ones as there are, then the rest
        half = MAX_JOBS if len(one.jobs) > MAX_JOBS else len(one.jobs) // 2
        return [(JobsSubmitted(UNSTAMPED, jobs),) for jobs in (one.jobs[:half], one.jobs[half:])]
    return [reports]
