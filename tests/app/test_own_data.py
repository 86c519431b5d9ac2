"""Other people's tables as workloads, and scenarios generated from them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import farm
from farm.app.first_scenario import write_first_scenario
from farm.cli.main import app
from farm.core.errors import FarmError, TraceError
from farm.core.model import Job
from farm.records.traces import read_records
from farm.scenario import TraceOptions
from farm.testing import small_scenario
from farm.workload import read_trace

TABLE = """job,created_at,started_at,finished_at,tags,owner,colour
7,2024-05-01T10:00:00+02:00,2024-05-01T10:01:00+02:00,2024-05-01T10:06:30+02:00,linux-x64,core,red
8,2024-05-01T08:00:10Z,1714550500,1714550600500,gpu,web,blue
9,2024-05-01 08:00:20,,,gpu,web,blue
10,2024-05-01T08:00:30Z,2024-05-01T09:00:00Z,2024-05-01T08:59:00Z,gpu,web,blue
"""
FIELDS = {
    "id": "job", "submitted": "created_at", "started": "started_at", "finished": "finished_at",
    "platform": "tags", "team": "owner",
}  # fmt: skip
#: of a shorter table
SHORT = {"submitted": "at", "duration": "took"}
COLUMNS = [word for ours, theirs in FIELDS.items() for word in ("--column", f"{ours}={theirs}")]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Write a table as a CI's database exports it."""
    path = tmp_path / "ci.csv"
    path.write_text(TABLE, encoding="utf-8")
    return path


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., list[Job]]:
    """Write a table, and read its jobs; by default its columns are ``at`` and ``took``."""

    def read(text: str, fields: dict[str, str] | None = SHORT) -> list[Job]:
        (tmp_path / "t.csv").write_text(text, encoding="utf-8", newline="")
        return list(read_trace(tmp_path / "t.csv", "csv", TraceOptions(fields=fields)))

    return read


def test_instants_of_any_kind_are_put_on_one_clock(read: Any) -> None:
    """Zones, no zone, seconds and milliseconds since 1970: the first arrival is 0."""
    jobs = read(TABLE, FIELDS)
    assert [(job.id, job.arrived_at, job.service_time) for job in jobs] == [
        ("7", 0.0, 330.0),
        ("8", 10.0, 100.5),
    ]
    assert [str(job.platform) for job in jobs] == ["linux-x64/virtual", "gpu/virtual"]
    assert jobs[0].attributes == {"team": "core"}


def test_spans_and_times_of_the_trace_stay_as_they_are(read: Any) -> None:
    """Numbers that are no calendar time are not moved."""
    jobs = read("at,took\n100,5m30s\n160,12.5\n")
    assert [(job.arrived_at, job.service_time) for job in jobs] == [(100.0, 330.0), (160.0, 12.5)]
    assert [job.arrived_at for job in read("at,took\n-3,1\n4,1\n")] == [0.0, 7.0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("at,took\n0,abc\n", ":2: duration: found 'abc'; allowed: seconds, or numbers with units"),
        ("at,took\n0,1\n0,inf\n", ":3: duration: found 'inf'; allowed: a finite number"),
        # two clocks in one column are a mistake
        ("at,took\n2026-03-02T06:00:00Z,5\n12,5\n", ":3: submitted: found '12' below dates; all"),
        ("at,took\n2026-02-29T06:00:00Z,5\n", "'2026-02-29T06:00:00Z'; allowed: a time that there"),
        ("at,took\n12,5\n1772431200,5\n", "found '1772431200' below seconds of the trace's own"),
        ("at,took\n12,5\n2026-03-02T06:00:00Z,5\n", "Z' below seconds of the trace's own time; al"),
        ("", "is empty; allowed: a line that names the columns"),
        ("at,took\n", "found no job that can be used"),
        # values that no column has a name for would otherwise be lost in silence
        ("at,took\n0,1\n1,2,3\n", ":3: more values than the header has columns"),
        ("at;took;at,b\n", "found no job that can be used"),
        ("at\n1\n", "column duration=took: there is no such column; allowed: at"),
    ],
)
def test_a_mistake_in_a_table_is_one_message(read: Any, text: str, told: str) -> None:
    """It names the line or column, and says once what was found."""
    with pytest.raises(FarmError) as caught:
        read(text)
    assert told in str(caught.value)
    assert str(caught.value).count("found") <= 1


