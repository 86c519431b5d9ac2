"""``contention: {calibration: FILE}``: found beside the scenario, read, told when wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.core.errors import ScenarioError
from farm.scenario import load_scenario, parse_scenario
from farm.scenario.document import parse_document

SCENARIO = """\
pools:
  - name: linux
    builders: 1
    slots: 2
    contention: {calibration: %s}
workload:
  - arrivals: {every: 1s, count: 2, service_time: 1s, heavy: true}
"""
FILE = "format: farm-calibration\nversion: 1\nslowdown: [1, 1.5, 2.5]\nmachine: {cores: 2}\n"


def write(folder: Path, text: str = FILE, name: str = "here.yaml") -> Path:
    """Write a calibration and a scenario beside it that names it."""
    (folder / name).write_text(text)
    path = folder / "farm.yaml"
    path.write_text(SCENARIO % name)
    return path


@pytest.mark.parametrize("text", [FILE, '{"slowdown": [1, 1.5, 2.5], "threads": 4}'])
def test_the_table_is_taken_from_the_file(tmp_path: Path, text: str):
    """YAML or JSON; what a run keeps of the scenario has the table and needs no file."""
    scenario = load_scenario(write(tmp_path, text))
    assert scenario.pools[0].contention.slowdown == (1.0, 1.5, 2.5)
    kept = scenario.to_yaml()
    assert "calibration" not in kept
    assert parse_scenario(parse_document(kept, "kept")).pools == scenario.pools


def test_the_file_is_found_beside_the_scenario_that_names_it(tmp_path: Path):
    """Also when another folder's scenario extends it."""
    base = tmp_path / "base"
    base.mkdir()
    write(base)
    (tmp_path / "more.yaml").write_text("extends: base/farm.yaml\nname: more\n")
    assert load_scenario(tmp_path / "more.yaml").pools[0].contention.slowdown == (1.0, 1.5, 2.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file; farm calibrate -o writes one"),
        ("a: [", "found no YAML or JSON"),
        ("[1, 2]", "not a calibration: Expected `object`"),
        ("slowdown: fast", "not a calibration: Expected `array`"),
        ("{}", "not a calibration: Object missing required field `slowdown`"),
        ("slowdown: []", "slowdown: the table is empty"),
        ("slowdown: [1, 0.5]", "slowdown[1]: found 0.5; expected a number of at least 1"),
        ("slowdown: [1, 3, 2]", "slowdown[2]: found 2 after 3"),
        ("slowdown: [1]\nversion: 9", "found 'farm-calibration' version 9; allowed:"),
        ("slowdown: [1]\nformat: other", "found 'other' version 1; allowed:"),
    ],
)
def test_mistakes_are_one_message(tmp_path: Path, text: str | None, message: str):
    """Scenario file and line, the key, the file that it names, what is wrong with it."""
    path = write(tmp_path, text or FILE)
    if text is None:
        (tmp_path / "here.yaml").unlink()
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    told = str(caught.value)
    assert told.startswith(f"{path}:5: pools.0.contention.calibration: {tmp_path / 'here.yaml'}: ")
    assert message in told


def test_one_law_for_the_processor(tmp_path: Path):
    """A measured table and a written one together are refused."""
    path = write(tmp_path)
    with pytest.raises(ScenarioError, match="found slowdown and calibration together"):
        load_scenario(path, ["pools.linux.contention.slowdown=[1]"])
