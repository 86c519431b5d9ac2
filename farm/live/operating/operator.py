"""A live farm seen from outside: what operators ask of it and tell it, over Redis.

Questions are answered from what the scheduler's process publishes; what is told goes into one of
its streams, and is acknowledged when that has it (as durable as the server is).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from itertools import islice
from typing import Literal, Self

import redis

from farm.core.errors import ServerError
from farm.core.events import JobsSubmitted
from farm.core.model import Job
from farm.core.snapshot import BuilderRecord
from farm.live.operating.answers import Answer, Refusal
from farm.live.operating.farm_image import FarmImage
from farm.live.redis.connection import SOCKET_TIMEOUT, Connection, check_server, connect, redacted
from farm.live.redis.keys import Cursor, Keys, written_at
from farm.live.redis.lease import Holder, holder_of
from farm.live.redis.trouble import PassOverSpoilt, Trouble, diagnose, trouble_of
from farm.live.settings import DEFAULT_PREFIX
from farm.live.store.job_reader import JobReader
from farm.live.store.store import Store
from farm.live.wire.dead_letters import DeadLetter, kept
from farm.live.wire.messages import UNSTAMPED, Ask, MessageError, Play, Report, stream_of
from farm.live.wire.pool_report import FarmStatus, HostRecord, PoolReport
from farm.live.wire.sender import Sender

#: a status that is older (real seconds) means that no scheduler is at work
FRESH = 10.0
#: real seconds that an answer of the scheduler's process is waited for
ANSWER_TIMEOUT = 10.0
#: jobs in one envelope: the scheduler takes in one between two looks at reports
SUBMITTED_AT_ONCE = 200
#: real seconds between two looks at how far the scheduler is
CATCH_UP_INTERVAL = 0.05
#: real seconds that the server is asked to wait at once
LONGEST_BLOCK = SOCKET_TIMEOUT / 2
#: real seconds that it may take to bring to its disk what was handed in
SYNC_TIMEOUT = SOCKET_TIMEOUT - 1.0


class NoFarmError(ServerError):
    """A server on which no farm is."""


class FullError(ServerError):
    """A farm that takes no more jobs at the moment."""


class Operator(JobReader):
    """One connection to one farm; use it in a ``with`` block.

    Raises ServerError when the server cannot be used, NoFarmError when no farm is there.
    """

    def __init__(
        self,
        url: str,
        prefix: str = DEFAULT_PREFIX,
        name: str = "farm-operator",
        client: Connection | None = None,
    ) -> None:
        super().__init__(client or connect(url, name), Keys(prefix), url)
        self._sender = Sender(name)

    def __enter__(self) -> Self:
        check_server(self._client, self.url)
        return self

    def __exit__(self, _: object, error: object, __: object) -> None:
        self._client.close()
        if isinstance(error, redis.RedisError):
            trouble = trouble_of(error)
            what = str(error).partition("\n")[0] if trouble is None else trouble.words
            raise ServerError(f"Redis at {redacted(self.url)} cannot be used: {what}") from None

    # --- the farm ---------------------------------------------------------------------------

    def status(self) -> FarmStatus:
        """Return the farm at a glance; raises NoFarmError if there is none."""
        value = self._client.get(self.keys.status)
        if value is None:
            raise NoFarmError(
                f"no farm is running at {redacted(self.url)} under the prefix "
                f"{self.keys.prefix!r}: start one with farm up SCENARIO, or name its server with "
                "--redis URL and its prefix with FARM_PREFIX"
            )
        return self._decoded(value, FarmStatus)

    def trouble(self) -> Trouble | None:
        """Say what is wrong with the server; None: nothing.

        One that is full cannot be told so by its scheduler: whoever looks sees for himself.
        """
        return diagnose(self._client)

    def is_attended(self, status: FarmStatus | None = None) -> bool:
        """Whether a scheduler is at work (its status is fresh)."""
        return time.time() - (status or self.status()).written_at < FRESH

    def is_led(self) -> bool:
        """Whether a scheduler has the farm (one killed on another machine counts for 2 s)."""
        return self.leader() is not None

    def leader(self) -> Holder | None:
        """Return the scheduler that has the farm; None: nobody who is alive, as far as known."""
        return holder_of(self._client.get(self.keys.lease))

    def is_provisioned(self) -> bool:
        """Whether a provisioner's service is at work; see ``is_led``."""
        return holder_of(self._client.get(self.keys.provisioner_lease)) is not None

    def pools(self) -> dict[str, PoolReport]:
        """Return the pools by name."""
        return self._hash(self.keys.pools, PoolReport)

    def hosts(self) -> dict[str, HostRecord]:
        """Return the builder hosts by name."""
        return self._hash(self.keys.hosts, HostRecord)

    def builders(self) -> dict[str, BuilderRecord]:
        """Return the builders that are there, by id."""
        return self._hash(self.keys.builders, BuilderRecord)

    def requested(self) -> dict[str, Play]:
        """Return the builders that hosts of their own are to play and that are not there yet."""
        return self._hash(self.keys.requested, Play)

    def pools_and_requested(self) -> tuple[dict[str, PoolReport], dict[str, Play]]:
        """Return both as they were published together."""
        pipe = self._client.pipeline(transaction=True)
        pipe.hgetall(self.keys.pools)
        pipe.hgetall(self.keys.requested)
        pools, requested = pipe.execute()
        return self._values(pools, PoolReport), self._values(requested, Play)

    def dead_letters(self) -> tuple[list[DeadLetter], dict[str, int]]:
        """Return the messages that were refused last, the newest first, and how many by reason."""
        self.status()
        counts = self._client.hgetall(self.keys.refused).items()
        return kept(self._client, self.keys), {n.decode(): int(count) for n, count in counts}

    def forget_dead_letters(self) -> None:
        """Forget the messages that were refused, and their counts."""
        self._client.delete(self.keys.dead_letters, self.keys.refused)

    def forget_everything(self) -> None:
        """Delete what a farm that is down has left; raises ServerError if it is not down."""
        if self.is_led():
            raise ServerError(
                f"the farm at {redacted(self.url)} has a live scheduler (or it was killed just "
                "now): end it first"
            )
        Store(self._client, self.keys).clear()

    # --- sending ----------------------------------------------------------------------------

    def check_room(self, jobs: int) -> None:
        """Raise FullError if so many more jobs are more than the farm takes now."""
        status = self.status()
        if status.waiting + jobs > status.max_waiting:
            raise FullError(
                f"{status.waiting:,} jobs wait and {jobs:,} more are handed in; allowed: "
                f"{status.max_waiting:,} in all (live.max_waiting). Nothing of it was submitted"
            )
        backlog = self._client.memory_usage(self.keys.stream("submissions")) or 0
        if backlog > status.max_backlog:
            raise FullError(
                f"{backlog:,} bytes of submissions are not taken in yet; allowed: "
                f"{status.max_backlog:,} (live.max_backlog). Nothing of it was submitted"
            )

    def submit(self, jobs: Iterable[Job], *, sync: bool = False) -> int:
        """Hand jobs in; return their number when the farm's server has them all.

        ``sync``: when they are on its disk (``check_sync`` says whether it can tell).
        """
        count = 0
        rest = iter(jobs)
        chunk = tuple(islice(rest, SUBMITTED_AT_ONCE))
        while chunk:
            following = tuple(islice(rest, SUBMITTED_AT_ONCE))
            # the file is written in order: what is there last has all before it
            self.send(JobsSubmitted(UNSTAMPED, chunk), sync=sync and not following)
            count += len(chunk)
            chunk = following
        return count

    def send(self, report: Report, *, sync: bool = False) -> None:
        """Put a report into its stream; returns when it is there (``sync``: on the disk)."""
        key = self.keys.stream(stream_of(report))
        try:
            envelopes = list(self._sender.envelopes(report))
        except MessageError as error:
            raise ServerError(f"cannot be sent: {error}") from None
        for data in envelopes[:-1]:
            self._client.xadd(key, {"m": data})
        # over one connection: the server waits for what came by the one that asks
        pipe = self._client.pipeline(transaction=False)
        pipe.xadd(key, {"m": envelopes[-1]})
        if sync:
            pipe.execute_command("WAITAOF", 1, 0, int(SYNC_TIMEOUT * 1000))
        synced = pipe.execute()[-1]
        if sync and not synced[0]:
            raise ServerError(
                f"Redis at {redacted(self.url)} has what was handed in, but has not brought it to "
                f"its disk within {SYNC_TIMEOUT:g}s: the loss of power would lose it"
            )

    def check_sync(self) -> None:
        """Make sure that the server can tell what is on its disk; raises ServerError."""
        try:
            self._client.execute_command("WAITAOF", 1, 0, 1)
        except redis.ResponseError as error:
            raise ServerError(
                f"Redis at {redacted(self.url)} cannot tell what is on its disk ({error}): "
                "--sync needs Redis 7.2 or Valkey, with appendonly on"
            ) from None

    def ask(
        self, about: Literal["decision", "job"], job: str, timeout: float = ANSWER_TIMEOUT
    ) -> Answer:
        """Ask the scheduler's process; raises ServerError if no answer comes in time."""
        return self._decoded(self._answer_to(about, job, timeout), Answer)

    def catch_up(self) -> None:
        """Return when all jobs handed in so far have been taken in, if a scheduler is at work.

        Raises ServerError if that is not in time.
        """
        if not self.is_attended():
            return
        seconds, micros = self._client.time()
        now, key = seconds + micros / 1e6, self.keys.stream("submissions")
        deadline = time.monotonic() + ANSWER_TIMEOUT
        while self._client.xlen(key) and self._submissions_taken_until() <= now:
            if time.monotonic() > deadline:
                raise ServerError(
                    f"the farm at {redacted(self.url)} has not taken in within "
                    f"{ANSWER_TIMEOUT:g}s what was submitted before: try again later"
                )
            time.sleep(CATCH_UP_INTERVAL)

    def _submissions_taken_until(self) -> float:
        value = self._client.hget(self.keys.meta, "cursor")
        cursor = {} if value is None else self._decoded(value, Cursor)
        return written_at(cursor.get("submissions", "0-0"))

    def image(self, timeout: float = 2 * ANSWER_TIMEOUT) -> FarmImage:
        """Return the whole farm as it stands; raises ServerError if no scheduler answers."""
        self.status()
        return self._decoded(self._answer_to("farm", "", timeout), FarmImage)

    def _answer_to(
        self, about: Literal["decision", "job", "farm"], job: str, timeout: float
    ) -> bytes:
        token = uuid.uuid4().hex
        self.send(Ask(about, job, token))
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            # shorter than the time after which the connection itself is given up
            found = self._client.blpop([self.keys.reply(token)], timeout=min(left, LONGEST_BLOCK))
            if found is not None:
                answer: bytes = found[1]
                if answer.startswith(b'{"refused":'):
                    raise ServerError(self._decoded(answer, Refusal).refused)
                return answer
        raise ServerError(
            f"the farm's scheduler at {redacted(self.url)} did not answer "
            f"within {timeout:g}s: is it running?"
        )

    # --- for a provisioner ------------------------------------------------------------------

    def remembered(self) -> dict[str, bytes]:
        """Return what the pools' provisioner saved, by pool."""
        with PassOverSpoilt():
            pairs = self._client.hgetall(self.keys.provisioner).items()
            return {name.decode(errors="replace"): value for name, value in pairs}
        return {}

    def remember(self, pool: str, value: bytes) -> None:
        """Save what a provisioner wants to know when it starts again."""
        with PassOverSpoilt():
            self._client.hset(self.keys.provisioner, pool, value)
            return
        self._client.delete(self.keys.provisioner)
        self._client.hset(self.keys.provisioner, pool, value)
