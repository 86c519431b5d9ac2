"""The farm's state in Redis, written in one transaction per batch of decisions.

The scheduler's memory decides; this is its mirror, so that all can ask Redis (queue depth
is one ZCARD) and so that a scheduler that starts again finds what it needs.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import islice

import msgspec

from farm.core.commands import EndJob
from farm.core.errors import ServerError
from farm.core.model import Job, Outcome, content_digest
from farm.live.clock import MachineClock
from farm.live.redis.connection import Connection
from farm.live.redis.keys import LAST_ENTRY, UNREADABLE, Cursor, Keys, after, literal
from farm.live.redis.leader_fencing import Fence, LostWritesError, carry_out
from farm.live.redis.trouble import ours_or
from farm.live.store.batch import Batch, LogLines, append_log, pieces
from farm.live.store.log_drain import LogDrain
from farm.live.store.published import Notices
from farm.live.store.saved import STATE_VERSION
from farm.live.wire.dead_letters import DeadLetter, kept, set_aside

#: commits whose lines of the event log are written again in one transaction
LINES_AT_ONCE = 500
#: records of jobs in one answer: with all their attributes each may have 64 kB
RECORDS_AT_ONCE = 250
#: fields of ``meta`` of a farm that stays up
META = len(("version", "speed", "rules", "cursor", "at", "clock", "counts"))


class Store:
    """Reads and writes one farm's keys. Calls raise redis.RedisError when the server is away."""

    def __init__(self, client: Connection, keys: Keys, fence: Fence | None = None) -> None:
        self._client = client
        self._keys = keys
        self._json = msgspec.json.Encoder().encode
        #: what was written once for all
        self._meta: dict[str, str | int] = {}
        #: every change goes through it
        self.fence = fence or Fence(client, keys)
        self.notices = Notices(self.fence, client, keys)
        #: see SavedFarm
        self._spoilt: Collection[str] = ()
        self._clock = MachineClock()
        #: moves what is committed of the event log to the disk; None: there is no log
        self.log_drain: LogDrain | None = None

    # --- writing: the scheduler only --------------------------------------------------------

    def keep_log(self, drain: LogDrain) -> None:
        """Let what is committed of the event log be moved to the disk."""
        self.log_drain = drain

    def commit(self, batch: Batch, cursor: Cursor, at: float) -> None:
        """Write the batch, and the cursor up to which the streams were read, as one transaction.

        Done again after a lost connection, it is done once. Raises DeposedError, LostWritesError.
        """
        if self._spoilt:
            raise LostWritesError(keys=sorted(self._spoilt))
        try:
            self.fence.write(lambda pipe: self._write(pipe, batch, cursor, at), commit=True)
        finally:
            if batch.log:
                self.wake_log()

    def wake_log(self) -> None:
        """Have what is committed of the event log moved soon."""
        if self.log_drain is not None:
            self.log_drain.wake()

    def write_log_again(self, log: Mapping[int, LogLines]) -> None:
        """Append the event log's lines of these commits, which are missing on the server.

        Raises DeposedError, LostWritesError.
        """
        for items in pieces(log.items(), LINES_AT_ONCE):
            self.fence.write(partial(append_log, keys=self._keys, log=dict(items)))

    def look_at_keys(
        self, jobs: int, builders: int, hosts: int, wanted: int = 0, requested: int = 0
    ) -> None:
        """Raise LostWritesError if less is there than was written: a successor would miss it."""
        keys = self._keys
        sizes = {keys.jobs: jobs, keys.builders: builders, keys.lives: hosts, keys.meta: META}
        sizes |= {keys.wanted: wanted, keys.requested: requested}
        # others write it: it is only to be a hash
        sizes[keys.provisioner] = 0

        def fill(pipe: Connection) -> None:
            pipe.hset(keys.meta, mapping=self._meta)  # written once, and only a successor reads it
            for key in sizes:
                pipe.hlen(key)

        found = zip(sizes, self.fence.write(fill)[1:], strict=True)
        if less := [key for key, count in found if count < sizes[key]]:
            raise LostWritesError(keys=less)

    def write_something(self) -> None:
        """Change nothing, but fail where a change would; raises DeposedError."""
        with contextlib.suppress(LostWritesError):  # the next commit will show
            self.fence.write(lambda pipe: pipe.hset(self._keys.meta, mapping=self._meta))

    def restore(
        self,
        batch: Batch,
        ends: Iterable[EndJob],
        cursor: Cursor,
        at: float,
        spoilt: Iterable[str] = (),
    ) -> list[EndJob]:
        """Write the whole farm (``batch``) in the place of what is left; return the lost ends.

        These are of ``ends``. Nothing large is written at once. Hosts are sent nothing twice: what
        lies on their lists may have been obeyed long ago. ``spoilt``: keys of which nothing is
        left. Raises DeposedError if another scheduler has taken charge; LostWritesError.
        """
        keys, stories = self._keys, {self._keys.results, self._keys.ended, self._keys.submitted}
        old = {keys.jobs, keys.running, keys.builders, keys.lives, *spoilt}
        old |= {*map(keys.pending, self._platforms()), *map(keys.host_list, batch.lives)}
        if not stories.isdisjoint(old):  # of no use without each other
            old |= stories
        with self.fence.restoring() as write:
            # until it is written again, a successor finds this farm incomplete
            write(lambda pipe: pipe.unlink(*old).hdel(keys.meta, "version"))
            lost, whole = self._lost(ends), copy(batch)
            whole.ended = {end.job.id: end for end in lost} | batch.ended
            # before all live ones, if their places were lost
            early = {end.job.id: number / len(lost) for number, end in enumerate(lost)}
            whole.submitted = early | batch.submitted
            *large, rest = whole.parts()
            for part in large:
                write(partial(part.write, keys=keys))

            def fill(pipe: Connection) -> None:
                pipe.hset(keys.meta, mapping=self._meta)
                self._write(pipe, rest, cursor, at)
                self.notices.publish_again(pipe)

            write(fill)
        self._spoilt = ()
        self.wake_log()
        return lost

    def _lost(self, ends: Iterable[EndJob]) -> list[EndJob]:
        """Return those of these ends that are not there."""
        lost: list[EndJob] = []
        for some in pieces(ends, RECORDS_AT_ONCE):
            pipe = self._client.pipeline(transaction=False)
            pipe.hmget(self._keys.results, [end.job.id for end in some])
            (found,) = carry_out(pipe)
            lost += [end for end, text in zip(some, found, strict=True) if text is None]
        return lost

    def _write(self, pipe: Connection, batch: Batch, cursor: Cursor, at: float) -> None:
        keys = self._keys
        batch.write(pipe, keys)
        full = [name for name, entry in cursor.items() if entry == LAST_ENTRY]
        if full:  # nothing more can be added there, and all entries were read
            pipe.unlink(*map(keys.stream, full))
            cursor = {name: entry for name, entry in cursor.items() if name not in full}
        meta = {"cursor": self._json(cursor), "at": repr(at), "clock": self._clock.now()}
        pipe.hset(keys.meta, mapping=meta)
        for name, entry in cursor.items():
            pipe.xtrim(keys.stream(name), minid=after(entry), approximate=False)

    def set_aside(self, letter: DeadLetter) -> None:
        """Keep a message that could not be handled, and nothing of what it led to."""
        self.fence.write(lambda pipe: set_aside(pipe, self._keys, [letter], {letter.reason: 1}))

    def unreadable(self) -> set[tuple[str, str]]:
        """Return which messages ended a scheduler, as pairs of stream and entry."""
        letters = kept(self._client, self._keys)
        return {(one.stream, one.entry) for one in letters if one.reason == "error"}

    def take_over(self, speed: float, rules: str, spoilt: Collection[str] = ()) -> None:
        """Let a successor write anew what follows from the rest; ``spoilt``: see SavedFarm."""
        self._meta = _meta(speed) | {"rules": rules}
        self._spoilt = spoilt

        def fill(pipe: Connection) -> None:
            pending = map(self._keys.pending, self._platforms())
            pipe.unlink(self._keys.running, self._keys.platforms, *pending)
            # from here on no earlier release continues it
            pipe.hset(self._keys.meta, mapping=self._meta)

        self.fence.write(fill)

    def open(self, speed: float, *, stays: bool = False) -> None:
        """Begin a fresh farm: forget what an earlier one of this prefix left.

        ``stays``: from here on a successor continues it, including what was submitted before
        the first commit.
        """
        self.clear()
        self._meta = _meta(speed)
        meta: dict[str, object] = dict(self._meta)
        if stays:
            meta |= {"cursor": b"{}", "at": "0.0", "clock": self._clock.now(), "counts": b"{}"}
        self.fence.write(lambda pipe: pipe.hset(self._keys.meta, mapping=meta))

    def clear(self) -> None:
        """Delete every key of this farm but its lease and its fence.

        Raises ServerError, and deletes nothing, if another farm's keys would be among them.
        """
        found = self._client.scan_iter(match=literal(self._keys.prefix) + "*", count=1000)
        ours = list(self._keys.among(found))
        _check_alone(self._client, self._keys, ours)
        kept = {self._keys.lease.encode(), self._keys.fence.encode()}
        names_left = (name for name in ours if name not in kept)

        def drop(client: Connection) -> None:
            client.unlink(*names)

        while names := list(islice(names_left, 500)):
            if self.fence.epoch:  # one that is in charge: if it was deposed, this is another's farm
                self.fence.write(drop)
            else:
                drop(self._client)

    def vanish(self) -> None:
        """Leave a server as it was before this farm came."""
        self.clear()
        self._client.unlink(self._keys.fence)

    # --- reading ------------------------------------------------------------------------------

    def known(self, job_ids: Sequence[str]) -> dict[str, str]:
        """Return the content digests of those jobs that are there, live or ended (if still kept).

        Of what cannot be read it is empty, which is no job's: such an id counts as another job's.
        Raises LostWritesError.
        """
        found: dict[str, str] = {}
        for names in pieces(job_ids, RECORDS_AT_ONCE):
            pipe = self._client.pipeline(transaction=False)
            for key in (self._keys.jobs, self._keys.results):
                pipe.hmget(key, names)
            live, ended = carry_out(pipe)
            records = {name: a or b for name, a, b in zip(names, live, ended, strict=True)}
            found |= {name: _digest_in(record) for name, record in records.items() if record}
        return found

    def outcomes(self, job_ids: Sequence[str]) -> dict[str, Outcome]:
        """Return how those of these jobs ended that have, as far as it is still kept.

        Raises LostWritesError.
        """
        found: dict[str, Outcome] = {}
        for names in pieces(job_ids, RECORDS_AT_ONCE):
            pipe = self._client.pipeline(transaction=False)
            pipe.hmget(self._keys.results, names)
            (ends,) = carry_out(pipe)
            for name, text in zip(names, ends, strict=True):
                with contextlib.suppress(*UNREADABLE):
                    if text is not None:
                        found[name] = msgspec.json.decode(text, type=EndJob).outcome
        return found

    def _platforms(self) -> list[str]:
        names: set[bytes] = ours_or(set(), lambda: self._client.smembers(self._keys.platforms))
        return [name.decode(errors="replace") for name in names]

    def queued_messages(self, hosts: Iterable[str]) -> dict[str, int]:
        """Return how many messages each host has not taken off its list yet."""
        names = list(hosts)
        pipe = self._client.pipeline(transaction=False)
        for name in names:
            pipe.llen(self._keys.host_list(name))
        return dict(zip(names, carry_out(pipe), strict=True))


class _Submitted(msgspec.Struct):
    """What a live job's record and an ended one's have in common."""

    job: Job


def _digest_in(record: bytes) -> str:
    """Return the content digest of a stored job; empty if it cannot be read."""
    with contextlib.suppress(*UNREADABLE):
        return content_digest(msgspec.json.decode(record, type=_Submitted).job)
    return ""


def _meta(speed: float) -> dict[str, str | int]:
    return {"version": STATE_VERSION, "speed": repr(speed)}


def _check_alone(client: Connection, keys: Keys, names: Iterable[bytes]) -> None:
    """Raise ServerError if these are also keys of a farm within a family of this one's.

    Such a farm has hashes that end like its own; no job's or platform's key is a hash.
    """
    own = {key.encode() for key in (keys.meta, keys.fence, f"{keys.provisioner}:fence")}
    for name in names:
        prefix = re.sub(rb"(meta|fence)$", b"", name)
        if prefix != name and name not in own and client.type(name) == b"hash":
            raise ServerError(
                f"the keys of another farm, of the prefix {prefix.decode(errors='replace')!r}, "
                f"may be this one's, of the prefix {keys.prefix!r}: nothing was "
                "deleted; give one of them another FARM_PREFIX"
            )
