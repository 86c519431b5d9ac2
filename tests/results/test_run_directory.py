"""jobs.csv and the run directory: complete, readable, and refused clearly if damaged."""

from __future__ import annotations

import csv
import errno
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.commands import NO_COMMANDS
from farm.core.errors import InputError
from farm.core.events import JobsSubmitted
from farm.core.model import Job
from farm.csv_cells import harmless, text_cells
from farm.results.log.writer import EventLogWriter
from farm.results.run_directory import RunDirectory, load_run, newest_run
from farm.results.summary.figures import RunInfo
from farm.results.summary.summary import summarise
from farm.results.table import jobs_csv
from farm.results.table.job_table import COLUMNS, joined, tables_of
from farm.results.table.jobs_csv import read_jobs, write_jobs
from farm.results.table.recorder import Recorder

PROMISED = (
    "job_id, matrix, invocation, platform, kind, submitted_at_s, dispatched_at_s, started_at_s, "
    "finished_at_s, outcome, attempts, builder, waiting_time_s, service_time_s, response_time_s, "
    "stretch, declared_time_s, estimated_dispatch_at_s"
)
INFO = RunInfo(name="hand-made", world="simulated", engine="general", seed=1, policy="fifo")
#: a table with one wrong cell is this, with another cell
HEAD, ROW = ",".join(COLUMNS) + "\n", "a,,,,,0,,,,failed,1,,,,,,,\n"


def begin(path: Path) -> RunDirectory:
    """Create a run directory."""
    return RunDirectory.create(
        path, scenario="name: hand-made\n", world="simulated", started="2026-01-01T00:00:00+00:00"
    )


@pytest.fixture
def run(tmp_path: Path, history: Any, tell: Any) -> Path:
    """Write a whole run of the history."""
    directory = begin(tmp_path / "run")
    with EventLogWriter(directory.events_path) as writer:
        tell(writer, history)
    records = tell(Recorder(), history).records()
    summary = summarise(records, INFO, 1.0)
    directory.finish(records, summary, ended="2026-01-01T00:00:01+00:00")
    return directory.path


def test_the_columns_are_the_promised_ones(run: Path) -> None:
    """Spreadsheets and notebooks rely on these names, in this order."""
    assert ", ".join(COLUMNS) == PROMISED
    header, *rows = (run / "jobs.csv").read_text().splitlines()
    assert header == PROMISED.replace(" ", "")
    failed = "c,m1,red,amd64/virtual,job,6.0,30.0,30.0,40.0,failed,1,b1,25.0,10.0,35.0,3.5,,"
    waited = "d,,blue,amd64/virtual,job,7.0,,,20.0,cancelled,0,,,,13.0,2.6,,"
    assert {failed, waited} < set(rows)


def test_rows_read_back_exactly(tmp_path: Path, tell: Any, history: Any) -> None:
    """Nothing is rounded in the file; awkward names survive."""
    odd = Job(id='a,"b"\nc', service_time=0.0, attributes={"user": "ü", "build": "7"})
    history.append((JobsSubmitted(41.0, (odd,)), NO_COMMANDS))
    parts = list(tables_of(tell(Recorder(), history).records(), ("user", "build")))
    assert write_jobs(tmp_path / "jobs.csv", parts) == 5
    back = read_jobs(tmp_path / "jobs.csv")
    assert back.columns == COLUMNS
    for name, column in joined(parts).to_dict().items():
        np.testing.assert_array_equal(back[name], column, name, strict=True)
    assert back["job_id"][-1] == odd.id
    assert (back["outcome"][-1], back["invocation"][-1]) == ("lost", "ü/7")
    assert np.isnan(back["stretch"][-1])


