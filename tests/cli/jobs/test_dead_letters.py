"""``farm admin dead-letters``, and a farm that accepts no more jobs."""

from __future__ import annotations

import pytest

from farm.live.store.batch import Batch
from farm.live.wire.dead_letters import DeadLetter
from tests.worlds.still import StillFarm

pytestmark = pytest.mark.live


def test_refused_messages_are_listed_counted_and_forgotten(still: StillFarm):
    """Control characters are shown as text; --json has the message itself."""
    assert still.says("admin", "dead-letters") == "0 messages refused\n"
    batch = Batch()
    batch.dead_letters = [
        DeadLetter("reports", "1700000000000-0", "not-its-own", "it has no such\x1b[2J", "h", "{}")
    ]
    batch.refused = {"not-its-own": 3}
    still.store.commit(batch, {}, 0.0)
    shown = still.says("admin", "dead-letters", width=200)
    assert "2023-11-14 22:13:20+00:00" in shown
    assert "\x1b[2J" not in shown
    assert "3 messages refused: 3 not-its-own" in shown
    (row,) = still.rows("admin", "dead-letters", "--clear")
    assert (row["sender"], row["text"]) == ("h", "{}")
    assert still.says("admin", "dead-letters") == "0 messages refused\n"


@pytest.mark.parametrize("full", ["waiting", "backlog"])
def test_a_full_farm_refuses_the_whole_submission(still: StillFarm, full: str):
    """More jobs than may wait, or more bytes than may be stored: refused as a whole, exit 2."""
    bounds = {"max_waiting": 9} if full == "waiting" else {"max_backlog": 10}
    words = ("submit", "--service-time", "5s", "--platform", "amd64/virtual")
    still.says(*words)
    still.publish(bounds)
    assert f"live.max_{full}" in still.says(*words, "--count", "10", code=2)
    assert len(still.submitted()) == 1
