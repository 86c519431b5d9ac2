"""Pipelines: how long they took, and what their critical paths were made of."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import farm
from farm.app.report import _pipelines
from farm.core.errors import InputError
from farm.results.comparison.compared_values import MetricComparison
from farm.results.exports import EXPORTS
from farm.results.run_directory import load_run
from farm.results.summary.objectives import measured, parse_objective
from farm.results.summary.run_phase import Window
from farm.results.summary.summary_table import render_summary
from farm.results.table.pipelines import pipelines_of
from farm.testing import small_scenario


def shown(run: farm.Result) -> str:
    """Return the summary as a terminal shows it."""
    console = Console(width=120)
    with console.capture() as text:
        console.print(render_summary(run.kept.summary))
    return text.get()


BOOTED = {"provisioner": {"algorithm": "taskcluster", "max": 1}, "boot_time": "20s"}


def run_of(*jobs: farm.Job, pool: dict[str, Any] | None = None) -> farm.Result:
    """Return the run of these jobs on one builder, or on another pool."""
    return farm.simulate(small_scenario(pool or {}), jobs=list(jobs))


def job(name: str, service_time: float, *needs: str, **more: Any) -> farm.Job:
    """Return a job for the pool, which arrives with the others."""
    more.setdefault("arrived_at", 0.0)
    return farm.Job(id=name, service_time=service_time, needs=needs, **more)


WORKFLOW = (
    job("lint", 10.0),
    job("build", 20.0, "lint"),
    job("short", 30.0, "build"),
    job("long", 40.0, "build"),
    job("package", 5.0, "short", "long", needs_delay=7.0),
)


def test_the_critical_path_says_what_the_response_time_was_made_of() -> None:
    """A user is shown builders as the remedy for what is a delay, or another job's run time."""
    [pipeline] = run_of(*WORKFLOW).pipelines()

    assert pipeline["critical_path"] == "lint;build;long;package"
    assert pipeline["response_time_s"] == 112.0
    assert pipeline["waiting_time_s"] == 30.0  # for the builder that ran the short one
    assert pipeline["blocked_time_s"] == 7.0
    assert pipeline["running_time_s"] == 75.0


def test_what_a_path_waited_for_a_boot_is_known() -> None:
    """Builders that come sooner would help there, and more of them would not."""
    [pipeline] = run_of(*WORKFLOW, pool=BOOTED).pipelines()

    assert pipeline["booting_time_s"] == 20.0
    assert pipeline["waiting_time_s"] == 51.0  # the builder is requested after a second
    assert pipeline["response_time_s"] == 133.0


@st.composite
def workflows(draw: st.DrawFn) -> list[farm.Job]:
    """Draw jobs that need some of those before them."""
    jobs: list[farm.Job] = []
    arrived_at = 0.0
    for number in range(draw(st.integers(2, 9))):
        before = [one.id for one in jobs]
        needs = draw(st.lists(st.sampled_from(before), unique=True)) if before else []
        conditions = draw(
            st.lists(
                st.sampled_from(["", ":ended", ":failed"]),
                min_size=len(needs),
                max_size=len(needs),
            )
        )
        arrived_at += draw(st.integers(0, 2))
        jobs.append(
            job(
                f"job-{number}",
                float(draw(st.integers(1, 9))),
                *map("".join, zip(needs, conditions, strict=True)),
                needs_delay=float(draw(st.integers(0, 3))) if needs else 0.0,
                arrived_at=arrived_at,
                fails=draw(st.booleans()),
                matrix=draw(st.sampled_from([None, "m"])),
                group=draw(st.sampled_from([None, "deploy"])),
            )
        )
    return jobs


@pytest.mark.slow
@given(workflows(), st.integers(1, 2))
@settings(max_examples=60)
def test_the_parts_of_a_critical_path_add_up_to_the_response_time(
    jobs: list[farm.Job], builders: int
) -> None:
    """Else a part of the time that users wait has no cause."""
    run = run_of(*jobs, pool={"builders": builders})
    rows = {row["job_id"]: row for row in run.jobs}

    for pipeline in run.pipelines():
        path = pipeline["critical_path"].split(";")
        parts = sum(pipeline[f"{part}_time_s"] for part in ("blocked", "waiting", "running"))
        assert parts == pytest.approx(pipeline["response_time_s"])
        assert pipeline["finished_at_s"] == rows[path[-1]]["finished_at_s"]
        for before, after in pairwise(path):
            assert before in {need.partition(":")[0] for need in rows[after]["needs"].split(";")}


