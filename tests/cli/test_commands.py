"""The commands when all is well: valid JSON, exit codes, saved runs, pipes."""

from __future__ import annotations

import csv
import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from farm.cli.runs.run_summary import exit_code, share_done
from farm.core.events import JobsSubmitted
from farm.core.model import Job
from farm.results.summary.figures import RunInfo
from farm.results.summary.summary import summarise
from farm.results.table.recorder import Recorder
from farm.scenario import parse_scenario
from farm.terminal import output
from farm.testing import small_scenario
from tests.cli.conftest import SMALL
from tests.fixtures.kernel import built
from tests.fixtures.processes import until


@pytest.fixture(autouse=True)
def small(tmp_path: Path) -> None:
    """Put a small scenario into the working directory."""
    (tmp_path / "farm.yaml").write_text(SMALL.replace("time: 5s", "time: 5s, fails: 0.5"))


def test_simulate_prints_json_and_keeps_the_run(farm, tmp_path: Path):
    """The summary printed is the summary saved; failing jobs are no failed run."""
    done = farm("simulate", "farm.yaml", "--json", "--out", "kept")
    assert done.code == 0, done.err
    summary = json.loads(done.out)
    kept = tmp_path / "kept"
    assert json.loads((kept / "summary.json").read_text())["jobs"] == summary["jobs"]
    assert (summary["world"], summary["jobs"]["submitted"], summary["jobs"]["lost"]) == (
        "simulated",
        5,
        0,
    )
    assert {path.name for path in kept.iterdir()} == {
        "scenario.yaml",
        "events.jsonl",
        "jobs.csv",
        "summary.json",
        "meta.json",
    }
    assert json.loads((kept / "meta.json").read_text())["state"] == "finished"
    with (kept / "jobs.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 5


def test_a_run_is_kept_under_the_next_number_unless_it_shall_not_be(farm, tmp_path: Path):
    """Numbers go on behind the highest; the commands that the output names work as printed."""
    (tmp_path / "runs/small-7").mkdir(parents=True)
    done = farm("simulate", "farm.yaml")
    page = done.err.partition("a page of it: farm ")[2]
    assert "kept in runs/small-8 (" in done.err
    assert farm(*page.split()).code == 0
    assert (tmp_path / "small-8.html").is_file()
    quiet = farm("simulate", "farm.yaml", "--json", "--set", "name=né")
    assert (quiet.err, (tmp_path / "runs/né-1/jobs.csv").is_file()) == ("", True)
    assert farm("simulate", "farm.yaml", "--no-save").code == 0
    assert farm("simulate", "farm.yaml", "--set", "pools.linux.builders=0").code == 2
    runs = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert runs == ["né-1", "small-7", "small-8"]
    refused = farm("simulate", "farm.yaml", "--no-save", "--out", "one")
    assert (refused.code, "--no-save: found with --out" in refused.err) == (2, True)


def test_a_run_that_cannot_be_kept_is_played(farm, tmp_path: Path):
    """As in a folder that may only be read: a warning, and the results."""
    (tmp_path / "runs").write_text("a file")
    done = farm("simulate", "farm.yaml", "--json")
    assert (done.code, json.loads(done.out)["jobs"]["submitted"]) == (0, 5)
    assert "warning: the run is not kept: runs: File exists; see --out" in done.err


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the small scenario's runs as their inputs."""
    monkeypatch.setattr("farm.app.recorded.run_recorder.MIN_JOBS_AS_INPUTS", 5)


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize(
    "engine", [pytest.param("fast", marks=[built, pytest.mark.slow]), "reference"]
)
def test_a_run_of_many_jobs_is_kept_as_its_inputs(farm, tmp_path: Path, engine: str):
    """To write its jobs takes longer than to play it again, which what reads them does."""
    done = farm("simulate", "farm.yaml", "--engine", engine)
    assert "kept in runs/small-1 as inputs, played again when needed (jobs.csv: --out RUN)" in (
        done.err
    )
    kept = sorted(path.name for path in (tmp_path / "runs/small-1").iterdir())
    assert kept == ["meta.json", "scenario.yaml", "summary.json"]
    page = done.err.partition("a page of it: farm ")[2]
    assert farm(*page.split()).code == 0
    assert farm("report", "runs/small-1", "--figure", "queue", "-o", "queue.svg").code == 0
    assert "sound: 19 events, 5 jobs" in farm("admin", "audit", "runs/small-1").out


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize(
    ("form", "file"),
    [
        *[("csv", "jobs"), ("swf", "jobs"), ("taskcluster", "store"), ("github", "jobs.json")],
        *[("openmetrics", "run.txt"), ("batsim", "batsim/machine_states.csv")],
    ],
)
def test_a_run_kept_as_its_inputs_is_exported_as_a_written_one(
    farm, tmp_path: Path, form: str, file: str
):
    """Byte for byte; what reads runs does not notice how they are kept."""
    options = ["--start", "2024-05-01T00:00:00Z"] if form == "openmetrics" else []
    contents = []
    for name, place in (("kept", []), ("written", ["--out", "written/small-1"])):
        assert farm("simulate", "farm.yaml", "--quiet", *place).code == 0
        run = "written/small-1" if place else "runs/small-1"
        target = f"{name}-{file.partition('/')[0]}"
        done = farm("admin", "export", run, "--format", form, "-o", target, *options)
        assert done.code == 0, done.err
        contents.append((tmp_path / f"{name}-{file}").read_bytes())
    assert contents[0] == contents[1]


@pytest.mark.usefixtures("few_are_many")
def test_a_run_kept_as_its_inputs_is_compared_as_a_written_one(farm):
    """Job by job."""
    assert farm("simulate", "farm.yaml", "--quiet").code == 0
    for name, more in (("written", ()), ("other", ("--set", "pools.linux.builders=1"))):
        assert farm("simulate", "farm.yaml", "--quiet", "--out", name, *more).code == 0
    kept, written = (
        farm("compare", run, "other", "--json").out.replace(run, "RUN")
        for run in ("runs/small-1", "written")
    )
    assert kept == written != ""


@pytest.mark.usefixtures("few_are_many")
def test_an_edited_scenario_of_a_run_is_refused_in_one_sentence(farm, tmp_path: Path):
    """What it gives today is not passed off as the run's."""
    assert farm("simulate", "farm.yaml", "--quiet").code == 0
    file = tmp_path / "runs/small-1/scenario.yaml"
    file.write_text(file.read_text().replace("builders: 2", "builders: 1"))
    done = farm("report", "runs/small-1", "-o", "page.html")
    assert done.code == 2
    assert done.err == "error: runs/small-1/scenario.yaml: has changed since the run was kept\n"


@built
def test_a_run_that_took_long_says_why_it_was_not_compiled(farm, monkeypatch):
    """Protects who wonders why one scenario takes ten times as long as another."""
    monkeypatch.setattr("farm.cli.runs.simulate.WORTH_A_REASON", 0.0)
    words = "played by the scheduler itself, as the compiled loop does not cover fair share"
    assert words in farm("simulate", "farm.yaml", "--set", "scheduling.fair_share=[user]").err
    assert "compiled loop" not in farm("simulate", "farm.yaml").err


def test_a_kept_scenario_runs_again_the_same(farm, tmp_path: Path):
    """scenario.yaml is the whole scenario: the same log comes out."""
    assert farm("simulate", "farm.yaml", "--quiet", "--out", "one").code == 0
    assert farm("simulate", "one/scenario.yaml", "--quiet", "--out", "two").code == 0
    logs = [(tmp_path / run / "events.jsonl").read_bytes() for run in ("one", "two")]
    assert logs[0] == logs[1]


def test_an_import_recognises_its_source(farm):
    """As doctor and twin do; what it is called need not be known."""
    assert farm("simulate", "farm.yaml", "--quiet", "-o", "run").code == 0
    assert farm("admin", "export", "run", "--format", "github", "-o", "runs.json").code == 0
    assert "mine: 5 attempts" in farm("import", "runs.json", "-o", "mine").err


def test_an_option_of_traces_is_not_ignored_with_records(farm):
    """All jobs came into the bundle, where the first five were asked for."""
    assert farm("simulate", "farm.yaml", "--quiet", "-o", "run").code == 0
    assert farm("admin", "export", "run", "--format", "github", "-o", "runs.json").code == 0
    for words in (("--jobs", "5"), ("--parallel", "split")):
        said = farm("import", "runs.json", "-o", "mine", *words)
        assert (said.code, words[0] in said.err) == (2, True)


def test_compare_prints_a_table_and_json(farm):
    """Two runs, also of different scenarios and seeds, side by side."""
    farm("simulate", "farm.yaml", "--quiet", "--out", "one")
    changes = "--set seed=9 --set pools.linux.builders=1 --set workload.0.arrivals.count=9"
    farm("simulate", "farm.yaml", *changes.split(), "--quiet", "--out", "two")
    done = farm("compare", "one", "two")
    assert done.code == 0, done.err
    assert "one" in done.out
    done = farm("compare", "one", "two", "one", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)


@pytest.mark.parametrize("stop", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt])
def test_a_table_that_cannot_be_finished_is_not_there(farm, tmp_path: Path, monkeypatch, stop):
    """A part of it reads as a smaller load: neither it nor its draft is left."""

    def written_in_part(_jobs: object, path: Path, *_: object, **__: object) -> None:
        path.write_text("job_id,submitted_at_s,service_time_s\n")
        raise stop

    monkeypatch.setattr("farm_twin.commands.import_trace.write_csv", written_in_part)
    (tmp_path / "a.csv").write_text("job_id,submitted_at_s,service_time_s\na,0,5\n")
    assert farm("import", "csv", "a.csv", "-o", "b.csv").code != 0
    assert not list(tmp_path.glob("b.csv*"))


