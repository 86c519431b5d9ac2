"""Writes that a server has lost: how that is found, what it means, what of it is remembered.

A part of a farm may be lost by itself (keys that were evicted, expired, deleted or renamed). No
commit is missing then, and only a successor would miss what is gone: so its keys have sizes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence

import msgspec

from farm.core.commands import EndJob
from farm.live.redis.connection import Connection
from farm.live.redis.fence import LostWritesError, SpoiltError
from farm.live.redis.keys import Keys
from farm.live.store.batch import Batch
from farm.units import many

#: jobs whose stories are kept for that; who ended earlier is on the disk of any server that saves
REMEMBERED = 20_000
#: commits whose event log lines wait for a disk that cannot take them; then the oldest are lost
MAX_LOG = 20_000
#: ids that one line of the log names
NAMED = 20


class Recent:
    """What the last commits wrote and only the server has for longer; the fence counts commits.

    That is the stories of the jobs that ended last, and the event log's lines until the disk has
    them. ``ends``: of the jobs that ended up to a commit.
    """

    def __init__(self, ends: Collection[EndJob] = (), commit: int = 0) -> None:
        some = ((commit, end) for end in ends)
        self._ends: deque[tuple[int, EndJob]] = deque(some, maxlen=max(REMEMBERED, len(ends)))
        self._lines: deque[tuple[int, bytes]] = deque(maxlen=MAX_LOG)

    def add(self, commit: int, batch: Batch, on_disk: int) -> None:
        """Remember what a commit wrote; ``on_disk``: up to which commit the log is there."""
        self._ends.extend((commit, end) for end in batch.ended.values())
        if lines := batch.log.get(commit):
            self._lines.append((commit, lines))
        while self._lines and self._lines[0][0] <= on_disk:
            self._lines.popleft()

    def lines(self) -> dict[int, bytes]:
        """Return lines of the event log that may not be on disk, by their commits."""
        return dict(self._lines)

    def lost(self, error: LostWritesError, commits: int) -> list[EndJob]:
        """Return those that the server has lost, given the farm's number of commits."""
        kept = 0 if error.commits is None else commits - error.commits
        return [end for commit, end in self._ends if commit > kept]


def named(jobs: Sequence[str]) -> str:
    """Return how many jobs these are, and the names of some."""
    names = ", ".join(jobs[:NAMED])
    more = f" and {len(jobs) - NAMED:,} more" if len(jobs) > NAMED else ""
    return many(len(jobs), "job") + (f" ({names}{more})" if jobs else "")


def message_of(error: LostWritesError, *, live: int, again: list[EndJob], ended: int) -> str:
    """Report what was lost, and the consequences.

    ``live``: jobs that have not ended; ``again``: ended ones whose stories are written once more;
    ``ended``: how many have ended in all.
    """
    ends = named([end.job.id for end in again])
    what = f"{error}: {live:,} live jobs are written anew, and the stories of {ends} that had ended"
    gone = ended - len(again)
    if error.commits is None and gone > 0:
        what += f"; those of {gone:,} jobs that ended earlier are gone"
    if isinstance(error, SpoiltError):
        return what
    return f"{what}; submissions since its last save that had not been read are lost, too"


class Sizes(msgspec.Struct, frozen=True):
    """The numbers of live and running jobs, builders, hosts, and waiting jobs by platform."""

    jobs: int
    running: int
    builders: int
    #: of a long-running farm
    hosts: int
    waiting: dict[str, int]


class KeySizes:
    """Asks for the sizes of a farm's keys; ``meta``: the expected number of fields there."""

    def __init__(self, keys: Keys, sizes: Sizes, meta: int) -> None:
        self._keys = keys
        waiting = {keys.pending(name): count for name, count in sizes.waiting.items() if count}
        hashes = {keys.jobs: sizes.jobs, keys.builders: sizes.builders, keys.meta: meta}
        hashes[keys.lives] = sizes.hosts
        hashes |= dict.fromkeys((keys.results, keys.wanted, keys.requested, keys.refused), 0)
        sets = waiting | {keys.running: sizes.running, keys.submitted: min(1, sizes.jobs)}
        self._asked = [("HLEN", key) for key in hashes] + [("ZCARD", key) for key in sets]
        self._asked += [("SCARD", keys.platforms), ("LLEN", keys.ended)]
        self._asked += [("LLEN", keys.dead_letters), ("XLEN", keys.log)]
        self._least = hashes | sets | {keys.platforms: len(waiting)}

    def fill(self, pipe: Connection) -> None:
        """Put the questions into a pipeline: one of them fails for a key of another type."""
        for words in self._asked:
            pipe.execute_command(*words)

    def incomplete(self, answers: Sequence[int]) -> list[str]:
        """Return the keys with missing entries."""
        keys = self._keys
        found = {key: count for (_, key), count in zip(self._asked, answers, strict=True)}
        less = [key for key, count in self._least.items() if found[key] < count]
        return less + (
            [keys.results, keys.ended] if found[keys.ended] and not found[keys.results] else []
        )
