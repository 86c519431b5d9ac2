"""Sweeps: what is varied, how they resume, and whether their verdicts can be trusted."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import farm
from farm.app.runs.simulated_run import figures_of_seeds, simulated_run
from farm.app.sweeps.axes import Axis, Grid, axis_of, parse_axis
from farm.app.sweeps.execution import FinishedRuns, SeededRun, play_all
from farm.cli.main import app
from farm.core.errors import InputError
from farm.results.comparison.significance import holm_levels, mean_of
from farm.results.comparison.sweep_judgement import Played, judge
from farm.scenario import Pool
from farm.scenario.provisioner import ProvisionerSettings
from farm.testing import small_scenario
from farm.workload import build_several
from provisioner.from_scenario import algorithms_of
from tests.fixtures.kernel import built

SMALL = {"workload__0__count": 60}


def rows(found: farm.SweepResult, metric: str = "waiting_time mean") -> list[dict[str, Any]]:
    """Return the tidy rows of one metric."""
    return [row for row in found.table if row["metric"] == metric]


def provisioned(**more: Any) -> dict[str, Any]:
    """Return a scenario of one fixed and one provisioned pool."""
    sizes = {"algorithm": "taskcluster", "min": 0, "max": 4, "scaling_ratio": 0.5, **more}
    return small_scenario(
        [
            {"name": "fixed", "platform": {"processor": "arm64"}},
            {"name": "cloud", "provisioner": sizes, "idle_timeout": "5m"},
        ],
        {"every": "10s", "count": 9, "service_time": "25s", "platform": {"processor": "amd64"}},
    )


def test_every_setting_gets_the_same_seeds_and_its_own_numbers() -> None:
    """A cell is the mean of exactly the runs that farm.simulate plays with these seeds."""
    found = farm.sweep("mm1", {"scheduling.policy": ["fifo", "sjf"]}, replications=3, **SMALL)
    for row in rows(found):
        policy = row["scheduling.policy"]
        runs = farm.simulate("mm1", seeds=range(1, 4), policy=policy, **SMALL)
        waits = [one.summary["waiting_time_s"]["mean"] for one in runs]
        assert row["mean"] == pytest.approx(np.mean(waits))
        assert row["median"] == pytest.approx(np.median(waits))
    fifo, sjf = rows(found)
    assert fifo["verdict"] is None
    assert sjf["difference"] == pytest.approx(sjf["mean"] - fifo["mean"])


def test_a_baseline_holds_all_else_equal() -> None:
    """With a baseline of one key each setting is set against its own neighbour."""
    vary = {"scheduling.policy": ["fifo", "sjf"], "pools.single.builders": [1, 2]}
    found = farm.sweep("mm1", vary, replications=2, baseline={"scheduling.policy": "fifo"}, **SMALL)
    compared = [row.baseline for row in found.rows if row.metric == "makespan"]
    assert compared[:2] == [None, None]
    assert compared[2:] == [
        {"scheduling.policy": "fifo", "pools.single.builders": number} for number in "12"
    ]
    # it is compared with the values of the axis, whatever their type
    vary, baseline = {"scheduling.fail_fast": [False, True]}, {"scheduling.fail_fast": True}
    found = farm.sweep("mm1", vary, replications=1, baseline=baseline, **SMALL)
    compared = [row.baseline for row in found.rows if row.metric == "makespan"]
    assert compared == [{"scheduling.fail_fast": "true"}, None]


def varied(axis: Axis, given: dict[str, Any] | None = None) -> list[list[Pool]]:
    """Return the pools of each setting of a scenario."""
    grid = Grid(farm.load_scenario(given or provisioned()), [axis])
    return [list(one.pools) for one in grid.scenarios.values()]


def test_a_pattern_means_every_pool_that_has_the_section() -> None:
    """``pools.*.provisioner.max`` leaves pools of fixed size alone."""
    found = varied(axis_of("pools.*.provisioner.max", [2, 3]))
    sizes = [[p.provisioner and p.provisioner.max for p in pools] for pools in found]
    assert sizes == [[None, 2], [None, 3]]


def test_another_algorithm_keeps_the_limits_and_not_the_options() -> None:
    """Options belong to an algorithm: the next one would refuse those of the former."""
    found = varied(parse_axis("pools.*.provisioner.algorithm=taskcluster,queue-depth"))
    sized = [cloud.provisioner for _, cloud in found]
    assert [(one and one.max, one and one.options) for one in sized] == [
        (4, {"scaling_ratio": 0.5}),
        (4, {}),
    ]
    # the least and most builders of a time are limits, other options of it are not
    times = [{"when": "sun", "min": 2, "scaling_ratio": 0.1}, {"when": "sat", "scaling_ratio": 1}]
    axis = parse_axis("pools.cloud.provisioner.algorithm=taskcluster,arc")
    same, other = (cloud.provisioner for _, cloud in varied(axis, provisioned(by_time=times)))
    assert same
    assert [one.options for one in same.by_time] == [
        {"min": 2, "scaling_ratio": 0.1},
        {"scaling_ratio": 1},
    ]
    assert other
    assert [(one.when, one.options) for one in other.by_time] == [(("sun",), {"min": 2})]


def test_without_the_preset_nothing_of_it_is_left() -> None:
    """A preset's values are those of the resolved scenario: another one must not keep them."""
    preset = {"algorithm": "buildkite", "preset": "elastic-ci-stack", "in_factor": 0.5}
    given = provisioned()
    given["pools"][1] |= {"provisioner": {**preset, "max": 7}, "idle_timeout": "10m"}
    axis = axis_of("pools.cloud.provisioner.preset", ["elastic-ci-stack", None])
    stack, none = (cloud for _, cloud in varied(axis, given))
    assert stack.provisioner
    assert stack.provisioner.options["disable_scale_in"] is True
    assert none.provisioner == ProvisionerSettings.model_validate(
        {"algorithm": "buildkite", "in_factor": 0.5, "max": 7}
    )
    assert none.idle_timeout is None


