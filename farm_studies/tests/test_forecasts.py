"""``farm admin study forecasts``: how true what was told is, against simpler forecasts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from farm.scenario import parse_scenario
from farm.testing import small_scenario
from farm.workload import build_jobs
from farm_studies import forecast_loads, forecasts
from farm_studies.forecast_loads import DECLARED, ForecastLoad


def small() -> ForecastLoad:
    """Return one slot, nearly always busy, whose jobs declare badly how long they run."""
    jobs = {
        "count": 300,
        "poisson": {"rate": "0.095/s"},
        "service_time": {"exponential": {"mean": "10s"}},
        "level": {"0": 8, "1": 2},
        "declared": DECLARED,
    }
    return ForecastLoad("small", parse_scenario(small_scenario({}, jobs)), 2, ("declared",))


@pytest.fixture(scope="module")
def outcomes() -> list[forecasts.ForecastOutcome]:
    """Return what one small load shows."""
    return forecasts.play(small(), rollouts=10)


@pytest.mark.slow
def test_all_jobs_are_told_a_range_that_holds(outcomes: Any) -> None:
    """As many ranges as forecasts, of which 80 % hold, and errors below those of naive rules."""
    (one,) = outcomes
    (ours,) = one.rollouts
    assert ours.intervals == ours.scored > 80
    assert one.holds
    assert one.is_nearest


@pytest.mark.slow
def test_parts_are_horizons_and_levels(outcomes: Any) -> None:
    """Five horizons, though no wait is that long, and both levels of the load."""
    rows = {name: cells for name, *cells in forecasts.parts_of(outcomes)}
    assert list(rows) == [
        *forecasts.HORIZONS.values(),
        "small, declared: level 0",
        "small, declared: level 1",
    ]
    jobs = [int(rows[name][0].replace(",", "")) for name in rows]
    assert sum(jobs[:5]) == sum(jobs[5:]) == outcomes[0].rollouts[0].scored
    assert rows["beyond 120 min"] == ["0", "-", "-", "-"]


def test_all_loads_can_be_played() -> None:
    """Twelve loads of two sources each, with jobs by the hundred."""
    loads = forecast_loads.loads()
    assert len(loads) == len({load.name for load in loads}) == 12
    assert {len(load.run_times) for load in loads} == {2}
    assert all(400 < sum(1 for _ in build_jobs(load.scenario)) < 2500 for load in loads)


@pytest.mark.slow
def test_the_table_and_its_page(
    farm: Callable[..., Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows in both, and a picture of the calibration."""
    monkeypatch.setattr(forecasts, "loads", lambda: [small()])
    done = farm("admin", "study", "forecasts", "--runs", "1")
    assert done.code == 0, done.err
    assert "P10 - P90" in done.out
    page = (tmp_path / "forecasts.html").read_text("utf-8")
    assert page.index("(80 % is right)") < page.index(">declared</td>") < page.index("<svg")
    told = re.match(r"P10 to P90 held ([\d.]+) % of the jobs", done.out)
    assert told
    assert 60 < float(told[1]) < 95


def test_other_options_are_refused(farm: Callable[..., Any]) -> None:
    """One message: what was found, what is allowed."""
    done = farm("admin", "study", "forecasts", "--part", "future-work")
    assert (done.code, "--part: found with forecasts" in done.err) == (2, True), done.err
