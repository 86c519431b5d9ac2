"""Runs that are kept as their inputs: played again, they are the runs that --out writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import farm
from farm.app.recorded.auditing import audit_run
from farm.app.recorded.played_again import load_run
from farm.app.recorded.replaying import differences
from farm.app.runs.own_parts import OwnParts
from farm.app.runs.simulated_run import simulated_run
from farm.core.errors import InputError
from farm.results import run_directory
from farm.scenario import Scenario
from farm.sim.engines import Engine
from tests.fixtures.kernel import built

ROOT = Path(__file__).parents[2]
INPUTS = ["meta.json", "scenario.yaml", "summary.json"]
FULL = sorted([*INPUTS, "events.jsonl", "jobs.csv"])

TRACE = """\
id,submitted_at_s,service_time_s,kind,score,user
plain,0,30,build,0,=ann
'-1,1,5.25,"a, b",0.5,bob
"quoted ""\\"", ü",1,1e-7,test,0,ann
1e16,20.5,400,build,0,
"""
TRACED: dict[str, Any] = {
    "pools": [{"name": "linux", "platform": {"processor": "amd64"}, "builders": 2}],
    "workload": [{"trace": {"path": "jobs.csv", "format": "csv"}}],
}
OWN_POLICY = "def key(job, estimate, at, serial):\n    return ({}serial,)\n"


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep short runs, too, as their inputs."""
    monkeypatch.setattr("farm.app.recorded.run_recorder.MIN_JOBS_AS_INPUTS", 2)


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scenario:
    """A scenario with a trace, beside a policy of the user's own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(TRACE)
    (tmp_path / "kept_policy.py").write_text(OWN_POLICY.format(""))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "kept_policy", raising=False)
    return farm.load_scenario(TRACED)


def kept(scenario: Scenario, path: Path, engine: Engine = "auto") -> Path:
    """Play a scenario and keep it as a command without --out does."""
    simulated_run(scenario, out=path, in_full=False, engine=engine)
    return path


def names(folder: Path) -> list[str]:
    """Return the names of a folder's files."""
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("engine", [pytest.param("fast", marks=built), "reference"])
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("quickstart", {}),
        ("mm1", {"workload__0__count": 300}),
        ("ephemeral-runners", {}),
        ("", {}),
        ("", {"pools__linux__losses": {"rate": "20/h"}, "scheduling__retries": 9}),
    ],
)
def test_jobs_and_events_played_again_are_the_written_ones(
    traced: Scenario, tmp_path: Path, name: str, changes: dict[str, Any], engine: Engine
) -> None:
    """Byte for byte, by either engine, of examples and of a trace: no command sees a difference."""
    scenario = farm.load_scenario(name or traced, **changes)
    simulated_run(scenario, out=tmp_path / "written", engine="reference")
    run = load_run(kept(scenario, tmp_path / "kept", engine))

    assert (names(tmp_path / "written"), names(run.path)) == (FULL, INPUTS)
    assert b"".join(run.log_pieces()) == (tmp_path / "written/events.jsonl").read_bytes()
    with run.jobs_file() as table:
        assert table.read_bytes() == (tmp_path / "written/jobs.csv").read_bytes()
    assert names(farm.open_run(run.path).save(tmp_path / "saved")) == FULL
    for file in ("events.jsonl", "jobs.csv", "scenario.yaml"):
        saved, written = (tmp_path / way / file for way in ("saved", "written"))
        assert saved.read_bytes() == written.read_bytes()


def test_estimates_played_again_are_the_written_ones(tmp_path: Path) -> None:
    """Dispatch estimates are events and a column, too."""
    rules = {"estimates__rules": ["launchpad"], "workload__0__count": 60}
    scenario = farm.load_scenario("mmc", **rules)
    simulated_run(scenario, out=tmp_path / "written")
    run = load_run(kept(scenario, tmp_path / "kept"))
    assert b"".join(run.log_pieces()) == (tmp_path / "written/events.jsonl").read_bytes()
    assert b"estimate-made" in (tmp_path / "written/events.jsonl").read_bytes()


def test_an_audit_replays_what_was_played_again(traced: Scenario, tmp_path: Path) -> None:
    """The log that comes out is checked against summary and jobs as a written one is."""
    found = audit_run(kept(traced, tmp_path / "kept"))
    assert (found.jobs, found.wrong, found.not_replayed) == (4, "", "")


