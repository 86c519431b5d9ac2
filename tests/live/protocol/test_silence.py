"""When a host is lost: for a silence of its own, heard by a scheduler that was listening."""

from __future__ import annotations

import fakeredis
import pytest

from farm.live.protocol.failure_detection import Patience
from farm.live.redis.keys import Keys
from farm.live.wire.inbox import AT_ONCE
from farm.live.wire.messages import Beat, HostUp, Report
from farm.live.wire.reporter import EnvelopeMaker
from tests.worlds.stepwise import Clock, Leader

SILENCE = Patience().silence


class Listening:
    """A scheduler's world in fakeredis with three hosts; time passes when the test says so."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.redis, self._keys = fakeredis.FakeRedis(protocol=2), Keys("heard:")
        self.world = Leader(self.redis, self._keys, clock).world
        self._makers = {name: EnvelopeMaker(name) for name in ("a", "b", "c")}
        for name in self._makers:
            self.say(name, HostUp(), Beat())
        self.turn()

    def say(self, host: str, *reports: Report) -> None:
        """Let the host write to the stream of reports."""
        for data in self._makers[host].envelopes(*reports):
            self.redis.xadd(self._keys.stream("reports"), {"m": data})

    def beat(self, *hosts: str) -> None:
        """Let these hosts write a heartbeat: all of them, if none is named."""
        for host in hosts or self._makers:
            self.say(host, Beat())

    def turn(self) -> set[str]:
        """Let the scheduler read once, and commit; return the hosts that are not lost."""
        self.world.take_in(0.0)
        self.world.commits.commit()
        return set(self.world.protocol.roster.hosts)


@pytest.fixture
def farm():
    """A farm whose clock stands still between the steps of a test."""
    clock = Clock()
    with clock.is_the_farms():
        yield Listening(clock)


@pytest.mark.parametrize("turns", [0, 1])
@pytest.mark.parametrize("beats_at_once", [True, False])
def test_no_host_is_lost_for_a_pause_between_two_reads(farm, turns, beats_at_once):
    """The server or the scheduler stood still: heartbeats are unread yet, or still on their way."""
    for _ in range(turns):  # the next turn reads what there is, or one entry
        farm.turn()
    farm.clock.at += SILENCE + 1
    farm.beat(*(() if beats_at_once else "a"))
    assert farm.turn() == {"a", "b", "c"}
    farm.beat()
    farm.clock.at += 1
    assert farm.turn() == farm.turn() == {"a", "b", "c"}


def test_a_host_is_lost_for_a_silence_of_its_own(farm):
    """While others are heard, turn after turn; and after a pause, too."""
    for pause in (1.0, SILENCE + 1):
        farm.clock.at += pause
        heard = [farm.turn() for _ in range(2)]
    assert heard[-1] == {"a", "b", "c"}
    for _ in range(int(SILENCE)):
        farm.clock.at += 1
        farm.beat("a", "b")
        assert "c" in farm.turn()
    farm.clock.at += 1
    farm.beat("a", "b")
    farm.turn()
    assert farm.turn() == {"a", "b"}


def test_no_host_is_lost_while_its_report_may_be_unread(farm):
    """A turn of one entry, or one that was full, does not show that a host is silent."""
    for _ in range(2):
        farm.clock.at += SILENCE / 2
        farm.beat("a", "b")
        farm.turn()
    farm.beat(*"ab" * (AT_ONCE // 2), "a", "c")
    farm.clock.at += 1
    assert [farm.turn() for _ in range(3)] == [{"a", "b", "c"}] * 3


@pytest.mark.parametrize("seconds", [SILENCE / 2, 1.0])
def test_a_slow_scheduler_still_finds_a_silent_host(farm, seconds):
    """Turns that take long, one after the other, are no pause that excuses it."""
    for _ in range(int(SILENCE / seconds) + 2):
        farm.clock.at += seconds
        farm.beat("a", "b")
        farm.turn()
        farm.beat("a", "b")
        farm.turn()
    assert set(farm.world.protocol.roster.hosts) == {"a", "b"}
