"""A client of a live farm, for operators and provisioners, over Redis.

Questions are answered from what the scheduler's process publishes; reports are written to one of
its streams, and are acknowledged when they are stored there (as durably as the server stores).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Literal, Self

import redis

from farm.core.errors import InputError, ServerError
from farm.core.events import JobsSubmitted
from farm.core.model import Job
from farm.core.state.snapshot import BuilderRecord
from farm.live.operating.answers import Answer, FarmImage, Forecasts, ImageName, Refusal
from farm.live.redis.connection import (
    SOCKET_TIMEOUT,
    Connection,
    check_server,
    connect,
    redacted,
    server_time,
)
from farm.live.redis.keys import Cursor, Keys, place_of, written_at
from farm.live.redis.leader_fencing import charge_at
from farm.live.redis.lease_states import Holder, holder_of
from farm.live.redis.trouble import Trouble, diagnose, ours_or, unusable_server
from farm.live.settings import DEFAULT_PREFIX
from farm.live.store.job_reader import JobReader
from farm.live.store.pages import pages_of
from farm.live.store.saved import other_release
from farm.live.store.store import Store
from farm.live.wire.dead_letters import DeadLetter, kept
from farm.live.wire.messages import UNSTAMPED, Ask, MessageError, Play, Report, stream_of
from farm.live.wire.pool_report import FarmStatus, HostRecord, PoolReport
from farm.live.wire.reporter import EnvelopeMaker
from farm.units import many

#: an older status (real seconds) means that no scheduler is running
FRESH = 10.0
#: time-out for an answer of the scheduler's process, real seconds
ANSWER_TIMEOUT = 10.0
#: … for the server to write submissions to its disk
SYNC_TIMEOUT = SOCKET_TIMEOUT - 1.0
#: jobs per envelope: the scheduler reads one envelope between two reads of reports
SUBMITTED_AT_ONCE = 200
#: real seconds between checks of the scheduler's progress
CATCH_UP_INTERVAL = 0.05
#: real seconds per call that waits for the server
LONGEST_BLOCK = SOCKET_TIMEOUT / 2


class NoFarmError(ServerError):
    """A server without a farm."""


class FullError(ServerError):
    """A farm that accepts no more jobs at the moment."""


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


class FarmClient(Sender):
    """One connection to one farm; use it in a ``with`` block.

    ``any_release``: also if its data are of a release that this one does not know. Raises
    ServerError when the server cannot be used, NoFarmError when no farm is there.
    """

    def __init__(
        self,
        url: str,
        prefix: str = DEFAULT_PREFIX,
        name: str = "farm-operator",
        client: Connection | None = None,
        *,
        any_release: bool = False,
    ) -> None:
        super().__init__(client or connect(url, name), Keys(prefix), url, name)
        self._any_release = any_release
        #: where the jobs stand that were submitted
        self._submitted: list[str] = []

    def __enter__(self) -> Self:
        check_server(self._client, self.url)
        if not self._any_release:
            self._check_release()
        return self

    def _check_release(self) -> None:
        """Raise ServerError if the farm is of a release whose data this one does not know."""
        version: bytes | None = ours_or(None, lambda: self._client.hget(self.keys.meta, "version"))
        if version is not None and (release := other_release(version)):
            raise ServerError(
                f"the farm at {redacted(self.url)} is run by {release}: use the same release of "
                "the farm on all sides"
            )

    def __exit__(self, _: object, error: object, __: object) -> None:
        self._client.close()
        if isinstance(error, redis.RedisError):
            raise unusable_server(self.url, error) from None

    # --- the farm ---------------------------------------------------------------------------

    def status(self) -> FarmStatus:
        """Return the farm's status; raises NoFarmError if there is none."""
        value = self._client.get(self.keys.status)
        if value is None:
            raise NoFarmError(
                f"no farm is running at {redacted(self.url)} under the prefix "
                f"{self.keys.prefix!r}, or it is still starting: start one with farm up SCENARIO, "
                "or name its server with --redis URL and its prefix with FARM_PREFIX"
            )
        return self._decoded(value, FarmStatus)

    def trouble(self) -> Trouble | None:
        """Return the server's trouble; None if there is none.

        The scheduler cannot publish that the server is full, so it is checked here.
        """
        return diagnose(self._client)

    def is_attended(self, status: FarmStatus | None = None) -> bool:
        """Return whether a scheduler is running (its status is recent)."""
        return self.age(status or self.status()) < FRESH

    def age(self, status: FarmStatus) -> float:
        """Return how long ago the status was written, real seconds, by the server's clock."""
        return max(0.0, server_time(self._client) - status.written_at)

    def is_led(self) -> bool:
        """Return whether a scheduler is in charge (one killed elsewhere counts for 2 s)."""
        return self.leader() is not None

    def leader(self) -> Holder | None:
        """Return the scheduler in charge; None if none is known to be alive."""
        return holder_of(self._client.get(self.keys.lease))

    def commits(self) -> int:
        """Return how many commits of the farm's schedulers the server has."""
        return charge_at(self._client, self.keys.fence).commits

    def is_provisioned(self) -> bool:
        """Return whether a provisioner's service is running; see ``is_led``."""
        return holder_of(self._client.get(self.keys.provisioner_lease)) is not None

    def pools(self) -> dict[str, PoolReport]:
        """Return the pools by name."""
        return self._hash(self.keys.pools, PoolReport)

    def hosts(self) -> dict[str, HostRecord]:
        """Return the builder hosts by name."""
        return self._hash(self.keys.hosts, HostRecord)

    def builders(self) -> dict[str, BuilderRecord]:
        """Return the present builders, by id."""
        return self._hash(self.keys.builders, BuilderRecord)

    def to_provision(self) -> tuple[dict[str, PoolReport], dict[str, Play], dict[str, HostRecord]]:
        """Return the pools, the builders that separate hosts are to play, and the builder hosts."""
        pipe = self._client.pipeline(transaction=True)
        for key in (self.keys.pools, self.keys.requested, self.keys.hosts):
            pipe.hgetall(key)
        pools, requested, hosts = pipe.execute()
        values = self._values
        return values(pools, PoolReport), values(requested, Play), values(hosts, HostRecord)

    def dead_letters(self) -> tuple[list[DeadLetter], dict[str, int]]:
        """Return the last refused messages, newest first, and their number by reason."""
        self.status()
        counts = dict(pages_of(self._client, self.keys.refused)).items()
        return kept(self._client, self.keys), {n.decode(): int(count) for n, count in counts}

    def forget_dead_letters(self) -> None:
        """Delete the refused messages and their counts."""
        self._client.delete(self.keys.dead_letters, self.keys.refused)

    def forget_everything(self) -> None:
        """Delete the data of a stopped farm; raises ServerError if it is not stopped."""
        if self.is_led():
            raise ServerError(
                f"the farm at {redacted(self.url)} has a live scheduler (or it was killed just "
                "now): end it first"
            )
        Store(self._client, self.keys).clear()

    # --- sending ----------------------------------------------------------------------------

    def check_room(self, jobs: int) -> None:
        """Raise FullError if the farm cannot accept this many more jobs now."""
        status = self.status()
        if status.waiting + status.blocked + jobs > status.max_waiting:
            raise FullError(
                f"{status.waiting:,} jobs wait and {jobs:,} more are submitted; allowed: "
                f"{status.max_waiting:,} in all (live.max_waiting). Nothing of it was submitted"
            )
        backlog = self._client.memory_usage(self.keys.stream("submissions")) or 0
        if backlog > status.max_backlog:
            raise FullError(
                f"{backlog:,} bytes of submissions are not read yet; allowed: "
                f"{status.max_backlog:,} (live.max_backlog). Nothing of it was submitted"
            )

    def submit(self, jobs: Iterable[Job], *, sync: bool = False) -> int:
        """Submit jobs; return their number when the farm's server has stored them all.

        ``sync``: when they are on its disk (``check_sync`` checks that the server supports this).
        """
        count = 0
        rest = iter(jobs)
        chunk = tuple(islice(rest, SUBMITTED_AT_ONCE))
        while chunk:
            following = tuple(islice(rest, SUBMITTED_AT_ONCE))
            # the file is written in order: the last entry implies all before it
            report = JobsSubmitted(UNSTAMPED, chunk)
            self._submitted += self.send(report, sync=sync and not following)
            count += len(chunk)
            chunk = following
        return count

    def check_accepted(self) -> str:
        """Wait until the scheduler has read what was submitted here; return why it has not.

        Empty: it has, and has accepted all of it. Raises InputError if it has refused any job.
        """
        if why := self.not_read():
            return why
        if refused := self.refused():
            count = sum(letter.jobs for letter in refused)
            raise InputError(
                f"the farm has refused {many(count, 'job')} of those that were submitted: "
                f"{refused[-1].why} (farm admin dead-letters shows them)"
            )
        return ""

    def not_read(self) -> str:
        """Wait until the scheduler has read what was submitted here; return why it has not.

        As long as it reads submissions it is waited for, also while these are not the next ones.
        """
        if not self._submitted:
            return ""
        if not self.is_attended():
            return "the farm's scheduler has not reported lately"
        last = place_of(self._submitted[-1])
        read = self._submissions_read()
        while place_of(read) < last:
            before, read = read, self._read_after(read)
            if read == before:
                return f"the farm's scheduler has read no submissions for {ANSWER_TIMEOUT:g}s"
        return ""

    def refused(self) -> list[DeadLetter]:
        """Return what was refused of that, the newest first."""
        ours, letters = set(self._submitted), kept(self._client, self.keys)
        return [one for one in letters if one.stream == "submissions" and one.entry in ours]

    def ask(
        self, about: Literal["decision", "job"], job: str, timeout: float = ANSWER_TIMEOUT
    ) -> Answer:
        """Ask the scheduler's process; raises ServerError on a time-out."""
        return self._decoded(self._answer_to(Ask(about, job, new_token()), timeout), Answer)

    def forecasts(self, jobs: Sequence[str], timeout: float = ANSWER_TIMEOUT) -> Forecasts:
        """Ask the scheduler's process when jobs start; raises ServerError on a time-out."""
        question = Ask("forecasts", "", new_token(), tuple(jobs))
        return self._decoded(self._answer_to(question, timeout), Forecasts)

    def catch_up(self) -> None:
        """Wait until all jobs submitted so far have been read, if a scheduler is running.

        Raises ServerError on a time-out.
        """
        if not self.is_attended():
            return
        now, key = server_time(self._client), self.keys.stream("submissions")

        def caught_up() -> bool:
            return not self._client.xlen(key) or written_at(self._submissions_read()) > now

        if not _comes_true(caught_up, ANSWER_TIMEOUT):
            raise ServerError(
                f"the farm at {redacted(self.url)} has not read within {ANSWER_TIMEOUT:g}s what "
                "was submitted before: try again later"
            )

    def _read_after(self, before: str) -> str:
        """Wait until more submissions were read than up to this entry; return the last one."""
        _comes_true(lambda: self._submissions_read() != before, ANSWER_TIMEOUT)
        return self._submissions_read()

    def _submissions_read(self) -> str:
        """Return the last entry of the submissions that was read."""
        value = self._client.hget(self.keys.meta, "cursor")
        return "0-0" if value is None else self._decoded(value, Cursor).get("submissions", "0-0")

    def image(self, timeout: float = 2 * ANSWER_TIMEOUT) -> FarmImage:
        """Return an image of the whole farm; raises ServerError if no scheduler answers."""
        self.status()
        name = self._decoded(
            self._answer_to(Ask("farm", "", new_token()), timeout), ImageName
        ).image
        key, pieces = self.keys.image(name), list[bytes]()
        while found := self._client.lrange(key, len(pieces), len(pieces)):
            pieces += found
        if not pieces:
            raise ServerError("the farm's image is gone already: ask again")
        return self._decoded(b"".join(pieces), FarmImage)

    def _answer_to(self, question: Ask, timeout: float) -> bytes:
        token = question.reply_to
        self.send(question)
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            # shorter than the time after which the connection itself is given up
            found = self._client.blpop([self.keys.reply(token)], timeout=min(left, LONGEST_BLOCK))
            if found is not None:
                answer: bytes = found[1]
                if refused := self._decoded(answer, Refusal).refused:
                    raise ServerError(refused)
                return answer
        raise ServerError(
            f"the farm's scheduler at {redacted(self.url)} did not answer "
            f"within {timeout:g}s: is it running?"
        )

    # --- for a provisioner ------------------------------------------------------------------

    def remembered(self) -> dict[str, bytes]:
        """Return the provisioner's saved memory, by pool."""
        pairs = pages_of(self._client, self.keys.provisioner)
        return {name.decode(errors="replace"): value for name, value in pairs}

    def remember(self, pool: str, value: bytes) -> None:
        """Save a provisioner's memory for its next start."""
        self._client.hset(self.keys.provisioner, pool, value)


def new_token() -> str:
    """Return a name under which an answer is fetched."""
    return uuid.uuid4().hex


def _comes_true(there: Callable[[], bool], timeout: float) -> bool:
    """Wait for a condition, at most so long (real seconds); return whether it holds."""
    deadline = time.monotonic() + timeout
    while not there():
        if time.monotonic() > deadline:
            return False
        time.sleep(CATCH_UP_INTERVAL)
    return True