def test_import_round_trip(farm, tmp_path: Path):
    """An imported trace can be imported and run again, with the same result."""
    swf = (
        "1 0 0 10 1 -1 -1 -1 -1 -1 1 7 1 1 1 1 -1 -1\n2 5 0 20 1 -1 -1 -1 -1 -1 1 8 1 1 1 1 -1 -1\n"
    )
    (tmp_path / "t.swf").write_text("; Version: 2\n" + swf)
    assert farm("import", "swf", "t.swf", "-o", "a.csv", "--quiet").code == 0
    again = farm("import", "csv", "a.csv", "-o", "b.csv")
    assert again.code == 0, again.err
    assert "2 jobs" in again.err
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    text = SMALL[: SMALL.index("workload")] + "workload: [{trace: {path: b.csv}}]\n"
    (tmp_path / "traced.yaml").write_text(text)
    done = farm("simulate", "traced.yaml", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["jobs"]["succeeded"] == 2


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        pytest.param("init --schema", marks=pytest.mark.slow),
        pytest.param("simulate farm.yaml --json", marks=pytest.mark.slow),
    ],
)
def test_a_pipe_that_is_closed_early(tmp_path: Path, words):
    """A closed pipe (``| head -1``) is no error: no traceback, no noise."""
    (tmp_path / "farm.yaml").write_text(SMALL)
    command = f"{sys.executable} -m farm.cli.main {words} | head -c 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert done.stderr == ""
    assert done.returncode == 0