def test_a_setting_keeps_the_algorithms_own_interval() -> None:
    """KEDA plans every 15 s: a scenario that is resolved, and changed, must not say otherwise."""
    given = provisioned(algorithm="keda")
    del given["pools"][1]["provisioner"]["scaling_ratio"]
    grid = Grid(farm.load_scenario(given), [axis_of("pools.cloud.provisioner.max", [3])])
    [changed] = grid.scenarios.values()
    assert algorithms_of(changed)["cloud"].interval == 15.0


def test_a_section_comes_from_a_file(tmp_path: Path) -> None:
    """A file holds a section with its name above it, or without."""
    (tmp_path / "a.yaml").write_text("policy: sjf\n", encoding="utf-8")
    (tmp_path / "b.yaml").write_text("scheduling:\n  policy: ljf\n", encoding="utf-8")
    axis = parse_axis(f"scheduling=@{tmp_path / 'a.yaml'},@{tmp_path / 'b.yaml'}")
    grid = Grid(farm.load_scenario("mm1"), [axis])
    assert [one.scheduling.policy for one in grid.scenarios.values()] == ["sjf", "ljf"]


def test_a_key_that_changes_nothing_is_reported() -> None:
    """An idle time-out longer than the run has no effect, whatever its value."""
    vary = {"pools.cloud.idle_timeout": ["5h", "6h"], "pools.cloud.provisioner.max": [1, 4]}
    found = farm.sweep(provisioned(), vary, replications=1)
    assert found.sweep.without_effect == ("pools.cloud.idle_timeout",)


