"""When a host is lost: for a silence of its own, heard by a scheduler that was listening."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import fakeredis
import pytest

from farm.live.protocol.failure_detection import Patience
from farm.live.redis.keys import Keys
from farm.live.wire.inbox import AT_ONCE
from farm.live.wire.messages import Beat
from tests.worlds.stepwise import Stepwise

SILENCE = Patience().silence


@pytest.fixture
def farm() -> Iterator[Stepwise]:
    """A scheduler that has heard of three hosts; time passes when the test says so."""
    fake = fakeredis.FakeRedis(protocol=2)
    with contextlib.closing(Stepwise("redis://fake", Keys("heard:"), client=fake)) as made:
        made.lead()
        for _ in range(3):
            made.send_reports(made.add_host())
        turn(made)
        yield made


def beat(farm: Stepwise, names: str = "abc") -> None:
    """Let these hosts write a heartbeat."""
    for host in (farm.hosts["abc".index(name)] for name in names):
        host.reporter.put(Beat())
        farm.send_reports(host)


def there(farm: Stepwise) -> str:
    """Return the hosts that are not lost."""
    assert farm.leader is not None
    there = farm.leader.world.protocol.roster.hosts
    return "".join(name for name, host in zip("abc", farm.hosts, strict=True) if host.name in there)


def turn(farm: Stepwise) -> str:
    """Let the scheduler read once, and commit; return the hosts that are not lost."""
    assert farm.leader is not None
    farm.leader.turn()
    return there(farm)


@pytest.mark.parametrize("turns", [0, 1])
@pytest.mark.parametrize("beats_at_once", [True, False])
def test_no_host_is_lost_for_a_pause_between_two_reads(farm, turns, beats_at_once):
    """The server or the scheduler stood still: heartbeats are unread yet, or still on their way."""
    for _ in range(turns):  # the next turn reads what there is, or one entry
        turn(farm)
    farm.clock.at += SILENCE + 1
    beat(farm, "abc" if beats_at_once else "a")
    assert turn(farm) == "abc"
    beat(farm)
    farm.clock.at += 1
    assert turn(farm) == turn(farm) == "abc"


def test_a_host_is_lost_for_a_silence_of_its_own(farm):
    """While others are heard, turn after turn; and after a pause, too."""
    for pause in (1.0, SILENCE + 1):
        farm.clock.at += pause
        heard = [turn(farm) for _ in range(2)]
    assert heard[-1] == "abc"
    for _ in range(int(SILENCE)):
        farm.clock.at += 1
        beat(farm, "ab")
        assert "c" in turn(farm)
    farm.clock.at += 1
    beat(farm, "ab")
    turn(farm)
    assert turn(farm) == "ab"


def test_no_host_is_lost_while_its_report_may_be_unread(farm):
    """A turn of one entry, or one that was full, does not show that a host is silent."""
    for _ in range(2):
        farm.clock.at += SILENCE / 2
        beat(farm, "ab")
        turn(farm)
    beat(farm, "ab" * (AT_ONCE // 2) + "ac")
    farm.clock.at += 1
    assert [turn(farm) for _ in range(3)] == ["abc"] * 3


@pytest.mark.parametrize("seconds", [SILENCE / 2, 1.0])
def test_a_slow_scheduler_still_finds_a_silent_host(farm, seconds):
    """Turns that take long, one after the other, are no pause that excuses it."""
    for _ in range(int(SILENCE / seconds) + 2):
        farm.clock.at += seconds
        beat(farm, "ab")
        turn(farm)
        beat(farm, "ab")
        turn(farm)
    assert there(farm) == "ab"