def test_lost_jobs_are_exit_code_1():
    """The run ended, but jobs were lost: scripts must see it."""
    recorder = Recorder()
    info = RunInfo(name="x", world="simulated", engine="e", seed=1, policy="fifo")
    assert exit_code(summarise(recorder.records(), info, 0.0)) == 0
    recorder(JobsSubmitted(0.0, (Job(id="a", service_time=1.0),)), [])
    assert exit_code(summarise(recorder.records(), info, 0.0)) == 1


def interrupted(*_: object, **__: Any) -> None:
    """Be ended by Ctrl-C."""
    raise KeyboardInterrupt


LATE, EARLY = "farm.sim.simulation.Simulation.play", "farm.cli.runs.simulate.load_scenario"


@pytest.mark.parametrize("where", [LATE, EARLY])
def test_ctrl_c_is_exit_code_130(farm, monkeypatch, tmp_path: Path, where):
    """Whenever it comes: no traceback, and a run directory marked as unfinished."""
    monkeypatch.setattr(where, interrupted)
    done = farm("simulate", "farm.yaml", "--out", "kept", "--engine", "reference")
    assert done.code == 130
    assert "Traceback" not in done.err
    assert done.out == ""
    if where == LATE:
        assert done.err.endswith(
            "what happened until then is in kept; the same command begins a new run\n"
        )
        assert json.loads((tmp_path / "kept" / "meta.json").read_text())["state"] != "finished"


