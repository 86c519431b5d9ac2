"""``farm admin study forecasts``: what rollouts told, before and after they learned."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from farm.scenario import parse_scenario
from farm.testing import small_scenario
from farm_studies import forecasts


def small() -> forecasts.ForecastLoad:
    """Return one slot, nearly always busy, whose jobs declare badly how long they run."""
    jobs = {
        "count": 400,
        "poisson": {"rate": "0.095/s"},
        "service_time": {"exponential": {"mean": "10s"}},
        "declared": forecasts.DECLARED,
    }
    return forecasts.ForecastLoad(
        "small", parse_scenario(small_scenario({}, jobs)), 2, ("oracle", "declared"), known=True
    )


@pytest.mark.slow
def test_intervals_hold_after_learning() -> None:
    """P10 - P90 of the same forecasts holds 75 - 85 %; and known run times stay certain."""
    found = forecasts.play(small())
    assert [(one.run_times, one.rules) for one in found[:3]] == [
        ("oracle", "before"),
        ("oracle", "after"),
        ("declared", "before"),
    ]
    (oracle, certain, before, after), known = (one.scores[0] for one in found[:4]), found[4]
    assert (oracle.within_p10_p90, certain.within_p10_p90) == (1, 1)
    assert certain.bias_time == pytest.approx(0)
    assert after.mean_absolute_error_time == before.mean_absolute_error_time
    assert after.intervals > 50
    assert before.within_p10_p90 is not None
    assert after.within_p10_p90 is not None
    assert abs(after.within_p10_p90 - 0.8) < abs(before.within_p10_p90 - 0.8)
    assert 0.75 < after.within_p10_p90 < 0.85
    # what is expected of a history that was long known comes true
    assert known.rules == "history"
    assert known.expected[0] == pytest.approx(known.scores[0].within_minute, abs=0.15)


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


@pytest.mark.slow
def test_the_table_and_its_page(
    farm: Callable[..., Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows in both."""
    load = msgspec.structs.replace(small(), run_times=("declared",), known=False)
    monkeypatch.setattr(forecasts, "loads", lambda _: [load])
    done = farm("admin", "study", "forecasts", "--runs", "2")
    assert done.code == 0, done.err
    assert "P10 - P90" in done.out
    page = (tmp_path / "forecasts.html").read_text("utf-8")
    assert page.index("(80 % is right)") < page.index(">declared</td>")
    told = re.match(r"P10 to P90 held ([\d.]+) % of the jobs", done.out)
    assert told
    assert 60 < float(told[1]) < 95


def test_other_options_are_refused(farm: Callable[..., Any]) -> None:
    """One message: what was found, what is allowed."""
    done = farm("admin", "study", "forecasts", "--part", "future-work")
    assert (done.code, "--part: found with forecasts" in done.err) == (2, True), done.err
