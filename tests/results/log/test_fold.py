"""The state of the farm is a fold over its log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from farm.core.commands import IGNORED, NO_COMMANDS, RetireBuilder
from farm.core.events import BuilderJoined, DrainRequested, UndrainRequested
from farm.core.model import Builder
from farm.results.log.fold import FarmCounts, FarmFold, fold, sample
from farm.results.log.reader import Entry, read_log
from farm.results.log.writer import EventLogWriter


def entries(history: Any) -> list[Entry]:
    """Return the history as log entries."""
    return [Entry(event, orders, line) for line, (event, orders) in enumerate(history, 1)]


def moments(history: Any) -> dict[float, FarmCounts]:
    """Return the counts after the last event of each instant."""
    farm = FarmFold()
    seen = {}
    for event, orders in history:
        farm(event, orders)
        seen[event.at] = farm.counts()
    return seen


def test_jobs_by_state(history: Any) -> None:
    """Waiting, dispatched, running and ended jobs add up at every moment."""
    seen = moments(history)
    table = {
        at: (c.waiting, c.dispatched, c.running, c.succeeded, c.failed, c.cancelled)
        for at, c in seen.items()
    }
    assert table == {
        0.0: (0, 1, 1, 0, 0, 0),
        1.0: (0, 0, 2, 0, 0, 0),
        6.0: (2, 0, 1, 0, 0, 0),
        7.0: (3, 0, 1, 0, 0, 0),
        8.0: (3, 0, 1, 0, 0, 0),
        10.0: (2, 0, 1, 1, 0, 0),
        11.0: (2, 0, 1, 1, 0, 0),
        20.0: (1, 0, 1, 1, 0, 1),
        30.0: (0, 0, 1, 2, 0, 1),
        40.0: (0, 0, 0, 2, 1, 1),
    }


def test_builders_by_state(history: Any) -> None:
    """A builder is in one state at a time, and its slots leave with it."""
    seen = moments(history)
    assert (seen[1.0].builders_busy, seen[1.0].slots, seen[1.0].busy_slots) == (2, 2, 2)
    assert (seen[6.0].builders_busy, seen[6.0].builders_lost, seen[6.0].busy_slots) == (1, 1, 1)
    assert seen[8.0].builders_idle == 1
    last = seen[40.0]
    assert (last.builders_idle, last.builders_retired, last.slots, last.busy_slots) == (1, 1, 1, 0)
    assert last.builders_requested == 0


def test_draining_and_back() -> None:
    """A drained builder shows as draining; one that was told to go stays so."""
    builder = Builder(id="b", pool="p", index=0)
    farm = FarmFold()
    farm(BuilderJoined(0.0, builder), NO_COMMANDS)
    farm(DrainRequested(1.0, "b*"), NO_COMMANDS)
    assert farm.builders["b"].state == "draining"
    farm(UndrainRequested(2.0, "b*"), NO_COMMANDS)
    assert farm.builders["b"].state == "idle"
    farm(DrainRequested(3.0, "b", retire=True), [RetireBuilder("b")])
    farm(UndrainRequested(4.0, "b*"), IGNORED)
    assert farm.builders["b"].state == "draining"


def test_a_sample_includes_everything_up_to_its_instant(history: Any) -> None:
    """Events at the sample's own instant belong to it; the series reaches the last event."""
    series = list(sample(entries(history), 10.0))
    assert [c.at for c in series] == [0.0, 10.0, 20.0, 30.0, 40.0]
    assert [c.waiting for c in series] == [0, 2, 1, 0, 0]
    assert [c.succeeded for c in series] == [0, 1, 1, 2, 2]


def test_a_series_can_end_before_or_after_the_log(history: Any) -> None:
    """Series of runs of different length are drawn over one axis."""
    assert [c.at for c in sample(entries(history), 15.0, 30.0)] == [0.0, 15.0, 30.0]
    assert [c.at for c in sample(entries(history), 30.0, 90.0)] == [0.0, 30.0, 60.0, 90.0]
    assert [c.at for c in sample([], 5.0)] == [0.0]
    with pytest.raises(ValueError, match="not positive"):
        list(sample([], 0.0))


def test_the_written_log_folds_to_the_same_state(tmp_path: Path, history: Any, tell: Any) -> None:
    """What one can see live can be seen from the file."""
    with EventLogWriter(tmp_path / "log") as writer:
        tell(writer, history)
    assert fold(read_log(tmp_path / "log")).counts() == tell(FarmFold(), history).counts()
