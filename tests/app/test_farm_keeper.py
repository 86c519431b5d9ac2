"""The process that keeps a farm up: when it reports that the farm is up."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import farm
from farm.app.long_running.farm_daemon import FarmKeeper
from farm.app.long_running.farm_place import place_file, read_place
from farm.metrics.exporter import MetricsPlace
from farm.processes.orphans import children


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[FarmKeeper]:
    """A keeper of a farm in ``tmp_path``."""
    scenario = farm.load_scenario("examples/quickstart.yaml")
    made = FarmKeeper(scenario, None, tmp_path, MetricsPlace(), fresh=False)
    with made._wakeups:
        yield made


def test_what_an_earlier_farm_left_is_not_taken_for_this_one(keeper: FarmKeeper, monkeypatch):
    """Also after the clock was set back: the old status then lies in the future."""
    looks = itertools.count()
    monkeypatch.setattr(keeper, "_look_after", lambda *_: next(looks))
    future, present = 4e9, 1e9
    said = iter([future, future, present])
    status = lambda: SimpleNamespace(written_at=next(said), hosts=1)  # noqa: E731
    operator = SimpleNamespace(status=status)
    assert keeper._await(None, None, operator, before=future)  # type: ignore[arg-type]
    assert next(looks) == 3


def test_a_disk_that_is_full_while_the_farm_comes_up_does_not_end_it(
    keeper: FarmKeeper, tmp_path: Path, caplog
):
    """The server would end with it, and lose acknowledged data that it could not write yet."""
    # the children of this process are servers of other tests: none of them is a stray
    nothing = SimpleNamespace(check=lambda *_: float("inf"), pids=children, pid=0)
    keeper._revival = nothing  # type: ignore[assignment]
    draft = place_file(tmp_path).with_suffix(".new")
    draft.mkdir()  # nothing can be written there
    keeper._update_place("up", "redis://127.0.0.1:1/0")
    keeper._look_after(nothing, nothing)  # type: ignore[arg-type]
    assert read_place(tmp_path) is None
    assert [line for line in caplog.messages if "cannot be written" in line] == caplog.messages
    assert len(caplog.messages) == 1
    draft.rmdir()
    keeper._look_after(nothing, nothing)  # type: ignore[arg-type]
    place = read_place(tmp_path)
    assert place is not None
    assert place.state == "up"
