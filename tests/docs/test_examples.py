"""Every scenario of examples/ can be simulated, and is listed in its README."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

import farm
from farm.cli.main import app
from farm.core.errors import TraceError
from farm.scenario import load_scenario
from farm.scenario.packaged_examples import examples
from farm.workload import build_jobs

from .documents import ROOT

EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))

#: the span that is simulated of an endless example
PORTIONS = {"demo": ["--set", "phases.run=6h"], "developers": ["--set", "phases.run=1h"]}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_simulates(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """It loads, every job ends, and none is lost."""
    words = ["simulate", str(path), "--json", "--no-save", *PORTIONS.get(path.stem, ())]
    if "firefox" in path.stem:
        words += ["--set", f"workload.0.path={recording(tmp_path)}"]
    assert app(words, standalone_mode=False) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["jobs"]["submitted"] > 0
    assert summary["jobs"]["lost"] == 0


def recording(folder: Path) -> Path:
    """Write forty tasks, one an hour, in the format of Firefox CI's recordings."""
    trace = folder / "pool.dat"
    trace.write_bytes(b"".join(struct.pack(">II", n * 3_600_000, 90_000) for n in range(40)))
    return trace


def test_a_missing_recording():
    """The message says where to get it, and how to name one."""
    with pytest.raises(TraceError, match=r"get it from https://github\.com/taskcluster.*--set"):
        build_jobs(load_scenario("taskcluster-firefox"))


def test_what_an_example_needs_is_in_the_list():
    """Beside what it is about, before it is tried."""
    listed = examples()
    assert listed["taskcluster-firefox"].endswith("; needs a recording: the message of the first "
                                                  "try says where to get it")  # fmt: skip
    assert "; needs an idle machine, live" in listed["burning"]
    assert {"demo", "taskcluster-firefox-manual"} <= {
        n for n, it in listed.items() if "; need" in it
    }
    assert "need" not in listed["quickstart"]


@pytest.mark.slow
def test_what_the_page_on_pipelines_says_of_its_examples():
    """Each figure is that of the run."""
    six = farm.simulate("github-workflow")
    eight = farm.simulate("github-workflow", pools__runners__builders=8)
    assert waits_and_runs(six) == ["5.2", "18", "30", "65"]
    assert waits_and_runs(eight) == ["2.3", "9", "21", "38"]
    assert f"{six.summary['utilization']:.0%}" == "67%"
    assert (six.summary["skipped"], packaged(six)) == (234, (173, "32"))

    cancelling = farm.simulate("github-workflow-cancel")
    twelve = farm.simulate("github-workflow-cancel", pools__runners__builders=12)
    to_the_end = farm.simulate("github-workflow-cancel", workload__0__matrices__group=None)
    assert waits_and_runs(cancelling)[:2] == ["7.7", "21"]
    assert f"{to_the_end.summary['waiting_time_s']['mean'] / 3600:.1f}" == "9.3"
    assert (cancelling.summary["superseded"], packaged(cancelling)) == (4701, (145, "38"))
    assert (twelve.summary["superseded"], packaged(twelve)) == (2655, (267, "20"))
    assert waits_and_runs(twelve)[0] == "1.7"


@pytest.mark.slow
def test_what_the_page_on_closed_workloads_says_of_its_example():
    """Each figure is that of the run: developers, and as many pushes that wait for no verdict."""
    unasked = {"workload__0__matrices__users": None}
    unasked["workload__0__matrices__poisson__rate"] = "30/h"
    figures = {
        24: (["18", "26"], "30.4", ["19", "33"]),
        21: (["21", "32"], "29.2", ["33", "68"]),
        18: (["28", "43"], "26.8", ["235", "421"]),
    }
    for builders, (users, runs_per_hour, by_themselves) in figures.items():
        closed = farm.simulate("developers", pools__runners__builders=builders)
        opened = farm.simulate("developers", pools__runners__builders=builders, **unasked)
        assert waits_and_runs(closed)[2:] == users
        assert f"{closed.summary['runs_per_hour']:.1f}" == runs_per_hour
        assert waits_and_runs(opened)[2:] == by_themselves
    assert f"{closed.summary['utilization']:.0%}" == "97%"


def waits_and_runs(run: farm.Result) -> list[str]:
    """Return the mean and p95 of the waits of a run's jobs and of its matrices' responses (min)."""
    waits, runs = run.summary["waiting_time_s"], run.summary["matrix_response_time_s"]
    return [
        f"{waits['mean'] / 60:.1f}",
        *(f"{span / 60:.0f}" for span in (waits["p95"], runs["mean"], runs["p95"])),
    ]


def packaged(run: farm.Result) -> tuple[int, str]:
    """Return how many matrices of a run came to their end, and after how long on average (min)."""
    times = [
        row["response_time_s"]
        for row in run.jobs
        if row["kind"] == "package" and row["outcome"] == "succeeded"
    ]
    return len(times), f"{sum(times) / len(times) / 60:.0f}"


def test_every_example_is_listed():
    """examples/README.md says of each what to expect."""
    index = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    names = [path.relative_to(ROOT / "examples").as_posix() for path in EXAMPLES]
    assert [name for name in names if name not in index] == []