def test_a_fraction_of_a_second_may_have_a_comma(read: Any) -> None:
    """ISO 8601 allows both; without it the service time would be a whole second."""
    times = "2024-02-29T10:00:00,900Z;2024-02-29T10:00:01.100Z"
    fields = {"submitted": "from", "started": "from", "finished": "to"}
    (job,) = read(f"from;to\n{times}\n", fields)
    assert job.service_time == pytest.approx(0.2)


@pytest.mark.parametrize("between", [",", ";", "\t"])
def test_whatever_stands_between_columns(read: Any, between: str) -> None:
    """Spreadsheets write semicolons where a comma is the decimal point, marks, and CRLF."""
    text = TABLE.replace(",", between).replace("\n", "\r\n")
    assert [job.service_time for job in read(f"\ufeff{text}", FIELDS)] == [330.0, 100.5]


def test_names_that_say_all_times_need_no_mapping(tmp_path: Path) -> None:
    """With their units; of two arrivals a job waits from the one of the queue."""
    path = tmp_path / "t.csv"
    path.write_text("ID,created_at,Run Time (ms),team\n7,90,5000,a\n", encoding="utf-8")
    records = read_records(path, None, TraceOptions())
    assert (records.arrived.tolist(), records.service.tolist()) == ([90.0], [5.0])
    assert (records.ids, records.details["attributes"].tolist()) == (["7"], [{"team": "a"}])
    assert records.remarks == [
        "by its names: ID is id, created_at is submitted, Run Time (ms) is duration"
    ]
    path.write_text("created_at,queued_at,duration\n1,2,3\n", encoding="utf-8")
    assert read_records(path, None, TraceOptions()).arrived.tolist() == [2.0]
    path.write_text("created_at,submitted_at,duration\n1,2,3\n", encoding="utf-8")
    with pytest.raises(TraceError, match="found no column submitted_at_s"):
        read_records(path, None, TraceOptions())
    # as `gh api` calls them; whether a job is completed is no time of it
    at = "2026-11-02T09:0{}:00Z"
    path.write_text(
        "id, created_at, started_at, completed_at, completed\n"
        f"7, {at.format(0)}, {at.format(1)}, {at.format(5)}, yes\n",
        encoding="utf-8",
    )
    found = read_records(path, "csv", TraceOptions())
    assert (found.service.tolist(), found.arrived.tolist()) == ([240.0], [0.0])


def test_ids_that_are_not_distinct_are_said(tmp_path: Path) -> None:
    """The jobs are numbered then, and found again by none of these ids."""
    path = tmp_path / "t.csv"
    path.write_text("at,took,n\n0,1,a\n0,1,a\n", encoding="utf-8")
    records = read_records(path, "csv", TraceOptions(fields=SHORT | {"id": "n"}))
    assert [records.name(number) for number in (1, 2)] == ["000001", "000002"]
    assert records.remarks == ["ids not used, as they are not distinct: jobs are numbered"]


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("id,submitted,lasted", "found no column submitted_at_s; did you mean submitted?"),
        ("id,created_at,started_at", "_at_s; required: submitted_at_s, service_time_s; name the"),
        ("id,created_at,started_at", "or farm import csv --column submitted=created_at"),
        ("submitted_at_s,service_time_s,priorty", "'priorty': did you mean priority?"),
    ],
)
def test_a_table_that_is_not_ours(read: Any, header: str, told: str) -> None:
    """What is missing is named, with the column that may be it; no other one is guessed at."""
    with pytest.raises(FarmError, match=re.escape(told)):
        read(f"{header}\n1,2,3\n", None)


