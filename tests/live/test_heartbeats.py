"""What a scheduler commits while nothing but heartbeats comes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import fakeredis
import pytest

from farm.live.commits import CURSOR_INTERVAL, CURSOR_INTERVAL_OF_MANY, MANY_READ
from farm.live.redis.keys import Keys
from farm.live.wire.messages import Beat
from tests.worlds.stepwise import Stepwise


@pytest.fixture
def farm() -> Iterator[Stepwise]:
    """A farm whose builders have joined."""
    fake = fakeredis.FakeRedis(protocol=2)
    with contextlib.closing(Stepwise("redis://fake", Keys("rest:"), client=fake)) as made:
        for _ in range(10):
            made.calm_second()
        yield made


def commits_in(farm: Stepwise, seconds: int, beats: int) -> int:
    """Return how often a scheduler commits that hears this number of heartbeats each second."""
    assert farm.leader is not None
    fence = farm.leader.world.commits._fence
    before = fence.commits
    [host] = farm.hosts
    for _ in range(seconds):
        farm.clock.at += 1.0
        for _ in range(beats):
            host.reporter.put(Beat(builders=tuple(host.host._builders)))
            farm.send_reports(host)
        for _ in range(2):
            farm.leader.turn()
    return fence.commits - before


def test_few_heartbeats_are_committed_rarely(farm):
    """A commit every two seconds was a tenth of the work of a farm at rest."""
    assert commits_in(farm, 3 * int(CURSOR_INTERVAL), 1) in (2, 3)


def test_many_heartbeats_are_soon_taken_off_the_server(farm):
    """The server holds what a scheduler has read until that is committed."""
    seconds = 6 * int(CURSOR_INTERVAL_OF_MANY)
    assert commits_in(farm, seconds, MANY_READ) in (5, 6)
    assert farm.client.xlen(farm.keys.stream("reports")) <= 3 * MANY_READ