@given(st.lists(st.text(st.sampled_from("a',=-@\"\n\r\t ü\uff1d"), max_size=4), max_size=6))
def test_texts_become_the_cells_that_csv_writes(texts: list[str]) -> None:
    """They are checked together, and those that need no quotes and no apostrophe are left alone."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(map(harmless, [*texts, "", ""]))
    assert ",".join([*text_cells(texts), "", ""]) == line.getvalue().removesuffix("\n")


def test_a_value_that_repeats_is_made_into_a_cell_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tell: Any, history: Any
) -> None:
    """Half of the time of a large run went into cells of which hundreds were alike."""
    seen: list[str] = []

    def counted(texts: Sequence[str]) -> Sequence[str]:
        seen.extend(texts)
        return text_cells(texts)

    monkeypatch.setattr(jobs_csv, "text_cells", counted)
    records = tell(Recorder(), history).records()
    write_jobs(tmp_path / "jobs.csv", tables_of(records))
    assert seen.count("amd64/virtual") == seen.count("b1") == 1


def test_rows_after_many_read_back_exactly(tmp_path: Path, monkeypatch: Any) -> None:
    """Quotes begin anywhere: what is read by columns before them is read once."""
    monkeypatch.setattr(jobs_csv, "_BLOCK", 300)
    names = [f"job-{n}" for n in range(40)] + ['in "quotes"', "'-1", "two\nlines", "last"]
    rows = [ROW.replace("a", f"{n}", 1).replace(",0,", f",{n},") for n in range(len(names))]
    cells = ['"' + name.replace('"', '""') + '"' for name in names[40:]]
    for n, cell in enumerate([*names[:40], *cells]):
        rows[n] = cell + rows[n][rows[n].index(",") :]
    (tmp_path / "jobs.csv").write_text(HEAD + "".join(rows))
    back = read_jobs(tmp_path / "jobs.csv")
    assert back["submitted_at_s"].tolist() == [*range(len(names))]
    assert back["job_id"].tolist() == ["-1" if name == "'-1" else name for name in names]
    (tmp_path / "jobs.csv").write_text(HEAD + "".join(rows) + ROW.replace(",0,", ",soon,"))
    with pytest.raises(InputError, match=r"line 47: submitted_at_s: found 'soon'"):
        read_jobs(tmp_path / "jobs.csv")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("job_id,matrix\n", "line 1: the columns are job_id, matrix"),
        ("", "line 1: the columns are missing"),
        (HEAD + "a,b\n", "line 2: 2 cells; expected 18"),
        (HEAD + ROW.replace(",0,", ",soon,"), "line 2: submitted_at_s: found 'soon'; .* a number"),
        (HEAD + ROW.replace(",0,", ",,"), "line 2: submitted_at_s: found ''; .* a number"),
        (
            HEAD + ROW.replace("failed", "oops"),
            "line 2: outcome: found 'oops'; .* failed, .*, lost",
        ),
        (HEAD + ROW * 5000 + ROW.replace("1", "1.5"), "line 5002: attempts: found '1.5'; .* whole"),
        (HEAD + ROW.replace("a", '"a\n"', 1) + ROW.replace("1", ""), "line 4: attempts: found ''"),
        (HEAD + "" + "a" * 200_000, "line 2: not a table: .*limit"),
        (HEAD + "\udcff", "after line [01]: not UTF-8 text"),
        ("\udcff", "after line 0: not UTF-8 text"),
    ],
)
def test_garbled_jobs_are_refused(tmp_path: Path, text: str, says: str) -> None:
    """A damaged table is refused with its name and line."""
    (tmp_path / "jobs.csv").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=f"jobs.csv, {says}"):
        list(read_jobs(tmp_path / "jobs.csv"))


def test_a_run_reads_back(run: Path, history: Any) -> None:
    """A run can be read back completely from its directory."""
    back = load_run(run)
    assert back.state == "finished"
    assert back.name == "run"
    assert back.scenario_text == "name: hand-made\n"
    assert back.summary.jobs.submitted == len(back.jobs) == 4
    assert [entry.event for entry in back.entries()] == [event for event, _ in history]
    assert back.meta.machine.processors >= 1
    assert "msgspec" in back.meta.packages
    assert sorted(path.name for path in run.iterdir()) == [
        *("events.jsonl", "jobs.csv", "meta.json", "scenario.yaml", "summary.json")
    ]


@pytest.mark.parametrize(
    ("place", "says"), [("run", "exists already"), ("run/jobs.csv/run", "cannot make the run")]
)
def test_a_place_that_is_taken_is_refused(run: Path, place: str, says: str) -> None:
    """A run never overwrites another; a file in the way is one clear message."""
    with pytest.raises(InputError, match=says):
        begin(run.parent / place)


def reopen(path: Path, scenario: str) -> None:
    """Continue the directory of a long-running farm."""
    RunDirectory.reopen(path, scenario=scenario, started="2026-01-01T00:00:00+00:00", anew=False)


def test_a_farm_continues_while_its_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No scheduler could take it over any more, and its scenario was cut off."""
    reopen(tmp_path / "log", "name: old\n")

    def full(path: Path, *_: object, **__: object) -> None:
        path.open("wb").close()
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        patch.setattr(Path, "write_text", full)
        reopen(tmp_path / "log", "name: old\n")
        assert caplog.messages == []
        reopen(tmp_path / "log", "name: new\n")
    scenario = tmp_path / "log" / "scenario.yaml"
    assert caplog.messages == [
        f"{scenario} stays as it was: it cannot be written: No space left on device"
    ]
    assert scenario.read_text() == "name: old\n"
    reopen(tmp_path / "log", "name: new\n")
    assert scenario.read_text() == "name: new\n"


