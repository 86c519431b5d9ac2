"""A live farm seen from outside: what operators ask of it and tell it, over Redis.

Questions are answered from what the scheduler's process publishes; what is told goes into its
inbox, and is acknowledged when the inbox has it (as durable as the server is).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import msgspec
import redis

from farm.core.commands import EndJob
from farm.core.errors import ServerError
from farm.core.model import Job
from farm.live.answers import Answer
from farm.live.connection import check_server, connect, redacted
from farm.live.image import FarmImage
from farm.live.keys import Keys
from farm.live.messages import VERSION, Ask, Envelope, MessageError, Play, Report, Submit, encode
from farm.live.ordering import job_of_member
from farm.live.pool_report import FarmStatus, HostRecord, PoolReport
from farm.live.settings import DEFAULT_PREFIX
from farm.live.store import Attempt, BuilderRecord, Store

T = TypeVar("T")

#: jobs in one message, and rows read from the server at once
AT_ONCE = 500
#: a status that is older (real seconds) means that no scheduler is at work
FRESH = 10.0

Group = Literal["waiting", "running", "ended"]


class LiveJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as a listing knows it; times are farm seconds."""

    job: Job
    #: waiting, dispatched, running, cancelling, or how it ended
    state: str
    attempt: Attempt | None = None
    end: EndJob | None = None


class NoFarmError(ServerError):
    """A server on which no farm is."""


