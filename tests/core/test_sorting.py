"""Queues sorted periodically, by what has been learned since the jobs were submitted."""

from __future__ import annotations

from typing import Any

import pytest

import farm
from farm.core.errors import ScenarioError
from farm.core.events import FarmOpened
from farm.core.model import Job
from farm.testing import small_scenario
from tests.worlds.virtual import Ledger

RULES = {"policy": "sjf", "runtime_estimates": "last-3"}
TEAM = {"team": "one"}
TIMES = {"a": 7.0, "b": 50.0, "c": 12.0}
#: no kind is known at first: the order of submission; at 7 s the length of kind a is
JOBS = [
    Job(id=name, kind=name[0], service_time=TIMES[name[0]], arrived_at=0.0, attributes=TEAM)
    for name in ("a1", "c1", "b1", "b2", "a2")
]


def started(engine: str = "auto", **scheduling: Any) -> dict[str, float]:
    """Return when each job starts."""
    given = small_scenario({"slots": 2}, scheduling=RULES | scheduling)
    jobs = farm.simulate(given, jobs=JOBS, engine=engine).jobs
    return dict(zip(jobs["job_id"], jobs["started_at_s"], strict=True))


@pytest.mark.parametrize("fair", [(), ("team",)], ids=["plain", "fair share"])
def test_a_sorting_orders_by_what_was_learned(fair: tuple[str, ...]) -> None:
    """Kind a turned out to be short at 7 s; the sorting at 10 s lets its job overtake the other."""
    assert started(fair_share=fair)["b2"] == 12.0
    sorted_ = started(sort_every="5s", fair_share=fair)
    assert (sorted_["b1"], sorted_["a2"]) == (7.0, 12.0)


def test_a_sorting_happens_at_its_multiples_only() -> None:
    """At 15 s it is too late for the slot that is free at 12 s."""
    assert started(sort_every="15s")["b2"] == 12.0


def test_without_learning_nothing_is_sorted() -> None:
    """Keys could not change: no alarm rings, and the compiled loop may be used."""
    given = small_scenario({"slots": 2}, scheduling={"policy": "sjf", "sort_every": "5s"})
    events = list(farm.simulate(given, jobs=JOBS, keep_events=True).events)
    assert not [event for event in events if "alarm" in str(event)]


def test_a_sorting_period_of_zero_is_refused() -> None:
    """With the key and what is allowed."""
    with pytest.raises(ScenarioError, match="sort_every"):
        started(sort_every="0s")


def test_a_restored_scheduler_sorts_at_the_same_multiple(ledger: type[Ledger]) -> None:
    """Alarms do not outlive a scheduler: the next one sets them again when it opens."""
    one = ledger("b", estimates="last-3", sort_every=10.0)
    assert "alarm 10" in one.submit("runs", "waits")
    one.restart(at=5.0)
    assert "alarm 10" in one.tell(FarmOpened(5.0))
