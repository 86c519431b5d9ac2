"""The state of the builders is a fold over the log."""

from __future__ import annotations

from typing import Any

from farm.core.commands import IGNORED, NO_COMMANDS, RetireBuilder
from farm.core.events import BuilderJoined, DrainRequested, UndrainRequested
from farm.core.model import Builder
from farm.results.log.fold import BuilderFold


def test_builders_by_state(history: Any) -> None:
    """A builder is in one state at a time."""
    farm, seen = BuilderFold(), {}
    for event, orders in history:
        farm(event, orders)
        seen[event.at] = dict(+farm.counts)
    assert seen[1.0] == {"busy": 2}
    assert seen[6.0] == {"busy": 1, "lost": 1}
    assert seen[8.0]["idle"] == 1
    assert (seen[40.0]["idle"], seen[40.0]["retired"]) == (1, 1)
    assert "requested" not in seen[40.0]


def test_draining_and_back() -> None:
    """A drained builder shows as draining; one that was told to go stays so."""
    builder = Builder(id="b", pool="p", index=0)
    farm = BuilderFold()
    farm(BuilderJoined(0.0, builder), NO_COMMANDS)
    farm(DrainRequested(1.0, "b*"), NO_COMMANDS)
    assert farm.builders["b"].state == "draining"
    farm(UndrainRequested(2.0, "b*"), NO_COMMANDS)
    assert farm.builders["b"].state == "idle"
    farm(DrainRequested(3.0, "b", retire=True), [RetireBuilder("b")])
    farm(UndrainRequested(4.0, "b*"), IGNORED)
    assert farm.builders["b"].state == "draining"
