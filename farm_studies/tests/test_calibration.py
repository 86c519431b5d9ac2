"""``admin study calibration``: jobs that really burn, beside simulations under several laws."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farm_studies.calibration import TABLE, CalibrationCheck, LawCheck, answer

SCENARIO = """\
pools:
  - {name: local, builders: 1, slots: 2, contention: {calibration: here.yaml}}
workload:
  - arrivals: {every: 50ms, count: 4, service_time: 100ms, mode: stress, heavy: true}
"""
WORDS = ("admin", "study", "calibration", "--table", "table.yaml", "--scenario", "farm.yaml")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, farm: object) -> None:
    """A scenario with one law, a table with another, and rates that are not measured."""
    monkeypatch.setenv("FARM_WORK_RATES", "cpu=90,memory=5000,stress_ng=180")
    (tmp_path / "here.yaml").write_text("slowdown: [1, 7]\n")
    (tmp_path / "table.yaml").write_text("slowdown: [1, 1, 1.5]\n")
    (tmp_path / "farm.yaml").write_text(SCENARIO)


@pytest.mark.slow
@pytest.mark.live
def test_another_law_of_the_scenario_is_tried_as_well(
    farm: Callable[..., Any], tmp_path: Path
) -> None:
    """The table is one law, the scenario's own is another: both are compared with the machine."""
    done = farm(*WORDS)
    assert done.code == 0, done.err
    assert "simulated, as the scenario says" in done.out
    assert "simulated, measured table" in done.out
    assert "\na second of work cost" in done.out
    assert "off the mean response time of live jobs" in done.out.splitlines()[0]
    page = (tmp_path / "calibration.html").read_text("utf-8")
    assert ">simulated, measured table</td>" in page
    assert "a second of work cost" in page


@pytest.mark.live
@pytest.mark.slow
def test_a_table_against_jobs_that_really_burn(farm: Callable[..., Any], tmp_path: Path) -> None:
    """Live runs, all at the table's rates; simulations of the same jobs; how far apart they are."""
    (tmp_path / "here.yaml").write_text("slowdown: [1, 1, 1.5]\n")
    done = farm(*WORDS, "--runs", "2", "--json", "-o", "page.html")
    assert done.code == 0, done.err
    check = json.loads(done.out)
    assert check["jobs"] == 4
    assert len(check["runs_s"]) == len(check["burnt_s"]) == len(check["others"]) == 2
    assert check["rates"] == {"cpu": 90, "memory": 5000, "stress_ng": 180}
    assert check["live_mean_response_time_s"] > 0
    laws = {law["law"]: law["mean_response_time_s"] for law in check["laws"]}
    assert laws["no contention"] <= laws["measured table"]
    assert "as the scenario says" not in laws


def test_the_answer_names_a_law_that_comes_nearer():
    """The measured table is what a user asks about, even where it is not the nearest."""
    laws = [LawCheck(name, 1.0, off, 0.0) for name, off in ((TABLE, -0.096), ("threads", 0.02))]
    check = CalibrationCheck("s", 4, 1.0, 1.0, 1.0, (), (), (), {}, tuple(laws))
    off = "Measured table is -9.6% off the mean response time of live jobs"
    assert answer(check) == f"{off}; threads comes nearer, +2.0%."
    check = msgspec.structs.replace(check, laws=check.laws[:1])
    assert answer(check) == f"{off}: no other law comes nearer."


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (WORDS[:3], "--table: not given; allowed: the file that farm admin calibrate -o saved"),
        ((*WORDS[:3], "--table", "gone.yaml"), "gone.yaml: no such file"),
        ((*WORDS[:5], "--scenario", "gone.yaml"), "gone.yaml: no such file"),
        ((*WORDS, "--live"), "--live: found with calibration; allowed: with thesis"),
        (
            ("admin", "study", "thesis", "--table", "t"),
            "--table: found with thesis; allowed: with calib",
        ),
    ],
)
def test_a_mistake_is_one_message(farm: Callable[..., Any], words: object, said: str) -> None:
    """Before anything is run: the option, what was found, what is allowed."""
    done = farm(*words)
    assert (done.code, said in done.err) == (2, True), done.err


def test_only_burning_jobs_can_be_compared(farm: Callable[..., Any], tmp_path: Path) -> None:
    """A job that passes time follows the law by definition, so comparing it shows nothing."""
    (tmp_path / "farm.yaml").write_text(SCENARIO.replace("mode: stress, ", ""))
    done = farm(*WORDS)
    assert (done.code, "found jobs of mode timed" in done.err) == (2, True), done.err
