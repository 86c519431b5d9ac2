"""``farm admin study forecasts``: what rollouts told, before and after they learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from farm.scenario import parse_scenario
from farm.testing import small_scenario
from studies import forecasts


def small() -> forecasts.Load:
    """Return one slot, nearly always busy, whose jobs declare badly how long they run."""
    jobs = {
        "count": 400,
        "poisson": {"rate": "0.095/s"},
        "service_time": {"exponential": {"mean": "10s"}},
        "declared": forecasts.DECLARED,
    }
    return forecasts.Load("small", parse_scenario(small_scenario({}, jobs)), 2)


def test_intervals_hold_after_learning() -> None:
    """P10 - P90 of the same forecasts holds 75 - 85 %; and known run times stay certain."""
    oracle, declared = forecasts.play(small(), ("oracle", "declared"), rollouts=10)
    assert (oracle.before.within_p10_p90, oracle.after.within_p10_p90) == (1, 1)
    assert oracle.after.bias_time == pytest.approx(0)
    assert declared.after.mean_absolute_error_time == declared.before.mean_absolute_error_time
    assert declared.after.intervals > 50
    before, after = declared.before.within_p10_p90, declared.after.within_p10_p90
    assert before is not None
    assert after is not None
    assert before < 0.72
    assert 0.72 < after < 0.88


def test_all_loads_can_be_played() -> None:
    """Eight loads, each a valid scenario."""
    assert [load.name for load in forecasts.loads()] == [
        "fixed",
        "fair share",
        "shortest first",
        "narrow kinds",
        "provisioned",
        "heavy tails",
        "contention",
        "bursts",
    ]


def test_the_table_and_its_page(
    farm: Callable[..., Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows in both."""
    load = msgspec.structs.replace(small(), run_times=("declared",))
    monkeypatch.setattr(forecasts, "loads", lambda _: [load])
    done = farm("admin", "study", "forecasts")
    assert done.code == 0, done.err
    assert "P10 - P90" in done.out
    assert ">declared</td>" in (tmp_path / "forecasts.html").read_text("utf-8")


def test_other_options_are_refused(farm: Callable[..., Any]) -> None:
    """One message: what was found, what is allowed."""
    done = farm("admin", "study", "forecasts", "--runs", "2")
    assert (done.code, "--runs: found with forecasts" in done.err) == (2, True), done.err
