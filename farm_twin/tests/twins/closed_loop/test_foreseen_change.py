"""What is said of a change of the runners within the records, whatever waits there are."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from farm.records.attempt import Attempt
from farm_twin.twins.closed_loop.foreseen_change import Change, ForeseenChange, foreseen_change
from farm_twin.twins.pool_shapes import PoolLoad
from farm_twin.twins.twin_players import Written

CHANGE = Change(before=4, after=20, at=100.0)
PLAYED = """
pools: [{name: linux, platform: {processor: x}, builders: 1}]
workload: [{trace: {path: records, format: bundle}}]
"""


def attempt_of(name: str, came: float, **more: object) -> Attempt:
    """Return an attempt that starts at once and takes ten seconds."""
    instants = {"submitted_at_s": came, "eligible_at_s": came, "started_at_s": came}
    made = {"id": name, **instants, "finished_at_s": came + 10, "result": "succeeded"}
    return msgspec.convert({**made, **more}, Attempt)


def load_of(waited: list[float]) -> PoolLoad:
    """Return jobs that came every minute."""
    arrived = 60.0 * np.arange(len(waited))
    attempts = [attempt_of(str(place), at) for place, at in enumerate(arrived.tolist())]
    return PoolLoad(attempts, 0.0, arrived, np.array(waited), np.full(len(waited), 10.0))


@pytest.mark.parametrize(("foreseen", "verdict"), [(0.4, "as foreseen"), (90.0, "not as foreseen")])
def test_a_change_after_which_no_job_waits_is_told(foreseen: float, verdict: str) -> None:
    """A farm that was made large enough is common, and its check ended in a division by zero."""
    load = load_of([50.0, 60.0, 0.0, 0.0])
    waits = np.array([foreseen, foreseen, np.nan, np.nan])
    found = foreseen_change("linux", CHANGE, load, waits, resolution=1.0)
    assert found is not None
    assert f"from 4 to 20, {verdict}: " in found.text
    assert found.text.endswith("then did 0s (of other jobs)")


def test_waits_that_clocks_do_not_tell_apart_are_as_foreseen() -> None:
    """In whole minutes a mean of ten seconds is as good as one of thirty."""
    assert ForeseenChange("linux", CHANGE, recorded=10.0, foreseen=30.0, resolution=60.0).holds
    assert not ForeseenChange("linux", CHANGE, recorded=10.0, foreseen=30.0, resolution=1.0).holds


def test_a_check_in_which_no_job_starts_says_nothing() -> None:
    """A mean of none would be told as nan."""
    load = load_of([50.0, 60.0, 0.0])
    assert foreseen_change("linux", CHANGE, load, np.full(3, np.nan), resolution=1.0) is None


def test_jobs_of_after_a_change_are_not_played_with_those_of_before() -> None:
    """Their waits were looked up all the same, and not found where no job needs another."""
    load = load_of([0.0, 0.0, 0.0])
    waits = Written(PLAYED, load.attempts[:2]).waits(load)
    assert waits.tolist() == pytest.approx([0.0, 0.0, np.nan], nan_ok=True)
