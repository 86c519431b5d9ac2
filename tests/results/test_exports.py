"""A finished run in other programs' formats, by the command line."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from farm.cli.main import app
from farm.workload import read_trace

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A small simulated run."""
    out = tmp_path_factory.mktemp("exports") / "run"
    few = ["--set", "workload.0.arrivals.count=200"]
    words = ["simulate", str(ROOT / "examples/mmc.yaml"), "--quiet", "--out", str(out), *few]
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    return out


@pytest.fixture
def export(farm, run: Path) -> Callable[..., Any]:
    """Export the run."""
    return lambda kind, out, *more: farm("admin", "export", run, "--format", kind, "-o", out, *more)


def test_csv_and_swf_are_read_again_as_the_same_jobs(farm, export, run: Path, tmp_path: Path):
    """Both are traces that a scenario may use: as many jobs, the same service times."""
    for kind, exact in (("csv", 1e-6), ("swf", 0.5)):
        file, again = tmp_path / f"run.{kind}", tmp_path / f"{kind}-again.csv"
        assert export(kind, file).code == 0
        assert farm("import", kind, file, "-o", again).code == 0
        with (run / "jobs.csv").open() as first, again.open() as second:
            there = sorted(float(row["service_time_s"]) for row in csv.DictReader(first))
            back = sorted(float(row["service_time_s"]) for row in csv.DictReader(second))
        assert back == pytest.approx(there, abs=exact)


