"""Hashes read in pages: an answer waits whole in the server's memory until it is fetched."""

from __future__ import annotations

from collections.abc import Iterator

from farm.live.redis.connection import Connection

#: fields per page
PAGE = 500


def pages_of(client: Connection, key: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the fields of a hash; one that is changed in between may be yielded twice."""
    pairs: Iterator[tuple[bytes, bytes]] = client.hscan_iter(key, count=PAGE)
    return pairs
