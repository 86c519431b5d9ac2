"""``contention: {calibration: FILE}``: found beside the scenario, read, reported when wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from farm.core.errors import ScenarioError
from farm.scenario import load_scenario, parse_scenario
from farm.scenario.calibration_keys import read_calibration
from farm.scenario.file.document import parse_document

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
#: a few hundred bytes that expand to a thousand million values
BOMB = "e0: &e0 x\n" + "".join(
    f"e{n}: &e{n} [{', '.join([f'*e{n - 1}'] * 9)}]\n" for n in range(1, 10)
)


def write(folder: Path, text: str = FILE, name: str = "here.yaml") -> Path:
    """Write a calibration and a scenario beside it that names it."""
    (folder / name).write_text(text)
    path = folder / "farm.yaml"
    path.write_text(SCENARIO % name)
    return path


@pytest.mark.parametrize("text", [FILE, '{"slowdown": [1, 1.5, 2.5], "threads": 4}'])
def test_the_table_is_taken_from_the_file(tmp_path: Path, text: str):
    """YAML or JSON; a run's saved scenario has the table and needs no file."""
    scenario = load_scenario(write(tmp_path, text))
    assert scenario.pools[0].contention.slowdown == (1.0, 1.5, 2.5)
    kept = scenario.to_yaml()
    assert "calibration" not in kept
    assert parse_scenario(parse_document(kept, "kept")).pools == scenario.pools


def test_the_law_is_the_one_that_the_file_names(tmp_path: Path):
    """The table counts heavy jobs only: where light ones share the builder it is far off."""
    text = f"{FILE}threads: 4\nlaw: threads\n"
    law = load_scenario(write(tmp_path, text)).pools[0].contention
    assert law.slowdown is None
    assert (law.threads.cores, law.threads.heavy_threads) == (2.67, 4)
    # without threads nothing is known of cores
    assert load_scenario(write(tmp_path, f"{FILE}law: threads\n")).pools[0].contention.slowdown


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
        (None, "no such file; farm admin calibrate -o writes one"),
        ("a: [", ":1: not valid YAML"),
        ("[1, 2]", ": found a list; allowed: a mapping"),
        ("slowdown: fast", ":1: slowdown: found 'fast'; allowed: a list"),
        ("{}", ": slowdown: this key is required"),
        ("slowdown: []", ":1: slowdown: found an empty table"),
        ("slowdown: [1, 0.5]", ":1: slowdown: found 0.5 after 1; allowed: from 1 on"),
        ("slowdown: [1, .nan]", ":1: slowdown.1: found nan; allowed: a finite number"),
        ('slowdown: [1, "2"]', ":1: slowdown.1: found '2'; allowed: a number"),
        ("slowdown: [1]\nslowdown: [1, 2]", ":2: key 'slowdown' was given at"),
        ("slowdown: [1]\nslodown: 3", ":2: slodown: unknown key; did you mean slowdown?"),
        ("slowdown: [1]\nversion: 9", ":2: version: found 9; allowed: 1"),
        ("slowdown: [1]\nformat: other", ":2: format: found 'other'; allowed: farm-calibration"),
        (
            "slowdown: [1]\nrates: {gpu: 3}",
            "rates.gpu: found 'gpu'; did you mean cpu? allowed: cpu, memory, stress_ng",
        ),
        ("slowdown: [1]\nrates: {cpu: -3}", ":2: rates.cpu: found -3; allowed: more than 0"),
        ("slowdown: [1]\nmachine: {busy: 1}", ":2: machine.busy: unknown key"),
        ("slowdown: [1]\nmachine: {busy_with_others: much}", "machine.busy_with_others: found 'mu"),
        ("slowdown: [1]\nmeasurements: [{heavy: 0}]", ":2: measurements.0.median_s: this key is"),
        pytest.param(BOMB + "slowdown: *e9", "more than 1000000 values", marks=pytest.mark.slow),
        pytest.param(
            BOMB + "slowdown: [1]\nmachine: {processor: *e9}",
            "more than 1000000 values",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_mistakes_are_one_message(tmp_path: Path, text: str | None, message: str):
    """Scenario file and line, the key, the file that it names, the problem."""
    path = write(tmp_path, text or FILE)
    if text is None:
        (tmp_path / "here.yaml").unlink()
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    told = str(caught.value)
    assert told.startswith(f"{path}:5: pools.0.contention.calibration: {tmp_path / 'here.yaml'}:")
    assert message in told


@pytest.mark.parametrize(
    ("reference", "slowdown", "cores"),
    [
        ("burn", "1, 2.12, 4.4, 6.25, 8.4", 1.9),  # medians of 4k threads
        ("pi", "1, 2.5, 4.5, 6.5, 8.5", 2.0),  # of 4k, and one
        ("pi", "1", None),
    ],
)
def test_the_cores_that_heavy_jobs_had_follow_from_the_table(
    tmp_path: Path, reference: str, slowdown: str, cores: float | None
):
    """Two that give a little less than two between them, as a law of their own."""
    machine = "machine: {usable_cores: 2}\nthreads: 4\n"
    path = tmp_path / "here.yaml"
    path.write_text(f"slowdown: [{slowdown}]\nreference: {reference}\n{machine}")
    assert read_calibration(path).measured_cores == cores


def test_cores_of_a_burning_reference_count_what_its_start_costs(tmp_path: Path):
    """Alone it takes longer than its work, too: the slowdown would leave that out."""
    rows = "".join(
        f"  - {{heavy: {heavy}, median_s: {time}, spread_s: [1, 9], slowdown: 2, times_s: [3]}}\n"
        for heavy, time in ((0, 0.62), (1, 1.25), (2, 2.5))
    )
    table = "slowdown: [1, 2.02, 4.03]\nreference: burn\nmachine: {usable_cores: 2}\nthreads: 4\n"
    path = tmp_path / "here.yaml"
    path.write_text(f"{table}work_s: 0.6\nmeasurements:\n{rows}")
    assert read_calibration(path).measured_cores == 1.92  # 4 · 0.6 ÷ 1.25


def test_one_law_for_the_processor(tmp_path: Path):
    """A measured table and a written one together are refused."""
    path = write(tmp_path)
    with pytest.raises(ScenarioError, match="found slowdown and calibration together"):
        load_scenario(path, ["pools.linux.contention.slowdown=[1]"])


def test_special_files_are_not_read(tmp_path: Path):
    """A folder, or a pipe without a writer: reported at once."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, message in (("pipe", "allowed: a file"), ("folder", "cannot be read: Is a dir")):
        with pytest.raises(ScenarioError, match=message):
            read_calibration(tmp_path / name)
