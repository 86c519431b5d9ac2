"""The computed advice in sweeps, plans and the doctor: simulated, and none for programs."""

from __future__ import annotations

import re

import pytest

import farm as package
from farm.results.formatting import spoken_span

#: two pools, of which one is short for an hour
SHORT = """\
seed: 1
pools:
- {name: linux, platform: {processor: amd64}, builders: 3}
- {name: mac, platform: {processor: arm64}, builders: 2}
workload:
- arrivals: {name: l, every: 30s, count: 120, service_time: 2m, platform: {processor: amd64}}
- arrivals: {name: m, every: 5m, count: 12, service_time: 2m, platform: {processor: arm64}}
"""
ADVICE = re.compile(r"with (\w+) more linux builders? it is ([\d.]+ \w+) \(")
NUMBERS = {"one": 1, "two": 2, "three": 3}


@pytest.fixture
def short(tmp_path):
    """Return the path of the scenario."""
    path = tmp_path / "short.yaml"
    path.write_text(SHORT)
    return path


def comes_true(scenario: object, text: str, line: str) -> None:
    """Check the advice on a line of an output, as a user would."""
    [said] = [part for part in text.splitlines() if part.startswith(line)]
    found = ADVICE.search(said)
    assert found is not None, said
    grown = package.simulate(scenario, pools__linux__builders=3 + NUMBERS[found[1]])
    assert spoken_span(grown.summary["waiting_time_s"]["p95"]) == found[2]


def test_a_sweep_and_a_plan_tell_what_was_simulated_besides(farm, short) -> None:
    """A sweep on top of the setting that it recommends, a plan of the farm as it is."""
    _, out, _ = farm("sweep", short, "--vary", "scheduling.policy=fifo,ljf", "-n", "2")
    comes_true(str(short), out, "Further, with fifo and seed 1: ")
    _, out, _ = farm("plan", short, "--slo", "p95(waiting_time) < 1m", "-n", "2")
    comes_true(str(short), out, "As it is, with seed 1: ")


@pytest.mark.parametrize("option", ["--json", "-q"])
def test_for_programs_nothing_is_simulated_besides(farm, short, option, monkeypatch) -> None:
    """``--json`` and ``-q`` compute no advice."""
    for place in ("farm.cli.runs.sweep", "farm.cli.forecasts.plan"):
        monkeypatch.setattr(f"{place}.answer_with_advice", lambda *_: pytest.fail("computed"))
    monkeypatch.setattr(
        "farm.app.recorded.advice_on_records.advice_on_records", lambda *_: pytest.fail("computed")
    )
    package.simulate(str(short), out=short.parent / "run")
    for command in (
        ("sweep", short, "--vary", "scheduling.policy=fifo,ljf", "-n", "2"),
        ("plan", short, "--slo", "p95(waiting_time) < 1m", "-n", "2"),
        ("doctor", short.parent / "run" / "jobs.csv"),
    ):
        code, _, _ = farm(*command, option)
        assert code == 0


def test_the_doctor_tries_its_advice_on_the_records(farm, short) -> None:
    """Their simulation waits as they did; what it says of more builders is true of the farm."""
    package.simulate(str(short), out=short.parent / "run")
    _, out, _ = farm("doctor", short.parent / "run" / "jobs.csv")
    [said] = [line for line in out.splitlines() if line.startswith("In simulation: ")]
    found = re.search(r"with (\w+) more amd64-virtual builders? it is ([\d.]+ \w+) \(", said)
    assert found is not None, said
    grown = package.simulate(str(short), pools__linux__builders=3 + NUMBERS[found[1]])
    assert spoken_span(grown.summary["waiting_time_s"]["p95"]) == found[2]
    assert re.search(r"\(p95 wait (.*) in simulation, \1 recorded\)\.$", said)


@pytest.mark.slow
def test_the_page_of_records_has_the_advice_too(farm, short) -> None:
    """Below the verdicts."""
    folder = short.parent
    package.simulate(str(short), out=folder / "run")
    farm("import", "csv", folder / "run" / "jobs.csv", "-o", folder / "mine")
    farm("report", folder / "mine", "-o", folder / "page.html")
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert re.search(r"<p>In simulation: p95 wait .* more amd64-virtual builders? it is ", page)


@pytest.mark.slow
def test_records_that_a_simulation_does_not_repeat_get_the_command(farm, short) -> None:
    """No remedy is told that was tried on a farm which waits otherwise."""
    run = package.simulate(str(short), out=short.parent / "run")
    table = short.parent / "late.csv"
    rows = ["job_id,platform,submitted_at_s,started_at_s,finished_at_s"]
    for job, at in zip(run.jobs["job_id"], run.jobs["submitted_at_s"], strict=True):
        start = at + 3600.0  # although builders are free
        rows.append(f"{job},amd64/virtual,{at},{start},{start + 60}")
    table.write_text("\n".join(rows))
    _, out, err = farm("doctor", table)
    assert "In simulation: " not in out
    assert "What would shorten the waits is not told: " in out
    assert "twin" in err
