"""Bundles of records in the place of a run: estimators learn from them, and are scored on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import farm
from farm.app.forecasts.run_times import learned_from, rungs_of
from farm.app.recorded.estimates_of_run import scores_of
from farm.app.recorded.played_again import played_again
from farm.app.runs.learning import seeded_estimator
from farm.cli.main import app
from farm.core.errors import InputError
from farm.core.model import Job
from farm.records.attempt import Attempt
from farm.records.bundle import write_bundle
from farm.results.estimate_scores import ALL_RUNGS
from farm.scenario import parse_scenario
from farm.testing import small_scenario
from tests.fixtures.attempts import attempt, bundle_of

BASE = 1_793_600_000.0
NOWHERE = Path("nowhere")


def recorded(minute: int, kind: str, lasts: float, runner: str, **known: object) -> Attempt:
    """Return an attempt that started at a minute of the records."""
    at = BASE + 60.0 * minute
    return attempt(
        minute, at - 5, at, at + lasts, kind=kind, runner=runner, platform="linux", **known
    )


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """A bundle of two kinds of jobs on two runners, and one on a runner of its own."""
    builds = [recorded(minute, "build", 40.0, f"r{minute % 2}") for minute in range(10)]
    tests = [recorded(minute, "test", 20.0, "r1") for minute in range(10, 15)]
    odd = [
        recorded(20, "build", 4000.0, "r0", result="lost"),
        recorded(21, "test", 21.0, "once", result="cancelled"),
    ]
    write_bundle(tmp_path / "records", bundle_of([*builds, *tests, *odd]))
    return tmp_path / "records"


def test_an_estimator_learns_from_a_bundle_as_from_a_run(records: Path):
    """What was lost or cancelled teaches nothing."""
    learned = learned_from(records, None, NOWHERE, "last-3")

    wanted, _ = learned.hypothetical("build", learned.jobs["00000"].platform, None, None)
    waiting, *on_runners = learned.run_times(wanted)

    assert (waiting.estimate_s, waiting.samples) == (40.0, 3)
    # a runner that ran one job has left
    assert [row.builder for row in on_runners] == ["r0", "r1"]


def test_a_label_that_is_a_platform_is_read_as_one(tmp_path: Path):
    """Tables of runs have such labels: the platform was told as amd64/native/virtual."""
    tests = [
        attempt(n, BASE + n, BASE + n, BASE + n + 20.0, runner="r0", platform="amd64/native")
        for n in range(3)
    ]
    write_bundle(tmp_path / "native", bundle_of(tests))
    learned = learned_from(tmp_path / "native", None, NOWHERE, "last-3")

    wanted, _ = learned.hypothetical("job", learned.jobs["00000"].platform, None, None)
    _, on_runner = learned.run_times(wanted)

    assert str(wanted.platform) == "amd64/native"
    assert on_runner.builder == "r0"


def test_a_bundle_can_be_asked_at_an_earlier_time(records: Path):
    """With what was known then: the third build runs, two have ended."""
    learned = learned_from(records, None, NOWHERE, "last-3", at=5 + 130.0)

    [row] = learned.run_times(learned.job("00002"))

    assert (row.builder, row.elapsed_s, row.samples) == ("r0", 10.0, 2)


def test_a_run_starts_with_what_a_bundle_taught(records: Path):
    """Under the same key as a run does; its files are inputs of the run."""
    scenario = parse_scenario(
        small_scenario(
            scheduling={"runtime_estimates": "last-3"}, estimates={"learn_from": str(records)}
        )
    )

    estimator = seeded_estimator(scenario, played_again)

    assert estimator.estimate(Job(id="j", service_time=1.0, kind="test")) == 20.0
    result = farm.simulate(scenario)
    assert result.summary["jobs"]["succeeded"] == 1


def test_estimators_are_scored_on_a_bundle_over_all_jobs_and_by_rung(records: Path):
    """The total comes first: rungs alone do not say which estimator is nearer."""
    first, *rungs = rungs_of(records, ["last-3"])

    assert (first.rung, first.jobs) == (ALL_RUNGS, 15)
    assert sum(rung.jobs for rung in rungs) == 15
    errors = sum(rung.jobs * (rung.mean_absolute_error_time or 0.0) for rung in rungs)
    assert first.mean_absolute_error_time == pytest.approx(errors / 15)


def test_many_rungs_are_summed_up(tmp_path: Path):
    """An estimator with a rung for each factor printed a row for each, and no total."""
    jobs = [recorded(minute, "k", 30.0 - minute / 3, "host") for minute in range(60)]
    write_bundle(tmp_path / "b", bundle_of(jobs))
    asked = ["admin", "score", str(tmp_path / "b"), "--run-times", "boinc-dcf"]

    done = CliRunner().invoke(app, asked)

    assert done.exit_code == 0
    assert "boinc-dcf: off by " in done.stdout
    assert "over 60 jobs" in done.stdout
    rows = [line for line in done.stdout.splitlines() if "boinc-dcf: " in line]
    assert len(rows) < 30
    assert "more rungs" in done.stdout
    as_json = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert as_json[0]["rung"] == ALL_RUNGS
    assert len(as_json) > 20


def test_a_bundle_has_no_dispatch_estimates(records: Path):
    """The message names what can be asked of it."""
    with pytest.raises(InputError, match=r"bundle of records.*--run-times ESTIMATOR"):
        scores_of(records)


def test_what_runs_now_counts_as_longer_than_it_has_run(tmp_path: Path):
    """The short jobs end first: their times alone would promise too much of the others."""
    ended = [recorded(minute, "build", 50.0 + minute, "r0") for minute in range(20)]
    going = [
        recorded(minute, "build", 90_000.0, f"long{minute}", result="lost")
        for minute in range(20, 40)
    ]
    write_bundle(tmp_path / "records", bundle_of([*ended, *going]))
    at = 40 * 60.0 + 2000.0
    learned = learned_from(tmp_path / "records", None, NOWHERE, "last-3", at)
    wanted, _ = learned.hypothetical("build", learned.jobs["00000"].platform, None, None)
    waiting = learned.run_times(wanted)[0]
    assert len(learned.running) == 20
    assert waiting.p90_s is not None
    assert waiting.p90_s > 1.4 * 69.0