class Operator:
    """One connection to one farm; use it in a ``with`` block.

    Raises ServerError when the server cannot be used, NoFarmError when no farm is there.
    """

    def __init__(self, url: str, prefix: str = DEFAULT_PREFIX, name: str = "farm-operator") -> None:
        self.url = url
        self.keys = Keys(prefix)
        self._client = connect(url, name)
        self._sender = f"operator-{uuid.uuid4().hex[:12]}"
        self._seq = 0

    def __enter__(self) -> Self:
        check_server(self._client, self.url)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()
        if isinstance(error, redis.RedisError):
            what = str(error).partition("\n")[0]
            raise ServerError(f"Redis at {redacted(self.url)} cannot be used: {what}") from None

    # --- the farm ---------------------------------------------------------------------------

    def status(self) -> FarmStatus:
        """Return the farm at a glance; raises NoFarmError if there is none."""
        value = self._client.get(self.keys.status)
        if value is None:
            raise NoFarmError(
                f"no farm is running at {redacted(self.url)}: start one with farm up SCENARIO "
                "(or name its server with --redis URL)"
            )
        return self._decoded(value, FarmStatus)

    def is_attended(self, status: FarmStatus | None = None) -> bool:
        """Whether a scheduler is at work (its status is fresh)."""
        return time.time() - (status or self.status()).written_at < FRESH

    def is_provisioned(self) -> bool:
        """Whether a provisioner's service is at work (one that was killed counts for 10 s)."""
        return bool(self._client.exists(self.keys.provisioner_lease))

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

    def forget_everything(self) -> None:
        """Delete what a farm that is down has left; raises ServerError if it is not down."""
        if self._client.exists(self.keys.lease):
            raise ServerError(
                f"the farm at {redacted(self.url)} has a live scheduler (or it was killed just "
                "now): end it first"
            )
        Store(self._client, self.keys).clear()

    # --- telling ----------------------------------------------------------------------------

    def submit(self, jobs: Iterable[Job]) -> int:
        """Hand jobs in; return their number when the inbox has them all."""
        count = 0
        rest = iter(jobs)
        while chunk := tuple(islice(rest, AT_ONCE)):
            self.tell(Submit(chunk))
            count += len(chunk)
        return count

    def tell(self, *reports: Report) -> None:
        """Put reports into the scheduler's inbox, together; returns when they are there."""
        if not reports:
            return
        self._seq += 1
        envelope = Envelope(VERSION, self._sender, "operator", self._seq, reports)
        try:
            data = encode(envelope)
        except MessageError as error:
            raise ServerError(f"cannot be sent: {error}") from None
        self._client.xadd(self.keys.inbox, {"m": data})

    def ask(self, about: Literal["decision", "job"], job: str, timeout: float = 5.0) -> Answer:
        """Ask the scheduler's process; raises ServerError if no answer comes in time."""
        token = uuid.uuid4().hex
        self.tell(Ask(about, job, token))
        found = self._client.blpop([self.keys.reply(token)], timeout=timeout)
        if found is None:
            raise ServerError(
                f"the farm's scheduler at {redacted(self.url)} did not answer "
                f"within {timeout:g} s: is it running?"
            )
        return self._decoded(found[1], Answer)

    def image(self, timeout: float = 15.0) -> FarmImage:
        """Return the whole farm as it stands; raises ServerError if no scheduler answers."""
        self.status()
        token = uuid.uuid4().hex
        self.tell(Ask("farm", "", token))
        found = self._client.blpop([self.keys.reply(token)], timeout=timeout)
        if found is None:
            raise ServerError(
                f"the farm's scheduler at {redacted(self.url)} did not answer "
                f"within {timeout:g} s: is it running?"
            )
        return self._decoded(found[1], FarmImage)

    def statistics(self) -> dict[str, Any] | None:
        """Return what an earlier scheduler's runtime estimator had learned, if it was saved."""
        value = self._client.get(self.keys.statistics)
        return None if value is None else self._decoded(value, dict[str, Any])

    # --- jobs -------------------------------------------------------------------------------

    def known(self, job_ids: Sequence[str]) -> set[str]:
        """Return which of these ids belong to a job, live or ended."""
        found: set[str] = set()
        for first in range(0, len(job_ids), AT_ONCE):
            names = job_ids[first : first + AT_ONCE]
            pipe = self._client.pipeline(transaction=False)
            pipe.hmget(self.keys.jobs, names)
            pipe.hmget(self.keys.results, names)
            live, ended = pipe.execute()
            found.update(n for n, a, b in zip(names, live, ended, strict=True) if a or b)
        return found

    def job(self, job_id: str) -> LiveJob | None:
        """Return one job, live or ended; None: nobody knows it."""
        pipe = self._client.pipeline(transaction=True)
        for key in (self.keys.jobs, self.keys.attempts, self.keys.results):
            pipe.hget(key, job_id)
        job, attempt, end = pipe.execute()
        if end is not None:
            return _ended(self._decoded(end, EndJob))
        if job is None:
            return None
        on = None if attempt is None else self._decoded(attempt, Attempt)
        return LiveJob(job=self._decoded(job, Job), state=_state(on), attempt=on)

    def jobs(self, group: Group) -> Iterator[LiveJob]:
        """Yield the jobs of a group, read from the server as they are asked for.

        Waiting ones platform by platform in policy order, running ones by dispatch, ended ones
        the last one first.
        """
        return {"waiting": self._waiting, "running": self._running, "ended": self._ended}[group]()

    def _waiting(self) -> Iterator[LiveJob]:
        for platform in sorted(p.decode() for p in self._client.smembers(self.keys.platforms)):
            key = self.keys.pending(platform)
            first = 0
            while members := self._client.zrange(key, first, first + AT_ONCE - 1):
                first += AT_ONCE
                names = [job_of_member(member.decode()) for member in members]
                for value in self._client.hmget(self.keys.jobs, names):
                    if value is not None:
                        yield LiveJob(job=self._decoded(value, Job), state="waiting")

    def _running(self) -> Iterator[LiveJob]:
        attempts = self._hash(self.keys.attempts, Attempt)
        order = sorted(attempts.values(), key=lambda a: (a.dispatched_at, a.job))
        for first in range(0, len(order), AT_ONCE):
            some = order[first : first + AT_ONCE]
            values = self._client.hmget(self.keys.jobs, [attempt.job for attempt in some])
            for attempt, value in zip(some, values, strict=True):
                if value is not None:
                    job = self._decoded(value, Job)
                    yield LiveJob(job=job, state=_state(attempt), attempt=attempt)

    def _ended(self) -> Iterator[LiveJob]:
        seen: set[bytes] = set()
        last = -1
        while names := self._client.lrange(self.keys.ended, last - AT_ONCE + 1, last):
            last -= AT_ONCE
            fresh = [name for name in reversed(names) if name not in seen]
            seen.update(fresh)
            if fresh:
                for value in self._client.hmget(self.keys.results, fresh):
                    if value is not None:
                        yield _ended(self._decoded(value, EndJob))

    # --- for a provisioner ------------------------------------------------------------------

    def remembered(self) -> dict[str, bytes]:
        """Return what the pools' provisioner saved, by pool."""
        pairs = self._client.hgetall(self.keys.provisioner).items()
        return {name.decode(): value for name, value in pairs}

    def remember(self, pool: str, value: bytes) -> None:
        """Save what a provisioner wants to know when it starts again."""
        self._client.hset(self.keys.provisioner, pool, value)

    def _hash(self, key: str, kind: type[T]) -> dict[str, T]:
        return self._values(self._client.hgetall(key), kind)

    def _values(self, pairs: dict[bytes, bytes], kind: type[T]) -> dict[str, T]:
        return {name.decode(): self._decoded(value, kind) for name, value in pairs.items()}

    def _decoded(self, value: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(value, type=kind)
        except msgspec.DecodeError as error:
            raise ServerError(
                f"the farm at {redacted(self.url)} writes what this side cannot read ({error}): "
                "run the same release of the farm on all sides"
            ) from None


def _state(attempt: Attempt | None) -> str:
    if attempt is None:
        return "waiting"
    if attempt.cancelling:
        return "cancelling"
    return "dispatched" if attempt.started_at is None else "running"


def _ended(end: EndJob) -> LiveJob:
    return LiveJob(job=end.job, state=end.outcome, end=end)
