"""Jobs that need others, played: closed forms, traces, scenarios, tables and the compiled loop."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest

import farm
from farm.assembly import make_rules
from farm.core.errors import InputError
from farm.core.model import Job
from farm.forecasts.runtime.oracle import Oracle
from farm.scenario import parse_scenario
from farm.sim.engines import CompiledRun, chosen, records_of
from farm.sim.fast import needed_jobs
from farm.sim.setting import Setting
from farm.workload import build_jobs, read_trace

PIPELINE = {
    "name": "pipeline",
    "pools": [{"name": "linux", "platform": {"processor": "amd64"}, "builders": 2}],
    "workload": [
        {
            "matrices": {
                "every": "10m",
                "count": 2,
                "service_time": "1m",
                "fails": {"by_kind": {"flaky": 1.0}},
                "jobs": [
                    {"name": "lint"},
                    {"name": "test", "needs": ["lint"], "count": 3, "service_time": "2m"},
                    {"name": "flaky", "needs": ["test"]},
                    {"name": "package", "needs": ["flaky"]},
                    {"name": "report", "needs": ["flaky:failed"], "needs_delay": "30s"},
                ],
            }
        }
    ],
}


def job(name: str, *needs: str, at: float = 0.0, **more: object) -> Job:
    """Return a job of a second."""
    return Job(id=name, service_time=1.0, arrived_at=at, needs=needs, **more)  # type: ignore[arg-type]


def test_a_matrix_of_named_jobs() -> None:
    """The form of CI files: several alike, needs by name, skipped jobs with their cause."""
    run = farm.simulate(PIPELINE)
    jobs = {row["job_id"]: row for row in run.jobs}
    assert sorted(jobs) == [
        f"amd64-000{n}-{name}"
        for n in (1, 2)
        for name in ("flaky", "lint", "package", "report", "test-1", "test-2", "test-3")
    ]
    assert jobs["amd64-0001-flaky"]["released_at_s"] == 300.0
    assert jobs["amd64-0001-flaky"]["blocked_time_s"] == 300.0
    assert jobs["amd64-0001-test-3"]["waiting_time_s"] == 120.0
    assert jobs["amd64-0001-package"]["outcome"] == "cancelled"
    assert jobs["amd64-0001-report"]["started_at_s"] == 390.0
    assert run.summary["skipped"] == 2
    assert run.summary["blocked_time_s"]["count"] == 12


def test_the_compiled_loop_leaves_groups_to_the_scheduler() -> None:
    """It says why, where it is asked for by name."""
    jobs = [job("a", group="deploy"), job("b", group="deploy")]
    with pytest.raises(InputError, match="does not cover jobs in groups"):
        farm.simulate("mm1", jobs=jobs, engine="fast")


@pytest.mark.usefixtures("kernel")
def test_both_engines_wait_from_the_release_on() -> None:
    """Plans take waits from compiled runs: those of blocked jobs do not begin on arrival."""
    scenario = parse_scenario(PIPELINE)
    load = list(build_jobs(scenario))
    rules = make_rules(scenario)
    setting = Setting.of(scenario, rules)
    compiled = chosen(setting, Oracle(), load, engine="fast")
    assert isinstance(compiled, CompiledRun)
    jobs = records_of(chosen(setting, Oracle(), load, engine="reference")).jobs
    waits = dict(zip(jobs.job_id, jobs.waiting_time, strict=True))
    np.testing.assert_array_equal(compiled.waits(), [waits[one.id] for one in load])


@pytest.mark.usefixtures("kernel")
def test_a_released_job_may_share_the_builder_whose_job_has_just_ended(tmp_path: Path) -> None:
    """The ended job slows it down no more, though its slot is free only after the release."""
    contention = {"slowdown": [1, 1, 2]}
    pool = {"name": "p", "slots": 2, "builders": 1, "contention": contention, "inter_job_time": 1}
    jobs = [job("a"), job("b", "a"), job("c", "a:ended"), job("d", "b:failed", "c:failed")]
    load = [
        msgspec.structs.replace(one, heavy=True, service_time=float(seconds))
        for seconds, one in enumerate(jobs, 1)
    ]
    logs = []
    for engine in ("fast", "reference"):
        run = farm.simulate({**PIPELINE, "pools": [pool]}, jobs=load, engine=engine)  # type: ignore[arg-type]
        logs.append((run.save(tmp_path / engine) / "events.jsonl").read_bytes())
    assert logs[0] == logs[1]


@pytest.mark.usefixtures("kernel")
def test_needs_within_a_matrix_are_told_without_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a million jobs in pipelines, names and needs as texts took longer than their run."""
    monkeypatch.setattr(needed_jobs, "_by_id", lambda *_: pytest.fail("told by names"))
    assert farm.simulate(PIPELINE, engine="fast").summary["skipped"] == 2


def test_other_runs_have_no_columns_of_it() -> None:
    """Tables, logs and summaries of farms without needs are as they were."""
    named = {"every": 1, "count": 2, "service_time": 1, "jobs": [{"name": "a"}, {"name": "b"}]}
    runs = [farm.simulate("mm1", jobs=[job("a"), job("b")], engine="reference")]
    runs.append(farm.simulate({**PIPELINE, "workload": [{"matrices": named}]}))
    for run in runs:
        assert "released_at_s" not in run.jobs.columns
        assert "blocked_time_s" not in run.summary


