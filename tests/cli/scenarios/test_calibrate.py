"""``admin calibrate``: measures, prints, draws, saves a scenario's law; mistakes are reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from farm.app.calibrating.measuring import CalibrationOptions, with_best_law
from farm.cli.scenarios.calibrate import law_in_words
from farm.scenario import load_scenario
from farm.scenario.calibration_keys import Calibration, Machine, read_calibration
from tests.conftest import Said

TINY = ["--jobs", "1", "--repeats", "2", "--threads", "1", "--alone", "20ms"]
RATES = "cpu=900,memory=5000,stress_ng=1800"
SCENARIO = """\
pools:
  - {name: local, builders: 1, slots: 2, contention: {calibration: here.yaml}}
workload:
  - arrivals: {every: 50ms, count: 4, service_time: 100ms, mode: stress, heavy: true}
"""


@pytest.fixture
def calibrate(farm: Any) -> Callable[..., Said]:
    """Run the command with short measurements, and more words."""
    return partial(farm, "admin", "calibrate", *TINY)


@pytest.fixture
def rates_said(farm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the measurement of rates in tests of something else."""
    monkeypatch.setenv("FARM_WORK_RATES", RATES)


@pytest.fixture
def not_measured(farm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where anything is measured."""
    measure = "farm.app.calibrating.measuring.measure"
    monkeypatch.setattr(measure, lambda *_: pytest.fail("measured"))


@pytest.mark.slow
@pytest.mark.usefixtures("rates_said")
def test_what_is_saved_is_what_a_scenario_takes(calibrate: Any, tmp_path: Path) -> None:
    """Table, plot and file of one measurement; the scenario beside it has its slowdown."""
    result = calibrate("-o", "here.yaml", "--plot", "here.svg")
    assert result.code == 0, result.err
    assert "heavy jobs" in result.out
    saved = yaml.safe_load((tmp_path / "here.yaml").read_text())
    assert len(saved["slowdown"]) == 2
    assert saved["slowdown"][0] == 1.0
    # what others disturb does not count, as long as half of it is left
    assert all(1 <= len(one["times_s"]) <= 2 for one in saved["measurements"])
    svg = ET.fromstring((tmp_path / "here.svg").read_text())
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    (tmp_path / "farm.yaml").write_text(SCENARIO)
    scenario = load_scenario(tmp_path / "farm.yaml")
    law = scenario.pools[0].contention
    if saved["law"] == "threads":
        assert law.threads.cores == read_calibration(tmp_path / "here.yaml").measured_cores
    else:
        assert list(law.slowdown) == saved["slowdown"]
    # the file keeps the rates of the environment, for all runs that follow
    rates = {"cpu": 900, "memory": 5000, "stress_ng": 1800}
    assert read_calibration(tmp_path / "here.yaml").rates == rates


@pytest.mark.slow
def test_json_and_another_reference(calibrate: Any, tmp_path: Path) -> None:
    """Nothing but JSON on stdout; the same keys as in the file, which may be JSON too."""
    told = json.loads(calibrate("--reference", "burn", "--json", "-o", "here.json").out)
    assert told == json.loads((tmp_path / "here.json").read_text())
    assert told["reference"] == "burn"
    assert told["rates"]["cpu"] > 0


@pytest.fixture
def measured() -> Calibration:
    """A machine of two cores, of which heavy jobs of four threads get 1.9."""
    return Calibration(slowdown=(1.0, 2.1, 4.2), machine=Machine(usable_cores=2), threads=4)


@pytest.mark.parametrize(("heavy", "light"), [(4.0, 2.0), (6.4, 3.2)])
def test_the_law_of_a_calibration_is_the_one_that_predicts_best(
    measured: Calibration, monkeypatch: pytest.MonkeyPatch, heavy: float, light: float
) -> None:
    """By jobs that burn together; what it is off is printed.

    Companies of 6 and of 9 threads take as long as their threads, or as their heavy jobs.
    """
    real = {(1, 2): light, (2, 1): heavy}
    burnt = "farm.app.calibrating.example._burnt"
    monkeypatch.setattr(burnt, lambda _, company, *__: real[company])
    found = with_best_law(measured, CalibrationOptions(alone=1.0))
    assert found.measured_cores == 1.9
    told = law_in_words(found)
    if light == 2.0:
        assert found.law == "slowdown"
        assert found.contention == {"slowdown": (1.0, 2.1, 4.2)}
        assert "calibration: slowdown, +5.0% off the mean time of heavy and light jobs" in told
    else:
        assert found.law == "threads"
        assert "calibration: threads, -17.8% off" in told
        assert told.endswith(", slowdown -34.4%")


def test_without_time_for_an_example_threads_count(measured: Calibration) -> None:
    """They are right for light and heavy jobs, the table for heavy ones alone."""
    found = with_best_law(measured, CalibrationOptions(limit=-1.0))
    assert (found.law, found.example) == ("threads", ())
    assert "(its error was not measured)" in law_in_words(found)


@pytest.mark.usefixtures("rates_said")
def test_no_heavy_jobs_at_all(calibrate: Any) -> None:
    """A table of one entry is a table."""
    assert json.loads(calibrate("--jobs", "0", "--json").out)["slowdown"] == [1.0]


@pytest.mark.usefixtures("rates_said")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-o here.txt", "--out: found 'here.txt'; allowed: a name that ends"),
        ("-o /no/such/here.yaml", "/no/such/here.yaml: cannot be written"),
        ("-o /etc/hosts/here.yaml", "cannot be written: Not a directory"),
        ("-o /tmp/../tmp/.yaml", "--out: found '.yaml'; allowed: a name that"),
        ("--plot here.jpg", "--plot: found 'here.jpg'; allowed"),
        ("--limit soon", "--limit: found 'soon'"),
        ("--alone 0", "--alone: found 0; allowed: 0.001s or more"),
        ("--table /no/such.yaml", "/no/such.yaml: no such file"),
        (
            "--compare farm.yaml --runs 3",
            "farm admin study calibration --table FILE --scenario farm.yaml --runs 3",
        ),
        ("--limit 1ms", "took longer than the limit"),
    ],
)
def test_a_mistake_is_one_message(calibrate: Any, arguments: str, message: str) -> None:
    """Before anything is measured: the option, what was found, what is allowed."""
    result = calibrate(*arguments.split())
    assert (result.code, result.out) == (1 if "longer" in message else 2, "")
    assert message in " ".join(result.err.split())


@pytest.mark.usefixtures("not_measured")
def test_a_file_that_cannot_be_written_is_reported_first(calibrate: Any, tmp_path: Path) -> None:
    """Not after half a minute of measuring; the check neither makes nor changes a file."""
    (tmp_path / "a.yaml").mkdir()
    (tmp_path / "kept.html").write_text("kept")
    for words in ("--plot kept.html -o a.yaml", "-o new.yaml --plot a.yaml"):
        assert calibrate(*words.split()).code == 2
    assert (tmp_path / "kept.html").read_text() == "kept"
    assert not (tmp_path / "new.yaml").exists()


@pytest.mark.usefixtures("not_measured")
@pytest.mark.parametrize(
    ("name", "value"), [("FARM_WORK_RATES", "cpu=fast"), ("FARM_BURNER", "gpu")]
)
def test_a_mistake_in_the_environment_is_reported_first(
    calibrate: Any, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """Before anything is measured."""
    monkeypatch.setenv(name, value)
    assert f"{name}: found '{value}'" in calibrate().err