@pytest.mark.parametrize(
    ("words", "where", "said"),
    [
        (["plan", "farm.yaml", "--slo", "p95(waiting_time) < 5m"], "forecasts.plan.plan_pools",
         "nothing was tried; nothing is kept; the same command begins again"),
        (["sweep", "farm.yaml", "--vary", "policy=fifo,sjf", "-o", "all"], "runs.sweep.play_sweep",
         "the 0 finished runs stay in all: the same command continues"),
        (["up", "farm.yaml"], "live_farm.up.start_in_background",
         'farm "small" was stopped; its jobs stay in .farm'),
    ],
)  # fmt: skip
def test_ctrl_c_says_what_is_kept_and_how_to_go_on(farm, monkeypatch, words, where, said):
    """On standard error, with exit code 130."""
    monkeypatch.setattr(f"farm.cli.{where}", interrupted)
    done = farm(*words)
    assert (done.code, done.out) == (130, "")
    assert done.err.startswith("interrupted: ")
    assert said in done.err


def test_names_of_any_script_are_taken_and_shown_as_far_as_the_terminal_can(farm, tmp_path: Path):
    """A run, a processor, a team may be called größe; an ASCII terminal gets an escape."""
    text = SMALL.replace("small", "größe").replace("amd64", "größe")
    (tmp_path / "named.yaml").write_text(text, encoding="utf-8")
    words = ["simulate", "named.yaml", "--quiet"]
    assert "größe" in farm(*words).out
    done = subprocess.run(
        [sys.executable, "-m", "farm", *words],
        cwd=tmp_path,
        env={"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert r"gr\xf6\xdfe" in done.stdout.decode("ascii")


@pytest.mark.parametrize(
    ("changes", "at", "ended", "share"),
    [
        ({}, 3.0, 2, 400),
        ({"phases": {"ramp_up": 0, "run": 60, "ramp_down": 0}}, 15.0, 0, 250),
        ({"phases": {"ramp_up": 0, "run": 60, "ramp_down": 0}}, 90.0, 5, 1000),
    ],
)
def test_the_share_of_a_run_is_by_its_phases_or_its_jobs(changes, at, ended, share):
    """Of a trace, whose jobs are not known before, nothing is said."""
    small = parse_scenario(small_scenario(load={"every": "10s", "count": 5}, **changes))
    assert share_done(small, at, ended) == {"completed": share, "total": 1000}
    trace = parse_scenario(small_scenario(load=[{"trace": {"path": "jobs.csv"}}]))
    assert share_done(trace, at, ended) == {}


def test_progress_is_shown_also_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A line every few seconds, and of runs how long the rest takes."""
    monkeypatch.setattr(output, "LINE_EVERY", 0.005)

    def said(text: str) -> None:
        until(lambda: text in capsys.readouterr().err, text)

    with output.counted_progress("runs") as told:
        told(0, 4)
        said("0 of 4 runs, 0s so far\n")
        told(2, 4)
        said("2 of 4 runs, ")
    with output.progress("reading"):
        said("reading, 0s so far\n")
    lines = output._ProgressLines("runs")  # of those made in the first 10 s, 3 are left
    lines.take(completed=0, total=5)
    lines.take(completed=2)
    lines._made_after = 10.0
    assert [lines._line(spent) for spent in (10, 14, 30)] == [
        "2 of 5 runs, about 15s left",
        "2 of 5 runs, about 11s left",
        "2 of 5 runs, 30s so far",
    ]
    lines.take(completed=1, total=100)
    assert "left" not in lines._line(10), "a hundredth of the work says nothing of the rest"
    lines._total = 5
    for completed in (1, 2):  # of what comes next
        lines.take(completed=completed)
    lines._made_after = 10.0
    assert lines._line(10) == "2 of 5 runs, about 30s left"
    capsys.readouterr()
    with output.counted_progress("runs", silent=True) as told:
        told(1, 4)
    assert capsys.readouterr().err == ""
