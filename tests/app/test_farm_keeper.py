"""The process that keeps a farm up: when it says that the farm is up."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import farm
from farm.app.staying_up.farm_daemon import FarmKeeper
from farm.metrics.exporter import MetricsPlace


def test_what_an_earlier_farm_left_is_not_taken_for_this_one(tmp_path: Path, monkeypatch):
    """Also where the clock was set back since: its status is of the future then."""
    keeper = FarmKeeper(
        farm.load_scenario("examples/quickstart.yaml"), None, tmp_path, MetricsPlace(), fresh=False
    )
    looks = itertools.count()
    monkeypatch.setattr(keeper, "_look_after", lambda *_: next(looks))
    future, present = 4e9, 1e9
    said = iter([future, future, present])
    status = lambda: SimpleNamespace(written_at=next(said), hosts=1)  # noqa: E731
    operator = SimpleNamespace(status=status)
    with keeper._wakeups:
        assert keeper._await(None, None, operator, before=future)  # type: ignore[arg-type]
    assert next(looks) == 3
