"""``admin calibrate``: measures, prints, draws, saves a scenario's law; mistakes are reported."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import typer
import yaml
from typer.testing import CliRunner

from farm.cli.scenarios.calibrate import calibrate
from farm.core.errors import InputError, RunError, ScenarioError
from farm.scenario import load_scenario
from farm.scenario.calibration import read_calibration

app = typer.Typer()
app.command()(calibrate)

TINY = ["--jobs", "1", "--repeats", "2", "--threads", "1", "--alone", "20ms"]
RATES = "cpu=900,memory=5000,stress_ng=1800"
SCENARIO = """\
pools:
  - {name: local, builders: 1, slots: 2, contention: {calibration: here.yaml}}
workload:
  - arrivals: {every: 50ms, count: 4, service_time: 100ms, mode: stress, heavy: true}
"""

MEASURE = "farm.app.calibrating.calibration.measure"


@pytest.fixture
def rates_said(monkeypatch) -> None:
    """Skip the measurement of rates in tests of something else."""
    monkeypatch.setenv("FARM_WORK_RATES", RATES)


@pytest.mark.usefixtures("rates_said")
def test_what_is_saved_is_what_a_scenario_takes(tmp_path: Path) -> None:
    """Table, plot and file of one measurement; the scenario beside it has its slowdown."""
    out, plot = tmp_path / "here.yaml", tmp_path / "here.svg"
    result = CliRunner().invoke(app, [*TINY, "-o", str(out), "--plot", str(plot)])
    assert result.exit_code == 0, result.output
    assert "heavy jobs" in result.output
    saved = yaml.safe_load(out.read_text())
    assert len(saved["slowdown"]) == 2
    assert saved["slowdown"][0] == 1.0
    # what others disturb does not count, as long as half of it is left
    assert all(1 <= len(one["times_s"]) <= 2 for one in saved["measurements"])
    assert ET.fromstring(plot.read_text()).tag == "{http://www.w3.org/2000/svg}svg"
    (tmp_path / "farm.yaml").write_text(SCENARIO)
    scenario = load_scenario(tmp_path / "farm.yaml")
    assert list(scenario.pools[0].contention.slowdown) == saved["slowdown"]


@pytest.mark.slow
def test_json_and_another_reference(tmp_path: Path) -> None:
    """Nothing but JSON on stdout; the same keys as in the file, which may be JSON too."""
    out = tmp_path / "here.json"
    result = CliRunner().invoke(app, [*TINY, "--reference", "burn", "--json", "-o", str(out)])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told == json.loads(out.read_text())
    assert told["reference"] == "burn"
    assert told["rates"]["cpu"] > 0


@pytest.mark.usefixtures("rates_said")
def test_no_heavy_jobs_at_all() -> None:
    """A table of one entry is a table."""
    result = CliRunner().invoke(app, [*TINY[2:], "--jobs", "0", "--json"])
    assert json.loads(result.stdout)["slowdown"] == [1.0]


@pytest.mark.usefixtures("rates_said")
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["-o", "here.txt"], InputError, "--out: found 'here.txt'; allowed: a name that ends"),
        (["-o", "/no/such/here.yaml"], InputError, "/no/such/here.yaml: cannot be written"),
        (["-o", "/etc/hosts/here.yaml"], InputError, "cannot be written: Not a directory"),
        (["-o", "/tmp/../tmp/.yaml"], InputError, "--out: found '.yaml'; allowed: a name that"),
        (["--plot", "here.jpg"], InputError, "--plot: found 'here.jpg'; allowed"),
        (["--limit", "soon"], InputError, "--limit: found 'soon'"),
        (["--alone", "0"], InputError, "--alone: found 0; allowed: 0.001s or more"),
        (["--table", "/no/such.yaml"], ScenarioError, "/no/such.yaml: no such file"),
        (
            ["--compare", "farm.yaml", "--runs", "3"],
            InputError,
            "farm admin study calibration --table FILE --scenario farm.yaml --runs 3",
        ),
        (["--limit", "1ms"], RunError, "took longer than the limit"),
    ],
)
def test_a_mistake_is_one_message(arguments: list[str], error: type, message: str) -> None:
    """Before anything is measured: the option, what was found, what is allowed."""
    result = CliRunner().invoke(app, [*TINY, *arguments])
    assert isinstance(result.exception, error), result.output
    assert message in str(result.exception)


def test_a_file_that_cannot_be_written_is_reported_first(tmp_path: Path, monkeypatch) -> None:
    """Not after half a minute of measuring; the check neither makes nor changes a file."""
    monkeypatch.setattr(MEASURE, lambda *_: pytest.fail("measured"))
    (tmp_path / "a.yaml").mkdir()
    (tmp_path / "kept.html").write_text("kept")
    for words in (["--plot", "kept.html", "-o", "a.yaml"], ["-o", "new.yaml", "--plot", "a.yaml"]):
        result = CliRunner().invoke(
            app, [*TINY, *(str(tmp_path / w) if "." in w else w for w in words)]
        )
        assert isinstance(result.exception, InputError), result.output
    assert (tmp_path / "kept.html").read_text() == "kept"
    assert not (tmp_path / "new.yaml").exists()


def test_a_mistake_in_the_environment_is_reported_first(monkeypatch) -> None:
    """FARM_WORK_RATES and FARM_BURNER, before anything is measured."""
    monkeypatch.setattr(MEASURE, lambda *_: pytest.fail("measured"))
    monkeypatch.setenv("FARM_WORK_RATES", "cpu=fast")
    result = CliRunner().invoke(app, TINY)
    assert "FARM_WORK_RATES: found 'cpu=fast'" in str(result.exception)
    monkeypatch.setenv("FARM_WORK_RATES", "")
    monkeypatch.setenv("FARM_BURNER", "gpu")
    result = CliRunner().invoke(app, TINY)
    assert "FARM_BURNER: found 'gpu'" in str(result.exception)


@pytest.mark.usefixtures("rates_said")
def test_rates_that_are_given_are_not_measured(tmp_path: Path) -> None:
    """The file keeps the values of the environment, for all runs that follow."""
    out = tmp_path / "here.yaml"
    assert CliRunner().invoke(app, [*TINY, "--quiet", "-o", str(out)]).exit_code == 0
    assert read_calibration(out).rates == {"cpu": 900, "memory": 5000, "stress_ng": 1800}
