"""What ``farm admin chaos`` writes to the scheduler's streams: refused, for many reasons."""

from __future__ import annotations

import random

import fakeredis

from farm.live.redis.keys import STREAMS, Keys
from farm.live.wire.inbox import Inbox
from farm_chaos.server_faults import garbage
from tests.fixtures.door import Door

DRAWS = 1000
REASONS = {"unreadable", "version", "out-of-bounds"}


def test_the_garbage_reaches_every_check():
    """Each message is refused; some of them only where numbers and texts are checked."""
    rng, door = random.Random(1), Door()
    redis, keys = fakeredis.FakeRedis(protocol=2), Keys("garbage:")
    messages = {garbage(rng) for _ in range(DRAWS)}
    inbox = Inbox(redis, keys)
    inbox.refusals = door.refusals
    for message in messages:
        for stream in STREAMS:
            redis.xadd(keys.stream(stream), {"m": message})
    for _ in range(len(messages) * len(STREAMS)):
        for entry in inbox.read(0.0):
            door.protocol.receive([entry], 0.0, 0.0, 0.0)
    assert not door.out.events
    _, counts = door.refusals.take()
    assert sum(counts.values()) == len(messages) * len(STREAMS)
    assert set(counts) == REASONS
