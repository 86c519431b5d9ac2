"""``farm calibrate``: measures, prints, draws, saves what a scenario takes; mistakes are told."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import typer
import yaml
from typer.testing import CliRunner

from farm.cli.calibrate import calibrate
from farm.core.errors import InputError, RunError, ScenarioError
from farm.scenario import load_scenario

app = typer.Typer()
app.command()(calibrate)

TINY = ["--jobs", "1", "--repeats", "2", "--threads", "1", "--alone", "20ms"]
SCENARIO = """\
pools:
  - {name: local, builders: 1, slots: 2, contention: {calibration: here.yaml}}
workload:
  - arrivals: {every: 50ms, count: 4, service_time: 100ms, mode: stress, heavy: true}
"""


def test_what_is_saved_is_what_a_scenario_takes(tmp_path: Path) -> None:
    """Table, plot and file of one measurement; the scenario beside it has its slowdown."""
    out, plot = tmp_path / "here.yaml", tmp_path / "here.svg"
    result = CliRunner().invoke(app, [*TINY, "-o", str(out), "--plot", str(plot)])
    assert result.exit_code == 0, result.output
    assert "slowdown of the reference job" in result.output
    saved = yaml.safe_load(out.read_text())
    assert len(saved["slowdown"]) == 2
    assert saved["slowdown"][0] == 1.0
    # what others disturb does not count, as far as half of it is left
    assert all(1 <= len(one["times_s"]) <= 2 for one in saved["measurements"])
    assert len(ET.fromstring(plot.read_text()).findall("{http://www.w3.org/2000/svg}circle")) == 2
    (tmp_path / "farm.yaml").write_text(SCENARIO)
    scenario = load_scenario(tmp_path / "farm.yaml")
    assert list(scenario.pools[0].contention.slowdown) == saved["slowdown"]


def test_json_and_another_reference(tmp_path: Path) -> None:
    """For machines: nothing but JSON; the same keys as in the file, which may be JSON too."""
    out = tmp_path / "here.json"
    result = CliRunner().invoke(app, [*TINY, "--reference", "burn", "--json", "-o", str(out)])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told == json.loads(out.read_text())
    assert told["reference"] == "burn"
    assert told["rates"]["cpu"] > 0


def test_no_heavy_jobs_at_all() -> None:
    """A table of one entry is a table."""
    result = CliRunner().invoke(app, [*TINY[2:], "--jobs", "0", "--json"])
    assert json.loads(result.stdout)["slowdown"] == [1.0]


@pytest.mark.live
def test_a_table_against_jobs_that_really_burn(tmp_path: Path) -> None:
    """A live run, simulations of the same jobs, and how far they are apart."""
    (tmp_path / "here.yaml").write_text("slowdown: [1, 1, 1.5]\n")
    (tmp_path / "farm.yaml").write_text(SCENARIO)
    arguments = ["--table", str(tmp_path / "here.yaml"), "--compare", str(tmp_path / "farm.yaml")]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    check = json.loads(result.stdout)["compare"]
    assert check["jobs"] == 4
    assert check["live_mean_response_time_s"] > 0
    laws = {law["law"]: law["mean_response_time_s"] for law in check["laws"]}
    assert laws["no contention"] <= laws["measured table"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["-o", "here.txt"], InputError, "--output: found 'here.txt'; allowed: a name that ends"),
        (["-o", "/no/such/here.yaml"], InputError, "cannot write /no/such/here.yaml: no such"),
        (["--plot", "here.png"], InputError, "--plot: found 'here.png'; allowed"),
        (["--limit", "soon"], InputError, "--limit: found 'soon'"),
        (["--alone", "0"], InputError, "--alone: found 0; allowed: 0.001s or more"),
        (["--table", "/no/such.yaml"], ScenarioError, "/no/such.yaml: no such file"),
        (["--compare", "/no/such.yaml"], ScenarioError, "/no/such.yaml"),
        (["--limit", "1ms"], RunError, "took longer than the limit"),
    ],
)
def test_a_mistake_is_one_message(arguments: list[str], error: type, message: str) -> None:
    """Told before anything is measured: the option, what was found, what is allowed."""
    result = CliRunner().invoke(app, [*TINY, *arguments])
    assert isinstance(result.exception, error), result.output
    assert message in str(result.exception)


def test_only_burning_jobs_can_be_compared(tmp_path: Path) -> None:
    """A job that passes time follows the law by definition: nothing to learn from it."""
    (tmp_path / "here.yaml").write_text("slowdown: [1]\n")
    (tmp_path / "farm.yaml").write_text(SCENARIO.replace("mode: stress, ", ""))
    arguments = ["--table", str(tmp_path / "here.yaml"), "--compare", str(tmp_path / "farm.yaml")]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, InputError)
    assert "found jobs of mode timed" in str(result.exception)