def test_jobs_that_nothing_connects_are_no_pipeline() -> None:
    """A matrix whose jobs need nothing has its response time already."""
    run = run_of(job("a", 1.0, matrix="m"), job("b", 1.0, matrix="m"), *WORKFLOW)

    assert run.pipelines()["pipeline"].tolist() == ["lint"]
    assert run.summary["pipelines"]["count"] == 1


PUSHES = (
    job("old-build", 60.0, matrix="old", group="main:cancel"),
    job("old-test", 60.0, "old-build", matrix="old", group="main:cancel"),
    job("new-build", 60.0, matrix="new", group="main:cancel", arrived_at=30.0),
    job("new-test", 60.0, "new-build", matrix="new", group="main:cancel", arrived_at=30.0),
)


def test_superseded_pipelines_are_counted_and_their_times_left_out() -> None:
    """A run that a newer push cancelled after a moment would make the farm look fast."""
    summary = run_of(*PUSHES).summary

    assert summary["superseded_matrices"] == 1
    assert summary["matrix_response_time_s"]["mean"] == 120.0
    pipelines = summary["pipelines"]
    assert (pipelines["count"], pipelines["superseded"], pipelines["succeeded"]) == (2, 1, 1)
    assert pipelines["response_time_s"]["max"] == 120.0


def test_the_summary_says_it_in_two_lines() -> None:
    """Runs without needs have no such lines."""
    run = run_of(*WORKFLOW, *PUSHES)
    alone = run_of(job("a", 1.0))

    text = shown(run)
    assert "pipelines      3 in all, 2 succeeded; 1 superseded, whose times are left out" in text
    assert "critical path" in text
    assert "pipelines" not in shown(alone)
    assert "critical path" not in shown(alone)


def test_a_page_names_the_slowest_pipelines_with_their_paths() -> None:
    """A reader sees what to shorten; what a newer run cancelled is not among them."""
    [section] = _pipelines(run_of(*WORKFLOW, *PUSHES))

    assert section.words[0].startswith("Pipelines: 3 in all, 2 succeeded; 1 superseded")
    _, slowest = section.tables
    assert [row[0] for row in slowest.rows] == ["lint", "new"]
    assert slowest.rows[0][-1] == "lint → build → long → package"
    assert slowest.rows[1][-1] == "build → test"
    assert _pipelines(run_of(job("a", 1.0))) == []


def test_pipelines_are_exported_as_a_table(tmp_path: Path) -> None:
    """Spreadsheets and other programs read them."""
    run = load_run(run_of(*WORKFLOW).save(tmp_path / "run"))
    alone = load_run(run_of(job("a", 1.0)).save(tmp_path / "alone"))

    assert EXPORTS["pipelines"](run, tmp_path / "pipelines.csv") == 1
    header, row = (tmp_path / "pipelines.csv").read_text(encoding="utf-8").splitlines()
    assert header.startswith("pipeline,outcome,jobs,skipped,arrived_at_s,finished_at_s,response")
    assert row == "lint,succeeded,5,0,0.0,112.0,112.0,7.0,30.0,0.0,75.0,4,lint;build;long;package"
    with pytest.raises(InputError, match="no job of this run needs another"):
        EXPORTS["pipelines"](alone, tmp_path / "none.csv")


def chains(pool: dict[str, Any], group: str | None = None) -> farm.Result:
    """Return the run of twelve pushes, five seconds apart, which build and then test."""
    jobs = []
    for number in range(12):
        more = {"matrix": f"push-{number}", "group": group, "arrived_at": 5.0 * number}
        jobs += [
            job(f"build-{number}", 4.0, **more),
            job(f"test-{number}", 4.0 + number % 3, f"build-{number}", **more),
        ]
    return run_of(*jobs, pool=pool)