def test_parquet_is_the_table_of_jobs(farm, export, run: Path, tmp_path: Path):
    """The columns of jobs.csv with their types; what is absent is null, not NaN or empty text."""
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "jobs.parquet"
    assert export("parquet", out).code == 0
    table = parquet.read_table(out)
    with (run / "jobs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert table.column_names == list(rows[0])
    types = {str(kind) for kind in table.schema.types}
    assert types == {"string", "double", "int64"}
    for name in rows[0]:
        read = float if str(table.schema.field(name).type) in ("double", "int64") else str
        cells = [None if row[name] == "" else read(row[name]) for row in rows]
        assert table[name].to_pylist() == cells, name
    assert table["matrix"].null_count == table["estimated_dispatch_at_s"].null_count == len(rows)


def test_parquet_without_its_library_is_one_message(export, tmp_path: Path, monkeypatch):
    """The message names the extra, and no file is left behind."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = export("parquet", tmp_path / "jobs.parquet")
    assert (done.code, list(tmp_path.iterdir())) == (2, [])
    assert "pip install 'build-farm-emulator[parquet]'" in " ".join(done.err.split())


def test_batsim_has_its_files(export, run: Path, tmp_path: Path):
    """A job a line, states that change, means that agree with the summary."""
    out = tmp_path / "batsim"
    assert export("batsim", out).code == 0
    summary = json.loads((run / "summary.json").read_text())
    schedule = json.loads((out / "schedule.json").read_text())
    assert schedule["nb_jobs"] == summary["jobs"]["submitted"] == 200
    assert schedule["mean_waiting_time"] == pytest.approx(summary["waiting_time_s"]["mean"])
    assert schedule["makespan"] == pytest.approx(summary["makespan_s"])
    with (out / "jobs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 200
    assert {row["final_state"] for row in rows} == {"COMPLETED_SUCCESSFULLY"}
    with (out / "machine_states.csv").open() as file:
        states = list(csv.DictReader(file))
    assert max(int(state["nb_computing"]) for state in states) == 4
    again = read_trace(out / "workload.json")
    assert {job.id: (job.kind, job.service_time) for job in again} == {
        row["job_id"]: (row["profile"], float(row["execution_time"])) for row in rows
    }


#: evalys' results from the files, as JSON
EVALYS = """
import sys, json
from pathlib import Path
from evalys.jobset import JobSet
from evalys.mstates import MachineStatesChanges
folder = Path(sys.argv[1])
jobs = JobSet.from_csv(folder / "jobs.csv")
states = MachineStatesChanges(folder / "machine_states.csv").df
print(json.dumps({
    "jobs": len(jobs.df), "wait": jobs.df.waiting_time.mean(), "machines": jobs.MaxProcs,
    "queue": float(jobs.queue.load.max()), "computing": int(states.nb_computing.max()),
}))
"""
#: a Python with evalys; read here, because the fixture `farm` hides such names
PYTHON = os.environ.get("FARM_EVALYS", sys.executable)


@pytest.fixture
def elastic(farm, tmp_path: Path) -> Path:
    """A run whose pool grows and shrinks, for Batsim's readers."""
    short = ["--set", "phases={run: 10m}", "--quiet", "--out", tmp_path / "elastic"]
    assert farm("simulate", ROOT / "examples/taskcluster-simple.yaml", *short).code == 0
    out = tmp_path / "batsim"
    assert farm("admin", "export", tmp_path / "elastic", "--format", "batsim", "-o", out).code == 0
    return out


def test_absent_builders_sleep(elastic: Path):
    """Readers of machine states expect the same sum in each row, whatever the pool's size."""
    with (elastic / "machine_states.csv").open() as file:
        states = [
            {k: int(v) for k, v in row.items() if k != "time"} for row in csv.DictReader(file)
        ]
    assert {sum(state.values()) for state in states} == {8}
    assert {state["nb_sleeping"] for state in states} >= {0, 8}


def test_evalys_reads_the_batsim_export(elastic: Path, tmp_path: Path):
    """Its jobs, waits and machines are the run's."""
    if subprocess.run([PYTHON, "-c", "import evalys.jobset"], capture_output=True).returncode:
        pytest.skip("needs a venv with `pip install evalys`, and FARM_EVALYS=<its python>")
    done = subprocess.run([PYTHON, "-c", EVALYS, elastic], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    with (tmp_path / "elastic/jobs.csv").open() as file:
        waits = [float(row["waiting_time_s"]) for row in csv.DictReader(file)]
    assert found["jobs"] == len(waits)
    assert found["wait"] == pytest.approx(sum(waits) / len(waits))
    assert (found["machines"], found["computing"]) == (8, 8)
    assert found["queue"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["openmetrics", "csv", "swf"])
def test_a_single_stream_can_go_to_standard_output(export, run: Path, tmp_path: Path, kind: str):
    """For a pipe: the same bytes as a file, and nothing else."""
    file = tmp_path / kind
    assert export(kind, file).code == 0
    words = [sys.executable, "-m", "farm.cli.main", "admin", "export", run, "--format", kind]
    path = os.environ | {"PYTHONPATH": str(ROOT)}
    piped = subprocess.run([*words, "-o", "-"], capture_output=True, text=True, env=path)
    assert (piped.returncode, piped.stdout) == (0, file.read_text())
    assert piped.stderr.startswith("standard output: ")
    assert kind != "openmetrics" or piped.stdout.endswith("# EOF\n")


def test_a_run_is_placed_away_from_live_metrics(export, run: Path, tmp_path: Path):
    """From a midnight on, and over three hours before it was made; otherwise with a note."""
    said = export("openmetrics", tmp_path / "text").err
    found = re.search(r"samples, (\S+ \S+) to (\S+ \S+) UTC", said)
    assert found is not None
    first, last = (datetime.fromisoformat(text + "+00:00") for text in found.groups())
    made = datetime.fromisoformat(json.loads((run / "meta.json").read_text())["ended"])
    assert (first.hour, first.minute) == (0, 0)
    assert timedelta(hours=3) <= made - last < timedelta(hours=28)
    assert "note" not in said
    now = ["--start", datetime.now(UTC).isoformat()]
    assert "note: it ends less than 3 hours ago" in " ".join(
        export("openmetrics", tmp_path / "again", *now).err.split()
    )


@pytest.mark.slow
def test_a_runs_tail_without_jobs_is_in_the_past_too(farm, tmp_path: Path):
    """Builders are lost and replaced for three days after the last job: a sample a minute."""
    scenario = tmp_path / "tail.yaml"
    scenario.write_text(
        "phases: {run: 3d}\n"
        "pools: [{name: p, platform: {processor: a}, builders: 1, losses: {rate: 1/h}}]\n"
        "workload: [{arrivals: {every: 1s, count: 5, service_time: 1s}}]\n"
    )
    run, text = tmp_path / "run", tmp_path / "text"
    assert farm("simulate", scenario, "--quiet", "--out", run).code == 0
    assert farm("admin", "export", run, "--format", "openmetrics", "-o", text).code == 0
    present = [
        line for line in text.read_text().splitlines() if line.startswith("farm_jobs_running")
    ]
    at = sorted({float(line.rpartition(" ")[2]) for line in present})
    made = datetime.fromisoformat(json.loads((run / "meta.json").read_text())["ended"]).timestamp()
    assert at[-1] < made - 3 * 3600 + 60
    assert at[0] % (24 * 3600) == 0
    assert 60 * 60 < len(at) <= 3 * 24 * 60


YEARS = "allowed: one that begins and ends in the years 1 to 9999"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["csv"], "-o, --into: found neither"),
        (["openmetrics", "-o", "new", "--into", "data"], "-o, --into: found both"),
        (["csv", "--into", "data"], "--into: found with --format csv; allowed: with openmetrics"),
        (["batsim", "-o", "-"], "-o -: batsim is four files"),
        (["openmetrics", "--into", "file"], "file: is no directory"),
        (["openmetrics", "-o", "new", "--start", "noon"], "--start: "),
        (["csv", "-o", "new", "--start", "2024-05-01"], "--start: found with --format csv"),
        (["swf", "-o", "new", "--interval", "5s"], "--interval: found with --format swf"),
        (["openmetrics", "-o", "new", "--interval", "0s"], "--interval: found 0s"),
        (["openmetrics", "-o", "new", "--start", "9999-12-31T23:59:59Z"], YEARS),
        (["openmetrics", "-o", "new", "--start", "0001-01-01T00:00:00+14:00"], YEARS),
        (
            ["pdf", "-o", "new"],
            "allowed: csv, parquet, pipelines, swf, batsim, taskcluster, openmetrics",
        ),
        (["csv", "-o", "file"], "exists already"),
    ],
)
def test_a_mistake_is_one_message(farm, run: Path, tmp_path: Path, words: list[str], told: str):
    """Options that do not go together, and values that are not allowed: nothing is written."""
    (tmp_path / "file").touch()
    done = farm("admin", "export", run, "--format", *words)
    assert (done.code, done.out) == (2, "")
    assert told in " ".join(done.err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("kind", ["batsim", "openmetrics"])
def test_a_failed_export_leaves_nothing_behind(farm, run: Path, tmp_path: Path, kind: str):
    """So it can be repeated under the same name."""
    damaged, out = tmp_path / "damaged", tmp_path / "exported"
    shutil.copytree(run, damaged)
    log = (damaged / "events.jsonl").read_bytes()
    (damaged / "events.jsonl").write_bytes(log + b"garbage\n")
    words = ("admin", "export", damaged, "--format", kind, "-o", out)
    assert farm(*words).code == 2
    assert list(tmp_path.iterdir()) == [damaged]
    (damaged / "events.jsonl").write_bytes(log)
    assert farm(*words).code == 0
    assert sorted(tmp_path.iterdir()) == [damaged, out]


@pytest.mark.parametrize("kind", ["csv", "openmetrics"])
def test_a_closed_standard_output_gets_one_message(export, monkeypatch, kind: str):
    """As after ``>&-`` in a shell."""
    monkeypatch.setattr(sys, "stdout", None)
    done = export(kind, "-")
    assert done.code == 2
    assert "-o -: standard output is closed" in done.err
