"""The computed advice in sweeps, plans and the doctor: simulated, and none for programs."""

from __future__ import annotations

import re
import shlex

import msgspec
import numpy as np
import pytest

import farm as package
from farm.records.attempt import Attempt
from farm.records.attempt_columns import AttemptColumns
from farm.results.formatting import spoken_span
from farm_twin.diagnosis.releases import RELEASED_SHARE, releases_in

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


@pytest.mark.slow
def test_the_page_of_a_kept_sweep_and_python_have_its_advice(farm, short) -> None:
    """As a sentence below the answer, and as values; the sweep itself computed none."""
    folder = short.parent / "sweep"
    found = package.sweep(
        str(short), {"scheduling.policy": ["ljf", "fifo"]}, replications=2, out=folder
    )
    [remedy, *_] = found.advice.remedies
    grown = package.simulate(str(short), pools__linux__builders=remedy.after)
    assert (remedy.pool, remedy.key, remedy.before) == ("linux", "builders", 3)
    assert grown.summary["waiting_time_s"]["p95"] == remedy.wait < remedy.wait_before

    page = package.report(folder, out=folder.parent / "page.html").read_text(encoding="utf-8")
    assert f"<p>Further, with ljf and seed 1: {found.advice.sentence}.</p>" in page


def test_python_s_plan_and_doctor_have_the_advice_as_values(short) -> None:
    """Who reads no sentences had none: the first remedy of both is simulated, and true."""
    plan = package.plan(str(short), "p95(waiting_time) < 1m", replications=1)
    records = package.simulate(str(short)).save(short.parent / "run") / "jobs.csv"
    diagnosis = package.doctor(records)
    for advice in (plan.advice, diagnosis.advice):
        [remedy, *_] = advice.remedies
        grown = package.simulate(str(short), pools__linux__builders=remedy.after)
        assert spoken_span(grown.summary["waiting_time_s"]["p95"]) == spoken_span(remedy.wait)
        assert b'"linux"' in msgspec.json.encode(plan.advice)  # plain values alone
        assert not advice.why_not
        assert not advice.command


def test_where_a_search_takes_too_long_a_command_finds_it(farm, short, monkeypatch) -> None:
    """No remedy is told that was not tried; of jobs beyond one simulation not even the cause."""
    monkeypatch.setattr("farm.app.runs.advice.MAX_EVENTS", 1000)
    _, out, _ = farm("sweep", short, "--vary", "pools.mac.builders=+0,+1", "-n", "1")
    found = re.search(
        r"short of linux builders .*; (farm plan \S+ --set pools.mac.builders=\+\d "
        r"--slo '\S+ < \w+') finds how many more it takes",
        out,
    )
    assert found is not None, out
    code, _, _ = farm(*shlex.split(found[1])[1:], "-n", "1")
    assert code == 0
    _, out, _ = farm("plan", short, "--set", "seed=2", "--slo", "p95(waiting_time) < 1m", "-n", "1")
    assert f"farm plan {short} --set seed=2 --slo" in out

    monkeypatch.setattr("farm.app.runs.advice.MAX_SIMULATED_JOBS", 100)
    _, out, _ = farm("sweep", short, "--vary", "scheduling.policy=fifo,ljf", "-n", "1")
    assert "is not told: its jobs are too many to be simulated once more; farm plan " in out


