"""The expected sizes of the farm's keys: a part of a farm may be lost, or removed, by itself.

A server that may evict keys, an expiry that someone set, a deleted or renamed key: no commit is
missing then, and only a successor would miss what is gone.
"""

from __future__ import annotations

import msgspec

from farm.live.redis.connection import Connection
from farm.live.redis.fence import carry_out
from farm.live.redis.keys import Keys


class Sizes(msgspec.Struct, frozen=True):
    """The numbers of live and running jobs, builders, hosts, and waiting jobs by platform."""

    jobs: int
    running: int
    builders: int
    #: of a long-running farm
    hosts: int
    waiting: dict[str, int]


def incomplete_keys(client: Connection, keys: Keys, sizes: Sizes, meta: int) -> list[str]:
    """Return the keys with missing entries; ``meta`` is the expected number of fields there.

    Raises SpoiltError for keys of another type.
    """
    waiting = {keys.pending(name): count for name, count in sizes.waiting.items() if count}
    hashes = {keys.jobs: sizes.jobs, keys.builders: sizes.builders, keys.meta: meta}
    hashes[keys.lives] = sizes.hosts
    hashes |= dict.fromkeys((keys.results, keys.wanted, keys.requested, keys.refused), 0)
    sets = waiting | {keys.running: sizes.running, keys.submitted: min(1, sizes.jobs)}
    pipe = client.pipeline(transaction=False)
    for key in hashes:
        pipe.hlen(key)
    for key in sets:
        pipe.zcard(key)
    pipe.scard(keys.platforms).llen(keys.ended).llen(keys.dead_letters).xlen(keys.log)
    names = [str(args[1]) for args, _ in pipe.command_stack]
    found = dict(zip(names, carry_out(pipe), strict=True))
    least = hashes | sets | {keys.platforms: len(waiting)}
    less = [key for key, count in least.items() if found[key] < count]
    return less + (
        [keys.results, keys.ended] if found[keys.ended] and not found[keys.results] else []
    )