@pytest.mark.slow
def test_a_killed_sweep_resumes_with_the_same_bytes(tmp_path: Path) -> None:
    """Finished runs are kept, a file being written is whole or absent, the rest is run again."""
    words = "sweep mm1 --vary scheduling.policy=fifo,sjf -n 200 --set workload.0.count=2000 --quiet"
    command = [sys.executable, "-m", "farm", *words.split(), "--out"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*command, str(whole)], check=True, capture_output=True, timeout=120)
    process = subprocess.Popen([*command, str(killed)], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(list((killed / "finished").glob("*.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    finished = {path: path.stat().st_mtime_ns for path in (killed / "finished").glob("*.json")}
    assert 2 <= len(finished) < 400
    subprocess.run([*command, str(killed)], check=True, capture_output=True, timeout=120)
    for name in ("table.csv", "runs.csv", "sweep.json"):
        assert (whole / name).read_bytes() == (killed / name).read_bytes()
    assert all(path.stat().st_mtime_ns == at for path, at in finished.items())


def test_processes_give_what_one_process_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which process played a run changes nothing in it, nor what was drawn together with it."""
    orders = ("fifo", "random")
    scenarios = [farm.load_scenario("mm1", scheduling__policy=n, **SMALL) for n in orders]
    runs = [SeededRun(scenario, seed) for scenario in scenarios for seed in range(4)]
    alone = [play_all([run], lambda _: None)[0] for run in runs]
    assert play_all(runs, lambda _: None) == alone
    monkeypatch.setattr("farm.app.sweeps.execution.DRAWN_AT_ONCE", 120)
    monkeypatch.setattr("farm.processes.shared_work.WORTH_SHARING", 0.0)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    shared = play_all(runs, lambda _: None)
    assert shared == alone
    assert [s.seed for s in shared] == [0, 1, 2, 3] * 2


POISSON = {
    "poisson": {"rate": "20/h"},
    "duration": "2h",
    "service_time": {"exponential": {"mean": "3m"}},
}
TEAMS = {**POISSON, "attributes": {"team": {"a": 1, "b": 2}}}
SIZED = {
    "provisioner": {"algorithm": "taskcluster", "min": 0, "max": 4},
    "idle_timeout": "5m",
    "boot_time": "2m",
    "price": 0.3,
    "billing_unit": "1h",
}
PHASES = {"ramp_up": "20m", "run": "1h", "ramp_down": "20m"}


@built
@pytest.mark.parametrize("policy", ["fifo", "sjf", "ljf-aging"])
@pytest.mark.parametrize(
    "given",
    [
        small_scenario({"builders": 2}, [POISSON, TEAMS]),
        small_scenario({"slots": 3, "losses": {"at": ["20m", "30m"]}}, {**POISSON, "fails": 0.2}),
        small_scenario(SIZED, {**POISSON, "level": {0: 2, 7: 1}}, phases=PHASES),
    ],
    ids=["fixed", "lost", "provisioned"],
)
def test_runs_measured_together_have_the_figures_of_each(
    given: dict[str, Any], policy: str
) -> None:
    """To the last bit, whatever of the runs ends, leaves or counts."""
    scenario, seeds = farm.load_scenario(given, scheduling__policy=policy), range(4)
    load = build_several(scenario, seeds)
    assert load
    alone = [
        simulated_run(scenario.model_copy(update={"seed": n}), engine="reference") for n in seeds
    ]
    assert figures_of_seeds(scenario, seeds, load) == [one.kept.figures for one in alone]


def test_an_error_keeps_the_runs_that_were_finished_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were drawn together with the one that failed, too."""
    scenario = farm.load_scenario("mm1", scheduling__policy="random", **SMALL)
    played: Any = importlib.import_module("farm.app.sweeps.execution").simulated_run

    def fails(run: Any, **given: Any) -> Any:
        if run.seed == 2:
            raise InputError("seed 2 fails")
        return played(run, **given)

    monkeypatch.setattr("farm.app.sweeps.execution.simulated_run", fails)
    kept = FinishedRuns(tmp_path)
    with pytest.raises(InputError, match="seed 2 fails"):
        play_all([SeededRun(scenario, seed) for seed in range(4)], lambda _: None, kept=kept)
    assert len(list(tmp_path.iterdir())) == 2


OWN_POLICY = "def key(job, estimate, at, serial):\n    return ({}serial,)\n"


@pytest.fixture
def own_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a policy of the user's own: first come, first served."""
    path = tmp_path / "swept_policy.py"
    path.write_text(OWN_POLICY.format(""), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "swept_policy", raising=False)
    return path


def test_a_finished_run_is_repeated_after_a_change_of_own_code(
    own_policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kept result belongs to the code that made it: a new process runs the changed one."""
    own = {"scheduling__policy": "swept_policy:key", **SMALL}
    first, kept = (farm.sweep("mm1", replications=1, out=tmp_path / "out", **own) for _ in "12")
    own_policy.write_text(OWN_POLICY.format("-"), encoding="utf-8")
    monkeypatch.delitem(sys.modules, "swept_policy")
    changed = farm.sweep("mm1", replications=1, out=tmp_path / "out", **own)
    alone = farm.sweep("mm1", replications=1, **own)
    waits = [rows(found, "waiting_time p95")[0]["mean"] for found in (first, kept, changed, alone)]
    assert waits[0] == waits[1] != waits[2] == waits[3]


def test_the_key_of_a_run_covers_code_as_it_was_loaded(own_policy: Path) -> None:
    """An edit counts from when it is loaded: until then this process runs the old code."""
    scenario = farm.load_scenario("mm1", scheduling__policy="swept_policy:key", **SMALL)
    before = SeededRun(scenario, 1).key
    own_policy.write_text(OWN_POLICY.format("-"), encoding="utf-8")
    assert SeededRun(scenario, 1).key == before
    importlib.reload(sys.modules["swept_policy"])
    assert SeededRun(scenario, 1).key != before


@pytest.mark.parametrize(
    "changes",
    [
        {"scheduling__balancer": "swept_policy:key"},
        {"pools__single__behaviour": "swept_policy:key"},
        {"pools__single__provisioner": {"algorithm": "swept_policy:key", "max": 2}},
        {"workload__0": {"generator": {"function": "swept_policy:key"}}},
    ],
)
def test_the_key_of_a_run_covers_all_own_code(
    own_policy: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    """Balancers, behaviours, algorithms and generators change results as policies do."""
    if "pools__single__provisioner" in changes:
        changes = {**changes, "pools__single__builders": None}
    scenario = farm.load_scenario("mm1", **changes)
    before = SeededRun(scenario, 1).key
    own_policy.write_text(OWN_POLICY.format("-"), encoding="utf-8")
    monkeypatch.delitem(sys.modules, "swept_policy")
    assert SeededRun(scenario, 1).key != before


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("statistics.json", {"estimates__learn_from": "statistics.json"}),
        ("run/events.jsonl", {"estimates__learn_from": "run"}),
        ("mine/jobs.jsonl.gz", {"workload": [{"trace": {"path": "mine", "format": "bundle"}}]}),
    ],
)
def test_the_key_of_a_run_covers_the_files_that_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, changes: dict[str, Any]
) -> None:
    """Statistics in a file, the event log of a run, or a bundle, as a twin's jobs are."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_bytes(b"{}")
    scenario = farm.load_scenario("mm1", **changes)
    before = SeededRun(scenario, 1).key
    (tmp_path / file).write_bytes(b'{"more": 1}')
    assert SeededRun(scenario, 1).key != before


def test_other_directories_are_not_written_into(tmp_path: Path) -> None:
    """A directory with other files belongs to the user."""
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match="has other files"):
        farm.sweep("mm1", replications=1, out=tmp_path, **SMALL)


def test_only_a_sweep_of_the_same_scenario_resumes_in_a_directory(tmp_path: Path) -> None:
    """Other axes and more seeds are the same sweep; another scenario would replace its tables."""
    farm.sweep("mm1", replications=1, out=tmp_path, **SMALL)
    vary = {"scheduling.policy": ["fifo", "sjf"]}
    farm.sweep("mm1", vary, replications=2, out=tmp_path, **SMALL)
    before = (tmp_path / "table.csv").read_bytes()
    for scenario, count in (("quickstart", 60), ("mm1", 61)):
        with pytest.raises(InputError, match="has a sweep of another scenario"):
            farm.sweep(scenario, replications=1, out=tmp_path, workload__0__count=count)
    assert (tmp_path / "table.csv").read_bytes() == before


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_stated() -> None:
    """Where nothing differs, a family of ten comparisons calls anything better in ≤ 2.5 % (+ luck).

    200 sweeps of 10 settings with 8 seeds, from a skewed distribution; both directions count.
    """
    rng = np.random.default_rng(20)
    alarms = 0
    for _ in range(200):
        values = rng.exponential(10.0, (11, 8)) + rng.exponential(20.0, 8)
        means = [mean_of(values[place] - values[0]) for place in range(1, 11)]
        levels = holm_levels([mean.p or 0.0 for mean in means])
        judged = [mean.interval("t", level) for mean, level in zip(means, levels, strict=True)]
        alarms += any(interval is not None and not interval.holds_zero for interval in judged)
    assert alarms <= 10


@pytest.mark.slow
def test_equal_settings_are_rarely_distinguished() -> None:
    """A/A sweeps: of 200, each of two equal settings with jobs of their own, ≤ 5 % find better.

    Nothing but the interval decides: any difference would be relevant.
    """
    scenario = farm.load_scenario("mm1", workload__0__count=40)
    runs = play_all([SeededRun(scenario, number) for number in range(400)], lambda _: None)
    rng, found = np.random.default_rng(3), 0
    for _ in range(8):
        for group in rng.permutation(len(runs)).reshape(25, 2, 8).tolist():
            each = {
                (name,): [runs[n] for n in half] for name, half in zip("ab", group, strict=True)
            }
            played = Played(scenario="mm1", axes={"x": "ab"}, seeds=range(8), summaries=each)
            rows_of = judge(played, {"x": "a"}, relevant=0.0).rows
            found += any(r.verdict == "better" for r in rows_of if r.metric == "waiting_time mean")
    assert 0 < found <= 10, found


def test_json_is_the_kept_file(tmp_path: Path) -> None:
    """What is printed for machines is what is kept."""
    said = ["sweep", "mm1", "-n", "2", "--set", "workload.0.count=9", "--json", "--quiet"]
    shown = CliRunner().invoke(app, [*said, "--out", str(tmp_path / "s")])
    assert json.loads(shown.stdout) == json.loads((tmp_path / "s" / "sweep.json").read_text())


def shortest_estimate(job: farm.Job, estimate: float, at: float, serial: int) -> float:
    """A policy that other processes can import."""
    return estimate


def typed_policies() -> list[Any]:
    """Return policies of the same decisions that no other process can import."""

    def soonest(job: farm.Job, estimate: float, at: float, serial: int) -> float:
        return estimate

    def last(job: farm.Job, estimate: float, at: float, serial: int) -> float:
        return -estimate

    return [soonest, last]


class TestFunctions:
    """``farm.sweep`` takes what ``farm.simulate`` takes."""

    def test_policies_of_an_axis_may_be_functions(self) -> None:
        """They were refused as unknown names, or written into the scenario as text."""
        policies = ["fifo", shortest_estimate, typed_policies()[0], "sjf"]
        found = farm.sweep("quickstart", {"policy": policies}, replications=1)
        fifo, imported, typed, sjf = (row["mean"] for row in rows(found))
        assert imported == typed == sjf != fifo
        names = found.sweep.axes["scheduling.policy"]
        assert names[1] == f"{__name__}:shortest_estimate"

    def test_other_parts_may_be_functions(self) -> None:
        """Of all settings alike, as in one simulation with each seed."""
        parts: dict[str, Any] = {
            "policy": typed_policies()[1],
            "estimator": lambda job: job.service_time + 1.0,
            "jobs": [farm.Job(id=f"j{n}", service_time=9.0 - n, arrived_at=0.0) for n in range(9)],
        }
        found = farm.sweep("mm1", replications=2, **parts)
        alone = farm.simulate("mm1", **parts)
        assert [run["waiting_time_mean"] for run in found.runs] == [
            alone.summary["waiting_time_s"]["mean"]
        ] * 2

    def test_estimators_of_an_axis_may_be_functions(self) -> None:
        """The one of all settings does not stay beside an axis of estimators."""
        estimators = [lambda job: -job.service_time + 1e6, "oracle"]
        longest, shortest = rows(
            farm.sweep("quickstart", {"estimator": estimators}, replications=1, policy="sjf")
        )
        assert longest["mean"] != shortest["mean"]

    def test_what_cannot_be_a_function_is_named(self) -> None:
        """One sentence, and none of the runs is played."""
        with pytest.raises(InputError, match="builders: found a function; allowed: for policy, "):
            farm.sweep("mm1", {"pools.server.builders": [shortest_estimate]})
        twice = [lambda *_: 0, lambda *_: 1]
        with pytest.raises(InputError, match=r"found two functions .*lambda.*; allowed: .* other"):
            farm.sweep("mm1", {"policy": twice})
        with pytest.raises(InputError, match="redis: found functions that workers cannot import"):
            farm.sweep("mm1", policy=twice[0], redis="redis://nowhere")


def test_a_sweep_keeps_what_its_figures_are_of(tmp_path: Path) -> None:
    """A year later it was unknown by which version, and by which code, they were made."""
    policies = [shortest_estimate, *typed_policies()]
    farm.sweep("mm1", {"policy": policies}, replications=1, out=tmp_path / "all", **SMALL)
    meta = json.loads((tmp_path / "all" / "meta.json").read_text())
    assert meta["packages"]["build-farm-emulator"] == farm.__version__
    kept = sorted(path.name for path in (tmp_path / "all" / "code").iterdir())
    assert len(kept) == len(meta["inputs"]) == 3
    texts = [(tmp_path / "all" / "code" / name).read_text() for name in kept]
    assert any("def soonest(" in text for text in texts if "def last(" not in text)
    assert Path(__file__).read_text() in texts