def test_the_critical_path_shortens_a_pipeline() -> None:
    """Of 200 jobs, most need no other; under fifo each stage of the chain waits behind them."""
    stages = [f"stage-{number}" for number in range(12)]
    chain = [
        {"name": name, "needs": [before] if before else [], "service_time": "4m"}
        for before, name in zip(["", *stages], stages, strict=False)
    ]
    load = {"every": 1, "count": 1, "service_time": {"exponential": {"mean": "1m"}}}
    jobs = [{"name": "test", "count": 188}, *chain]
    pools = [{"name": "linux", "platform": {"processor": "amd64"}, "builders": 4}]
    made = {**PIPELINE, "pools": pools, "workload": [{"matrices": {**load, "jobs": jobs}}]}
    rules = {"runtime_estimates": "oracle"}
    runs = {
        policy: farm.simulate({**made, "scheduling": {**rules, "policy": policy}}).summary
        for policy in ("fifo", "critical-path")
    }
    assert runs["critical-path"]["jobs"]["succeeded"] == 200
    assert runs["critical-path"]["utilization"] >= 0.8
    assert runs["critical-path"]["makespan_s"] <= 0.9 * runs["fifo"]["makespan_s"]


def table(path: Path, *rows: str) -> Path:
    """Write a trace."""
    head = "job_id,submitted_at_s,service_time_s,needs,needs_delay_s\n"
    path.write_text(head + "\n".join(rows) + "\n")
    return path


def test_a_trace_has_needs(tmp_path: Path) -> None:
    """By id, whatever the jobs are called in the run; those outside its window count as met."""
    path = table(tmp_path / "t.csv", "a,0,10,,", "b,0,10,a;c:ended,5", "c,0,10,,", "d,50,1,a,")
    scenario = {
        "name": "t",
        "pools": [{"name": "p", "builders": 4}],
        "workload": [{"trace": {"path": str(path)}}, {"trace": {"path": str(path), "name": "x"}}],
    }
    started = {row["job_id"]: row["started_at_s"] for row in farm.simulate(scenario).jobs}
    assert started["t-00000b"] == started["x-00000b"] == 15.0
    assert started["t-00000d"] == 50.0
    cut = {**scenario, "workload": [{"trace": {"path": str(path), "window": [40, 60]}}]}
    assert farm.simulate(cut).jobs["started_at_s"].tolist() == [10.0]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (["a,0,1,b,", "b,0,1,c:ended,", "c,0,1,a,"], r"t.csv:2: job a: .*a → b → c → a"),
        (["a,0,1,,", "b,0,1,x,"], "t.csv:3: job b: needs: found 'x', which is not known"),
        (["a,0,1,b,", "b,9,1,,"], "t.csv:2: .*found b, which arrives at 9s.*by 0s"),
        (["a,0,1,,-1"], "needs_delay_s: found '-1'"),
    ],
)
def test_a_trace_with_needs_that_cannot_be_met_is_refused(
    tmp_path: Path, rows: list[str], says: str
) -> None:
    """With the line of the table."""
    path = table(tmp_path / "t.csv", *rows)
    with pytest.raises(InputError, match=says):
        read_trace(path)


@pytest.mark.parametrize(
    ("jobs", "says"),
    [
        ([job("a", "b"), job("b", "a")], "jobs: a: needs: found a circle"),
        ([job("a", "b"), job("b", at=5.0)], "jobs: a: needs: found 'b', which is not known"),
    ],
)
def test_own_jobs_with_such_needs_are_refused(jobs: list[Job], says: str) -> None:
    """A job may need those that came before, or arrive with it."""
    with pytest.raises(InputError, match=says):
        farm.simulate("mm1", jobs=jobs)


@pytest.mark.parametrize(
    ("jobs", "says"),
    [
        ([{"name": "a", "needs": ["b"]}, {"name": "b", "needs": ["a"]}], "a → b → a"),
        ([{"name": "a", "needs": ["x"]}], "'x', which is not known"),
        ([{"name": "a"}, {"name": "a"}], "found a twice"),
        ([{"name": "a", "count": 1001}, {"name": "b", "needs": ["a"]}], "at most 1,000"),
    ],
)
def test_a_scenario_with_such_needs_is_refused(jobs: list[object], says: str) -> None:
    """Before anything is played."""
    matrices = {"every": 1, "count": 1, "service_time": 1, "jobs": jobs}
    with pytest.raises(InputError, match=says):
        farm.simulate({**PIPELINE, "workload": [{"matrices": matrices}]})


def exponential(dice: Random, mean: float) -> float:
    """Draw a time."""
    return dice.expovariate(1.0 / mean)


def test_a_job_that_never_got_its_place_was_blocked_to_its_end() -> None:
    """Else what is superseded while it waits for its group counts as free from its arrival on."""
    jobs = [
        job(name, at=at, group="main:latest") for name, at in (("a", 0), ("b", 0.25), ("c", 0.5))
    ]
    queued = [job("d", at=0.25, group="d:cancel"), job("e", at=0.75, group="d:cancel")]
    run = farm.simulate("mm1", jobs=[*jobs[:2], queued[0], jobs[2], queued[1]])
    table = {row["job_id"]: row for row in run.jobs}
    assert [table[name]["cause"] for name in "bd"] == ["superseded", "superseded"]
    assert np.isnan(table["b"]["released_at_s"])
    assert [table[name]["blocked_time_s"] for name in "bd"] == [0.25, 0.0]
    assert table["d"]["released_at_s"] == 0.25