@built
def test_events_are_not_noted_for_a_run_that_is_kept_as_its_inputs(
    traced: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To note them takes as long again as to play, and they are not read."""
    noted = []

    def play(*given: Any, **more: Any) -> Any:
        noted.append(more["noted"])
        return played(*given, **more)

    played = sys.modules["farm.sim.fast.door"].play_columns  # type: ignore[attr-defined]
    monkeypatch.setattr("farm.sim.fast.door.play_columns", play)
    run = load_run(kept(traced, tmp_path / "kept"))
    assert len(run.jobs) == 4
    assert noted == [False, False]
    simulated_run(traced, out=tmp_path / "written")
    assert noted == [False, False, True]


def test_short_runs_and_those_that_take_long_are_written(
    traced: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few jobs are written at once; what took minutes is not played again to be looked at."""
    with monkeypatch.context() as patch:
        patch.setattr("farm.app.recorded.run_recorder.MAX_TIME_AGAIN", 0.0)
        assert names(kept(traced, tmp_path / "long", "reference")) == FULL
    monkeypatch.setattr("farm.app.recorded.run_recorder.MIN_JOBS_AS_INPUTS", 5)
    for engine in ("auto", "reference"):
        assert names(kept(traced, tmp_path / engine, engine)) == FULL


def test_what_cannot_be_played_again_is_written(traced: Scenario, tmp_path: Path) -> None:
    """Jobs of the caller's are in no file."""
    jobs = [farm.Job(id=f"j{n}", service_time=1.0, arrived_at=float(n)) for n in range(5)]
    simulated_run(traced, own=OwnParts(jobs=jobs), out=tmp_path / "own", in_full=False)
    assert names(tmp_path / "own") == FULL


@pytest.mark.parametrize("wanted", ["jobs", "events"])
@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("jobs.csv", "kept as its inputs, of which .*jobs.csv has changed since"),
        ("kept_policy.py", "kept as its inputs, of which kept_policy:key has changed since"),
        ("kept/scenario.yaml", "scenario.yaml: has changed since the run"),
    ],
)
def test_an_input_that_has_changed_is_named(
    traced: Scenario,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    says: str,
    wanted: str,
) -> None:
    """What it gives today is not passed off as the run's."""
    scenario = farm.load_scenario(traced, policy="kept_policy:key")
    run = farm.open_run(kept(scenario, tmp_path / "kept", "reference"))
    with (tmp_path / file).open("a") as changed:
        changed.write("\n# later\n")
    monkeypatch.delitem(sys.modules, "kept_policy", raising=False)
    with pytest.raises(InputError, match=says) as refused:
        list(getattr(run, wanted))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("file", ["jobs.csv", "kept_policy.py"])
def test_an_input_that_is_missing_is_named(
    traced: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """A trace was moved, or another folder is the present one."""
    scenario = farm.load_scenario(traced, policy="kept_policy:key")
    run = farm.open_run(kept(scenario, tmp_path / "kept", "reference"))
    (tmp_path / file).unlink()
    monkeypatch.delitem(sys.modules, "kept_policy", raising=False)
    with pytest.raises(InputError, match=r"of which .* is not there any more"):
        len(run.jobs)


def test_the_figure_in_which_another_version_differs_is_named(
    traced: Scenario, tmp_path: Path
) -> None:
    """It was kept by an older farm, and the message has the key and both values."""
    path = kept(traced, tmp_path / "kept")
    for file, changes in (("meta.json", {"python": "3.0"}), ("summary.json", {"makespan_s": 1.5})):
        content = json.loads((path / file).read_text())
        (path / file).write_text(json.dumps(content | changes))
    with pytest.raises(InputError) as refused:
        len(load_run(path).jobs)
    message = str(refused.value)
    assert "played again makespan_s is 420.5, not 1.5: Python is 3." in message
    assert "and was 3.0" in message


def test_figures_that_only_one_version_knows_are_not_compared() -> None:
    """A later version has more of them, and is no other play."""
    before = {"a": {"b": 1, "gone": 2}, "engine": "fast", "wall_time_s": 1.0}
    now = {"a": {"b": 1}, "more": 3, "engine": "reference", "wall_time_s": 2.0}
    assert list(differences(before, now)) == []
    assert list(differences(before, now | {"a": {"b": None}})) == [("a.b", 1, None)]


def test_a_run_that_has_no_digests_is_played_again(traced: Scenario, tmp_path: Path) -> None:
    """Runs of earlier releases have none."""
    path = kept(traced, tmp_path / "kept")
    meta = json.loads((path / "meta.json").read_text())
    assert sorted(meta["inputs"]) == sorted(["scenario.yaml", str(tmp_path / "jobs.csv")])
    del meta["inputs"]
    (path / "meta.json").write_text(json.dumps(meta))
    assert len(load_run(path).jobs) == 4


def test_estimators_learn_from_a_run_that_is_kept_as_its_inputs(tmp_path: Path) -> None:
    """They read its events, as those of a written run."""
    changes = {"workload__0__count": 30, "estimator": "last-3", "policy": "sjf"}
    kept(farm.load_scenario("mmc", **changes), tmp_path / "kept")
    farm.simulate("mmc", out=tmp_path / "written", **changes)
    summaries = []
    for name in ("kept", "written"):
        learning = farm.load_scenario("mmc", estimates__learn_from=str(tmp_path / name), **changes)
        summaries.append(farm.simulate(learning).summary | {"wall_time_s": 0.0})
        again = kept(learning, tmp_path / f"{name}-2")
        assert len(load_run(again).jobs) == 30
    assert summaries[0] == summaries[1]


def test_who_cannot_play_says_how_to_get_the_jobs(traced: Scenario, tmp_path: Path) -> None:
    """Parts of the farm that may not simulate, such as another program that reads runs."""
    run = run_directory.load_run(kept(traced, tmp_path / "kept"))
    assert not run.has_events
    with pytest.raises(InputError, match=r"farm simulate .*scenario\.yaml --out RUN"):
        len(run.jobs)
