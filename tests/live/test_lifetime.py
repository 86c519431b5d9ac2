"""When a run is up: with its hosts, and with the builders that need no time to boot."""

from __future__ import annotations

import pytest

from farm.core.errors import RunError
from farm.core.events import FarmOpened
from farm.live.lifetime import Lifetime
from farm.live.wire.messages import HostUp
from tests.fixtures.door import Door

TIMEOUT = 10.0


@pytest.fixture(autouse=True)
def timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a start may take: hosts, and then builders."""
    monkeypatch.setenv("FARM_START_TIMEOUT", str(TIMEOUT))


@pytest.fixture
def started() -> tuple[Door, Lifetime]:
    """A run that waits for one host."""
    door = Door()
    lifetime = Lifetime(door.scheduler, door.protocol, door.out, ends_at=0.0)
    lifetime.start(1, now=0.0)
    return door, lifetime


def test_a_start_is_over_once_and_the_run_continues(started):
    """It opens when its hosts are up, is up with its builders, and ends by its load."""
    door, lifetime = started
    assert not lifetime.is_over(0.0, TIMEOUT)
    assert not door.events(FarmOpened)
    door.hear("a", HostUp())
    assert not lifetime.is_over(0.0, TIMEOUT)
    assert door.events(FarmOpened) == [FarmOpened(0.0, provisioned=True)]
    door.settle()
    assert door.plays == {"a": ["fixed-1"]}
    assert not lifetime.is_over(0.0, 2 * TIMEOUT)
    door.joins("a")
    assert lifetime.is_over(0.0, 2 * TIMEOUT)
    assert not lifetime.is_over(0.0, 9 * TIMEOUT)
    door.protocol.submissions.end(0.0)
    assert lifetime.is_over(0.0, 9 * TIMEOUT)


def test_a_start_that_takes_too_long_says_what_is_missing(started):
    """Hosts first; then builders, which get as long again."""
    door, lifetime = started
    with pytest.raises(RunError, match="0 of 1 builder hosts came up within 10s"):
        lifetime.is_over(0.0, TIMEOUT + 1)
    door.hear("a", HostUp())
    assert not lifetime.is_over(0.0, TIMEOUT)
    door.settle()
    with pytest.raises(RunError, match="not all of the first builders came up"):
        lifetime.is_over(0.0, 2 * TIMEOUT + 1)


def test_a_stop_ends_a_start(started):
    """The farm opens all the same: its log says what it was."""
    door, lifetime = started
    lifetime.asked += 1
    assert not lifetime.is_over(0.0, 1.0)
    assert door.events(FarmOpened)
    assert lifetime.is_over(0.0, 1.0)