def test_a_first_scenario_has_no_more_builders_than_jobs(tmp_path: Path) -> None:
    """One job that arrives alone spans no time: a share of it tells no size."""
    path = tmp_path / "t.csv"
    path.write_text("submitted_at_s,service_time_s\n0,3600\n", encoding="utf-8")
    write_first_scenario(tmp_path / "first.yaml", path)
    assert "builders: 1 " in (tmp_path / "first.yaml").read_text()


@pytest.mark.parametrize(
    ("row", "clock"),
    [
        (
            "2024-05-01T08:30:00Z,2024-05-01T08:30:10Z,2024-05-01T08:31:10Z",
            ["starts: 2024-05-01 08:30"],
        ),
        ("30,40,100", []),
    ],
)
def test_a_first_scenario_has_the_clock_of_its_records(
    tmp_path: Path, row: str, clock: list[str]
) -> None:
    """Date and time of day where the records have dates; else none is made up."""
    path, out = tmp_path / "t.csv", tmp_path / "first.yaml"
    path.write_text(f"a,s,f\n{row}\n", encoding="utf-8")
    write_first_scenario(out, path, {"submitted": "a", "started": "s", "finished": "f"})
    assert re.findall("(?m)^starts: [-0-9]+ [0-9:]+", out.read_text(encoding="utf-8")) == clock


def test_what_is_left_out_is_reported(table: Path, tmp_path: Path) -> None:
    """Neither rows nor columns are dropped silently; what is written reads back."""
    out = tmp_path / "jobs.csv"
    said = ["import", "csv", str(table), *COLUMNS, "--show", "-o", str(out)]
    found = CliRunner().invoke(app, said)
    begun = CliRunner().invoke(
        app, ["init", str(table), *COLUMNS, "-o", str(tmp_path / "first.yaml")]
    )
    played = CliRunner().invoke(app, ["simulate", "--no-save", str(tmp_path / "first.yaml")])
    for one in (found, begun, played):
        assert one.exit_code == 0
        assert "left out: 1 row never ran, or had not ended" in one.stderr
        assert "left out: 1 row ended before the start" in one.stderr
        assert "columns not used: colour" in one.stderr
    assert "2 jobs; platforms: linux-x64/virtual (1), gpu/virtual (1)" in found.stdout
    assert [job.service_time for job in read_trace(out)] == [330.0, 100.5]


