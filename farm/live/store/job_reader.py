"""A farm's keys read from outside: its jobs one by one, in groups, or in order of submission."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeVar

import msgspec

from farm.core.commands import EndJob
from farm.core.errors import InputError, ServerError
from farm.core.state.snapshot import JobRecord
from farm.core.state.working_state import JobStatus
from farm.live.redis.connection import Connection, redacted
from farm.live.redis.keys import UNREADABLE, Keys, job_of_member
from farm.live.store.batch import pieces
from farm.live.store.pages import pages_of
from farm.live.store.saved import Try

T = TypeVar("T")

#: rows per read
AT_ONCE = 500

Group = Literal["blocked", "waiting", "running", "ended"]


KnownJob = JobRecord | EndJob
"""A job as Redis has it: the record of its life, or the line of its end; times are farm seconds."""


def state_of(job: KnownJob) -> str:
    """Return where a job stands: blocked, waiting, dispatched, …, or how it ended."""
    if isinstance(job, EndJob):
        return job.outcome
    return "waiting" if job.status is JobStatus.ARRIVING else job.status.value


class JobReader:
    """Reads the jobs of one farm. Calls raise redis.RedisError when the server is away."""

    def __init__(self, client: Connection, keys: Keys, url: str) -> None:
        self.url = url
        self.keys = keys
        self._client = client

    def known(self, job_ids: Sequence[str]) -> dict[str, bool]:
        """Return which of these ids belong to a job, and whether it has ended."""
        found: dict[str, bool] = {}
        for names in pieces(job_ids, AT_ONCE):
            pipe = self._client.pipeline(transaction=True)
            pipe.hmget(self.keys.jobs, names)
            pipe.hmget(self.keys.results, names)
            live, ended = pipe.execute()
            found |= {n: bool(b) for n, a, b in zip(names, live, ended, strict=True) if a or b}
        return found

    def job(self, job_id: str) -> KnownJob | None:
        """Return one job, live or ended; None: it is not known."""
        return next(self._of_ids([job_id]), None)

    def jobs_of(self, job_ids: Sequence[str]) -> Iterator[KnownJob]:
        """Yield those of these jobs that are known, live or ended."""
        for names in pieces(job_ids, AT_ONCE):
            yield from self._of_ids(names)

    def tries(self, job_id: str) -> list[Try]:
        """Return the void attempts of a job, the oldest first."""
        values = self._client.lrange(self.keys.tries(job_id), 0, -1)
        found = [self._decoded(value, Try) for value in values]
        return list({one.attempt: one for one in found}.values())

    def count_running(self) -> int:
        """Return how many jobs are on builders."""
        return int(self._client.zcard(self.keys.running))

    def jobs(self, group: Group) -> Iterator[KnownJob]:
        """Yield the jobs of a group, read from the server on demand.

        Blocked ones in order of submission, waiting ones platform by platform in policy order (at
        last those that another job's execution serves), running ones by dispatch, ended ones the
        last one first. A job that changes groups may be yielded again in a later one.
        """
        groups = {"blocked": self._blocked, "waiting": self._waiting, "running": self._running}
        return {**groups, "ended": self._ended}[group]()

    def submitted(self, offset: int = 0, after: str | None = None) -> Iterator[KnownJob]:
        """Yield all jobs, live and ended, in the order of their submission.

        That order never changes: whatever the farm does, each job is yielded exactly once
        (in its state at that moment), also by one page after another. ``after``: begin behind this
        job. Raises InputError if it is not known.
        """
        key, score = self.keys.submitted, None
        if after is not None:
            rank = self._client.zrank(key, after)
            if rank is None:
                raise InputError(f"job {after!r} is not known to the farm")
            offset += rank + 1
        pairs = self._client.zrange(key, offset, offset + AT_ONCE - 1, withscores=True)
        while pairs:
            yield from self._of_ids([name for name, _ in pairs])
            score = pairs[-1][1]
            met = {name for name, other in pairs if other == score}
            # by score: ranks change when the oldest jobs are forgotten
            following = self._client.zrange(
                key, score, "+inf", byscore=True, offset=0, num=AT_ONCE + len(met), withscores=True
            )
            pairs = [pair for pair in following if pair[0] not in met]

    def _of_ids(self, names: Sequence[str | bytes]) -> Iterator[KnownJob]:
        pipe = self._client.pipeline(transaction=True)
        for key in (self.keys.jobs, self.keys.results):
            pipe.hmget(key, names)
        for record, end in zip(*pipe.execute(), strict=True):
            if end is not None:
                yield self._decoded(end, EndJob)
            elif record is not None:
                yield self._decoded(record, JobRecord)

    def _waiting(self) -> Iterator[KnownJob]:
        seen: set[str] = set()
        for platform in sorted(
            p.decode(errors="replace") for p in self._client.smembers(self.keys.platforms)
        ):
            key = self.keys.pending(platform)
            first = b"-"
            # by place, not by number: jobs that leave move the others
            while members := self._client.zrangebylex(key, first, b"+", 0, AT_ONCE):
                first = b"(" + members[-1]
                names = [job_of_member(member.decode()) for member in members]
                seen.update(names)
                yield from self._read(self.keys.jobs, names, JobRecord)
        # those that another job's execution serves have no place in a queue
        for name, value in pages_of(self._client, self.keys.jobs):
            if name.decode() not in seen:
                seen.add(name.decode())
                job = self._decoded(value, JobRecord)
                if state_of(job) == "waiting":
                    yield job

    def _blocked(self) -> Iterator[KnownJob]:
        serials: list[tuple[int, str]] = []
        for _, value in pages_of(self._client, self.keys.jobs):
            job = self._decoded(value, JobRecord)
            if job.status is JobStatus.BLOCKED:
                serials.append((job.serial, job.job.id))
        for names in pieces([name for _, name in sorted(serials)], AT_ONCE):
            for job in self._read(self.keys.jobs, names, JobRecord):
                if job.status is JobStatus.BLOCKED:
                    yield job

    def _running(self) -> Iterator[KnownJob]:
        for names in pieces(self._client.zrange(self.keys.running, 0, -1), AT_ONCE):
            yield from self._read(self.keys.jobs, names, JobRecord)

    def _ended(self) -> Iterator[KnownJob]:
        seen: set[bytes] = set()
        last = -1
        while names := self._client.lrange(self.keys.ended, last - AT_ONCE + 1, last):
            last -= AT_ONCE
            fresh = [name for name in reversed(names) if name not in seen]
            seen.update(fresh)
            if fresh:
                yield from self._read(self.keys.results, fresh, EndJob)

    def _read(self, key: str, names: Sequence[str | bytes], kind: type[T]) -> Iterator[T]:
        """Yield the values of a hash that are there."""
        for value in self._client.hmget(key, names):
            if value is not None:
                yield self._decoded(value, kind)

    def _hash(self, key: str, kind: type[T]) -> dict[str, T]:
        return self._values(dict(pages_of(self._client, key)), kind)

    def _values(self, pairs: dict[bytes, bytes], kind: type[T]) -> dict[str, T]:
        return {name.decode(): self._decoded(value, kind) for name, value in pairs.items()}

    def _decoded(self, value: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(value, type=kind)
        except UNREADABLE as error:
            raise ServerError(
                f"the farm at {redacted(self.url)} writes what this side cannot read ({error}): "
                "run the same release of the farm on all sides"
            ) from None
