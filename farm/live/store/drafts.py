"""Large keys that are rewritten: beside the ones that they replace, in pieces, then renamed.

No command keeps the server busy for long, and a reader finds the old keys or the new ones, whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice

import redis

from farm.live.redis.connection import Connection
from farm.live.redis.fence import Fence

#: fields or members per write: some megabytes
AT_ONCE = 5000
SUFFIX = ":draft"
#: seconds until the server drops a draft: of a scheduler that ended before it was in place
DRAFT_LIFE = 3600

Write = Callable[[str, dict[str, object], Connection], object]


def fill_hash(key: str, fields: dict[str, object], pipe: Connection) -> None:
    """Write fields of a hash."""
    pipe.hset(key, mapping=fields)


def fill_sorted_set(key: str, scores: dict[str, object], pipe: Connection) -> None:
    """Write members of a sorted set."""
    pipe.zadd(key, scores)


class Drafts:
    """Keys written by the active scheduler under other names, until they are put in place."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence
        #: what each key holds in the end
        self._sizes: dict[str, int] = {}

    def write(self, key: str, items: Iterable[tuple[str, object]], write: Write) -> int:
        """Write items into a key that there is, in pieces; return how many."""
        rest, size = iter(items), 0
        while some := dict(islice(rest, AT_ONCE)):
            self._fence.restore_part(partial(write, key, some))
            size += len(some)
        return size

    def draft(self, key: str, items: Iterable[tuple[str, object]], write: Write) -> None:
        """Write items beside a key, for an hour at most."""

        def write_draft(name: str, some: dict[str, object], pipe: Connection) -> None:
            write(name, some, pipe)
            pipe.expire(name, DRAFT_LIFE)

        self._fence.restore_part(lambda pipe: pipe.unlink(key + SUFFIX))
        if size := self.write(key + SUFFIX, items, write_draft):
            self._sizes[key] = size

    def watch(self, pipe: Connection) -> None:
        """Let the transaction fail if a draft changes; raises ConnectionError if one is not whole.

        The server may have been emptied again while they were written.
        """
        for key, size in self._sizes.items():
            pipe.watch(key + SUFFIX)
            count = pipe.hlen if pipe.type(key + SUFFIX) == b"hash" else pipe.zcard
            if count(key + SUFFIX) != size:
                raise redis.ConnectionError(f"{key}{SUFFIX} has been lost again")

    def put_in_place(self, pipe: Connection) -> None:
        """Replace the keys."""
        for key in self._sizes:
            pipe.unlink(key)
            pipe.rename(key + SUFFIX, key)
            pipe.persist(key)