def compared(base: farm.Result, other: farm.Result, name: str) -> MetricComparison:
    """Return the comparison of a metric."""
    [pair] = farm.compare(base, other).pairs
    return next(metric for metric in pair.metrics if metric.metric == name)


def test_pipelines_are_compared_one_by_one() -> None:
    """A change of the farm is judged by what pushes take, and by what they wait."""
    base, other = chains({}), chains({"builders": 2})

    for name in ("pipeline_response_time mean", "pipeline_waiting_time mean"):
        metric = compared(base, other, name)
        assert metric.interval is not None
        assert metric.interval.method == "paired block bootstrap"
        assert metric.verdict == "better"


def test_other_pipelines_that_come_to_their_end_are_not_paired() -> None:
    """Where fewer are superseded, the difference is of other pipelines."""
    cancelling = "main:cancel"
    base = chains({}, cancelling)
    other = chains({"builders": 2, "speed": 3.0}, cancelling)

    metric = compared(base, other, "pipelines succeeded")
    assert (metric.base, metric.other) == (1.0, 12.0)
    assert compared(base, other, "pipeline_response_time p95").interval is None


def test_an_objective_may_be_of_pipelines() -> None:
    """A plan is sized by what a push takes from its arrival to its verdict."""
    run = run_of(*WORKFLOW, *PUSHES)
    assert run.records is not None

    [longest] = parse_objective("max(pipeline_response_time) < 2m")
    response_times = run.pipelines()["response_time_s"]
    assert measured(run.records, Window(), longest) == response_times.max()
    # a pipeline that began in the window counts with all its jobs, as in the summary
    first = Window(end=float(run.pipelines()["arrived_at_s"][0]) + 1e-3)
    assert measured(run.records, first, longest) == response_times[0]
    with pytest.raises(farm.InputError, match="found pipeline_response_time of linux; allowed: of"):
        parse_objective("max(linux.pipeline_response_time) < 2m")


def test_a_run_read_back_has_the_same_pipelines(tmp_path: Path) -> None:
    """Reports of recorded runs say what the run itself said."""
    run = run_of(*WORKFLOW, *PUSHES, pool=BOOTED)
    again = farm.open_run(run.save(tmp_path / "run"))

    for column in run.pipelines().columns:
        now, then = (one.pipelines()[column] for one in (run, again))
        same = np.allclose(now, then) if now.dtype.kind == "f" else now.tolist() == then.tolist()
        assert same, column
    causes = dict(zip(again.jobs["job_id"].tolist(), again.jobs["cause"].tolist(), strict=True))
    assert causes["old-test"] == "superseded"
    assert causes["new-test"] == "finished"


def test_both_engines_find_the_same_pipelines() -> None:
    """The compiled loop knows needs by numbers, the reference by names."""
    load = {
        "matrices": {
            "count": 6,
            "every": "1m",
            "service_time": {"exponential": {"mean": "30s"}},
            "fails": {"by_kind": {"build": 0.3}},
            "jobs": [
                {"name": "build"},
                {"name": "test", "needs": ["build"], "count": 2},
                {"name": "package", "needs": ["test"], "needs_delay": "9s"},
                {"name": "report", "needs": ["build:failed"]},
            ],
        }
    }
    scenario = small_scenario({}, load, seed=2)
    one, two = (farm.simulate(scenario, engine=engine) for engine in ("fast", "reference"))

    assert one.summary["engine"] == "fast"
    assert {"succeeded", "failed"} == set(one.pipelines()["outcome"].tolist())
    assert one.summary["pipelines"] == two.summary["pipelines"]
    assert list(one.pipelines()) == list(two.pipelines())


def test_a_circle_in_a_file_ends(tmp_path: Path) -> None:
    """A jobs.csv that was edited must not hang a report."""
    path = run_of(job("a", 0.0), job("b", 0.0, "a")).save(tmp_path / "run") / "jobs.csv"
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    changed = [line.replace(",,finished", ",b,finished") for line in lines]
    path.write_text("\n".join([header, *changed, ""]), encoding="utf-8")

    [pipeline] = pipelines_of(farm.open_run(tmp_path / "run").jobs)

    assert pipeline["jobs"] == 2