#: submit, wait and run time, status: two jobs that ran, one cancelled before, one without times
SWF = "".join(
    f"{number} {submit} 0 {run} 1 -1 -1 1 -1 -1 {status} -1 -1 -1 -1 -1 -1 -1\n"
    for number, (submit, run, status) in enumerate(
        [(0, 60, 1), (5, 0, 5), (9, -1, 1), (10, 30, 1)], start=1
    )
)
OPEN = """{"duration": 9000, "events": [[0, "task-created", "a"], [0, "task-created", "b"],
[5, "task-started", "a", "w"], [2005, "task-resolved", "a"]]}"""
#: as in a run's jobs.csv: with platform_grace a job fails without ever running
NEVER_RAN = (
    "submitted_at_s,service_time_s,outcome\n0,5,succeeded\n1,,cancelled\n2,,failed\n3,,lost\n"
)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "t.swf",
            SWF,
            [
                "left out: 1 row cancelled before running",
                "left out: 1 row without a submit or run time",
            ],
        ),
        (
            "w.swf",
            "1 0 0 60 4 -1 -1 4 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n",
            ["jobs of several processors: 1, taken as one slot each"],
        ),
        ("datastore.json", OPEN, ["left out: 1 row of tasks that did not end"]),
        ("t.csv", NEVER_RAN, ["left out: 3 rows of jobs that never ran"]),
    ],
)
def test_a_run_reports_which_parts_of_its_traces_it_left_out(
    tmp_path: Path, name: str, text: str, told: list[str]
) -> None:
    """Beside its results, with the file, whatever the format."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    scenario = small_scenario(load={"trace": {"path": str(path)}})
    found = farm.simulate(scenario).summary["remarks"]
    assert [*found] == [f"{path}: {one}" for one in told]


@pytest.mark.slow
@pytest.mark.live
def test_a_live_run_reports_it_too(tmp_path: Path) -> None:
    """The same remark, before those about the run itself."""
    path = tmp_path / "t.csv"
    path.write_text(NEVER_RAN, encoding="utf-8")
    scenario = small_scenario(load={"trace": {"path": str(path)}}, live={"speed": 20})
    remarks = farm.run(scenario).summary["remarks"]
    assert remarks[0] == f"{path}: left out: 3 rows of jobs that never ran"


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (["submitted=creatd_at"], "did you mean created_at?"),
        (
            ["submitted=owner", "duration=job"],
            ":2: submitted: found 'core'; allowed: a number, or a",
        ),
        (["submitted"], "allowed: OURS=THEIRS"),
    ],
)
def test_a_wrong_mapping_is_one_message(table: Path, columns: list[str], told: str) -> None:
    """It names the column, and those that the table has."""
    words = [word for column in columns for word in ("--column", column)]
    with pytest.raises(FarmError) as caught:
        CliRunner().invoke(
            app, ["import", "csv", str(table), *words, "--show"], catch_exceptions=False
        )
    assert told in str(caught.value)


def test_a_scenario_generated_from_a_trace_runs(table: Path, tmp_path: Path) -> None:
    """Every platform has a pool, every job ends, wherever the scenario stands."""
    (tmp_path / "own").mkdir()
    out = tmp_path / "own" / "first.yaml"
    write_first_scenario(out, table, FIELDS)
    run = farm.simulate(out)
    assert run.summary["jobs"]["succeeded"] == 2
    assert sorted(run.summary["pools"]) == ["gpu", "linux-x64"]


def test_a_scenario_is_generated_only_if_it_would_run(tmp_path: Path) -> None:
    """Rows without a platform among others are refused; forbidden letters in names are replaced."""
    table, out = tmp_path / "t.csv", tmp_path / "t.yaml"
    fields = {"submitted": "at", "duration": "took", "platform": "on"}
    table.write_text("at,took,on\n0,60,Ünix\n6,60,\n9,60,日本\n", encoding="utf-8")
    with pytest.raises(FarmError, match=r"t.csv: 1 of 3 jobs without a platform; allowed: all"):
        write_first_scenario(out, table, fields)
    assert not out.exists()
    table.write_text("at,took,on\n0,60,Ünix\n6,60,any/virtual\n9,60,日本\n", encoding="utf-8")
    write_first_scenario(out, table, fields)
    run = farm.simulate(out)
    assert run.summary["jobs"]["succeeded"] == 3
    assert sorted(run.summary["pools"]) == ["Unix", "any", "pool"]


def test_without_a_trace_it_has_the_twelve_keys_that_a_farm_needs(tmp_path: Path) -> None:
    """A first file to edit, which runs; an existing file is never overwritten."""
    out = tmp_path / "scenario.yaml"
    said = ["init", "-o", str(out)]
    assert CliRunner().invoke(app, said).exit_code == 0
    keys = re.findall(r"(?m)^ *(?:- )?(\w+): +[^\s#]", out.read_text("utf-8"))
    assert len(keys) == 12, keys
    summary = farm.simulate(out).summary
    assert summary["jobs"]["succeeded"] == summary["jobs"]["submitted"] > 300
    assert 0.5 < summary["utilization"] < 0.9
    with pytest.raises(FarmError, match="exists already"):
        CliRunner().invoke(app, said, catch_exceptions=False)