@pytest.mark.parametrize("option", ["--json", "-q"])
def test_for_programs_nothing_is_simulated_besides(farm, short, option, monkeypatch) -> None:
    """``--json`` and ``-q`` compute no advice."""
    for place in ("farm.app.sweeps.swept", "farm.cli.forecasts.plan"):
        monkeypatch.setattr(f"{place}.advice_on_scenario", lambda *_, **__: pytest.fail("computed"))
    monkeypatch.setattr(
        "farm_twin.advice_on_records.advice_on_records", lambda *_: pytest.fail("computed")
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
        start = at + 2000.0  # although builders are free
        rows.append(f"{job},amd64/virtual,{at},{start},{start + 60}")
    table.write_text("\n".join(rows))
    _, out, err = farm("doctor", table)
    assert "In simulation: " not in out
    assert "What would shorten the waits is not told: " in out
    assert "twin" in err
    farm("import", "csv", table, "-o", short.parent / "late")
    page = package.report(short.parent / "late", out=short.parent / "page.html")
    why_not = "<p>What would shorten the waits is not told: p95 wait 33m20s, but the records name"
    assert why_not in page.read_text(encoding="utf-8")


def share_of(arrivals: list[float], run_time: float, runs: list[str] | None = None) -> float:
    """Return the share of jobs that follow ends, of jobs that start five seconds after arrival."""
    attempts = [
        Attempt(
            id=str(number),
            submitted_at=at,
            eligible_at=None,
            started_at=at + 5.0,
            finished_at=at + 5.0 + run_time,
            result="succeeded",
            matrix=runs[number] if runs else "",
        )
        for number, at in enumerate(arrivals)
    ]
    return releases_in(AttemptColumns.of(attempts)).share


@pytest.mark.parametrize("delay", [0.0, 5.0, 30.0, 57.0])
def test_jobs_that_release_jobs_are_noticed(delay: float) -> None:
    """With more builders these would come sooner: advice on their arrivals was told as computed."""
    draws = np.random.default_rng(1)
    builds = np.cumsum(draws.exponential(400.0, 200))
    pipelines = [at for build in builds for at in (build, build + 5.0 + 97.0 + delay)]
    assert share_of(pipelines, 97.0) > 0.4


def test_jobs_that_release_jobs_of_their_run_are_noticed_after_any_time() -> None:
    """A service takes its time to start the next stage, and not always as long."""
    draws = np.random.default_rng(1)
    builds = np.cumsum(draws.exponential(400.0, 200))
    delays = draws.uniform(3.0, 100.0, 200)
    pipelines = [
        at
        for build, delay in zip(builds, delays, strict=True)
        for at in (build, build + 5.0 + 97.0 + delay)
    ]
    runs = [f"run {number // 2}" for number in range(400)]
    assert share_of(pipelines, 97.0, runs) > RELEASED_SHARE
    assert share_of(pipelines, 97.0) < RELEASED_SHARE, "which these records do not show"
    together = [at for build in builds for at in (build, build)]
    assert share_of(together, 97.0, runs) < RELEASED_SHARE / 2, "jobs of a run that come together"


def test_jobs_that_come_by_themselves_do_not_look_released() -> None:
    """Instants that are rounded, and fixed times between arrivals, are no releases."""
    draws = np.random.default_rng(1)
    independent = np.cumsum(draws.exponential(200.0, 400))
    for step in (0.01, 1.0, 60.0):
        rounded = [step * round(at / step) for at in independent]
        assert share_of(rounded, 115.0) < RELEASED_SHARE / 2, step
    for gap in (7.0, 50.0, 130.0):
        at_fixed_intervals = [gap * number for number in range(400)]
        assert share_of(at_fixed_intervals, 115.0) < RELEASED_SHARE / 2, gap
    assert share_of([], 1.0) == share_of([0.0], 1.0) == 0.0


def test_the_doctor_gives_no_advice_on_jobs_that_release_jobs(farm, tmp_path) -> None:
    """It says what it saw, and in which case the simulation would not hold."""
    rows = ["job_id,platform,submitted_at_s,started_at_s,finished_at_s,builder"]
    free = [0.0, 0.0]
    draws = np.random.default_rng(2)
    due = np.cumsum(draws.exponential(460.0, 100)).tolist()
    waiting = [(at, True) for at in due]
    while waiting:
        at, is_build = waiting.pop(0)
        builder = free.index(min(free))
        started = max(at, free[builder])
        free[builder] = started + draws.uniform(100.0, 300.0)
        rows.append(f"{len(rows)},amd64,{at},{started},{free[builder]},b{builder}")
        if is_build:
            waiting = sorted([*waiting, (free[builder], False)])
    (tmp_path / "needs.csv").write_text("\n".join(rows))
    code, out, _ = farm("doctor", tmp_path / "needs.csv")
    assert code == 0
    assert "In simulation: " not in out
    assert "of the jobs, more than by chance, came within 2s of another's end" in " ".join(
        out.split()
    )