def test_an_empty_folder_is_used_by_a_fresh_farm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a mount point, which cannot be renamed: each fresh start failed there."""

    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(Path, "rename", busy)
    (tmp_path / "log").mkdir()
    started = "2026-01-01T00:00:00+00:00"
    RunDirectory.reopen(tmp_path / "log", scenario="name: new\n", started=started, anew=True)
    assert {path.name for path in (tmp_path / "log").iterdir()} == {"scenario.yaml", "meta.json"}


def test_a_folder_of_a_farm_that_is_none_is_refused(tmp_path: Path) -> None:
    """A file in its place is a mistake, which no waiting mends."""
    (tmp_path / "log").write_text("")
    with pytest.raises(InputError, match="cannot be written: Not a directory"):
        reopen(tmp_path / "log", "name: old\n")


def test_a_killed_run_is_recognised(tmp_path: Path, history: Any, tell: Any) -> None:
    """A run without its end has no results, but its log can be read on request."""
    directory = begin(tmp_path / "run")
    with EventLogWriter(directory.events_path) as writer:
        tell(writer, history)
    with pytest.raises(InputError, match="did not finish"):
        load_run(directory.path)
    killed = load_run(directory.path, unfinished=True)
    assert killed.state == "running"
    assert len(list(killed.entries())) == len(history)
    with pytest.raises(InputError, match="did not finish"):
        killed.summary  # noqa: B018


@pytest.mark.parametrize(
    "name", ["meta.json", "scenario.yaml", "events.jsonl", "jobs.csv", "summary.json"]
)
def test_a_missing_file_is_named(run: Path, name: str) -> None:
    """A run that lost a file is incomplete, and no directory is none."""
    (run / name).unlink()
    says = f"not a run: it has no {name}" if name == "meta.json" else f"{name} is missing"
    with pytest.raises(InputError, match=says):
        load_run(run)
    with pytest.raises(InputError, match="no such directory"):
        load_run(run / "none")


def change(path: Path, **values: Any) -> None:
    """Change keys of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_files_that_do_not_belong_together_are_refused(run: Path) -> None:
    """Mixed-up files must not be compared as if they were one run."""
    change(run / "meta.json", jobs=5)
    with pytest.raises(InputError, match=r"4 jobs; meta\.json says 5"):
        load_run(run).jobs  # noqa: B018
    change(run / "summary.json", world="live")
    with pytest.raises(InputError, match="do not belong together"):
        load_run(run)


def test_another_format_and_garbage_are_refused(run: Path) -> None:
    """A directory of a later version is reported as such; a damaged file is named."""
    change(run / "meta.json", format=99)
    with pytest.raises(InputError, match="format 99"):
        load_run(run)
    (run / "meta.json").write_text("{")
    with pytest.raises(InputError, match=r"meta\.json: garbled"):
        load_run(run)


def test_the_newest_run_is_the_one_that_began_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report without a run is of it: also while it is in progress, and whatever its number."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="found no run below"):
        newest_run()
    begun = {"a-9": "2026-01-02T10:00:00+00:00", "b-1": "2026-01-02T11:00:00+00:00"}
    for name, started in begun.items():
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "meta.json").write_text(json.dumps({"started": started}))
    (tmp_path / "runs" / "c-1").mkdir()  # a sweep's, or no run yet
    assert newest_run() == Path("runs/b-1")
