"""What a trace says really happened stands beside what was simulated."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import farm
from farm.core.errors import TraceError
from farm.records.attempt import Attempt
from farm.records.bundle import Bundle, Manifest, write_bundle
from farm.workload import build_workload

pytestmark = pytest.mark.usefixtures("kernel")

POOL = {"name": "linux", "platform": {"processor": "amd64"}, "builders": 2}


def scenario(path: Path, **trace: Any) -> dict[str, Any]:
    """Return a farm of two builders on which a trace is played."""
    return {"pools": [POOL], "workload": [{"trace": {"path": str(path), **trace}}]}


def recorded(run: farm.Result) -> list[dict[str, Any]]:
    """Return the recorded columns of a run, job by job in order of id; NaN is None."""
    rows = sorted(run.jobs, key=lambda row: row["job_id"])
    return [
        {
            name.removeprefix("recorded_"): None if value != value else value
            for name, value in row.items()
            if name.startswith("recorded_")
        }
        for row in rows
    ]


def swf(folder: Path) -> Path:
    """Return a log: a job that waited 5 s, one of an unknown wait, one put together of parts."""
    path = folder / "log.swf"
    rest = "-1 -1 1 -1 -1 {} 1 1 1 1 1 -1 -1\n"
    lines = [("1 0 5 10 1", 1), ("2 3 -1 20 1", 0), ("3 4 6 10 1", 2), ("3 30 0 10 1", 3)]
    path.write_text("; Version: 2.2\n" + "".join(f"{a} {rest.format(b)}" for a, b in lines))
    return path


def own_table(folder: Path) -> Path:
    """Return a table as ``farm import`` and a run write it."""
    path = folder / "own.csv"
    path.write_text(
        "job_id,submitted_at_s,service_time_s,started_at_s,finished_at_s,builder,outcome\n"
        "a,0,10,4,14,b1,succeeded\nb,2,10,,,,failed\n"
    )
    return path


def datastore(folder: Path) -> Path:
    """Return a store of the Taskcluster simulator: milliseconds."""
    path = folder / "datastore.json"
    events = [
        [1000, "task-created", "a"], [3000, "task-started", "a", "w1"], [8000, "task-resolved", "a"]
    ]  # fmt: skip
    path.write_text(json.dumps({"duration": 9000, "events": events}))
    return path


def bundle(folder: Path) -> Path:
    """Return a bundle of one attempt, which could start at 1010."""
    path = folder / "bundle"
    attempt = Attempt(id="a", submitted_at=1000.0, eligible_at=1010.0, started_at=1025.0,
                      finished_at=1055.0, result="lost", runner="r7")  # fmt: skip
    manifest = Manifest(
        source="github", files=[], begins="", ends="", zone="UTC", resolution_time=1.0, kept=1,
        left_out={}, noted={},
    )  # fmt: skip
    write_bundle(path, Bundle(manifest, [attempt]))
    return path


KNOWN: dict[Callable[[Path], Path], list[dict[str, Any]]] = {
    swf: [
        {"started_at_s": 5.0, "finished_at_s": 15.0, "waiting_time_s": 5.0, "outcome": "succeeded"},
        {"started_at_s": None, "finished_at_s": None, "waiting_time_s": None, "outcome": "failed"},
        {"started_at_s": 10.0, "finished_at_s": None, "waiting_time_s": 6.0,
         "outcome": "succeeded"},
    ],
    own_table: [
        {"started_at_s": 4.0, "finished_at_s": 14.0, "waiting_time_s": 4.0, "builder": "b1",
         "outcome": "succeeded"},
        {"started_at_s": None, "finished_at_s": None, "waiting_time_s": None, "builder": "",
         "outcome": "failed"},
    ],
    datastore: [
        {"started_at_s": 2.0, "finished_at_s": 7.0, "waiting_time_s": 2.0, "builder": "w1",
         "outcome": "succeeded"}
    ],
    bundle: [
        {"started_at_s": 15.0, "finished_at_s": 45.0, "waiting_time_s": 15.0, "builder": "r7",
         "outcome": "lost"},
    ],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.live
def test_a_live_farm_has_them_too(tmp_path: Path) -> None:
    """They travel with the workload, and no job carries them over the wire."""
    run = farm.run(scenario(own_table(tmp_path)), speed=50)
    assert recorded(run) == KNOWN[own_table]
    assert not any("recorded" in key for event in run.events for key in event)


@pytest.mark.parametrize("engine", ["reference", "fast"])
@pytest.mark.parametrize("source", KNOWN, ids=lambda source: source.__name__)
def test_what_a_source_knows_is_beside_its_jobs(source: Any, engine: str, tmp_path: Path) -> None:
    """With either engine, in farm time, and only the columns that the source knows."""
    run = farm.simulate(scenario(source(tmp_path)), engine=engine)
    assert recorded(run) == KNOWN[source]


def test_columns_of_a_foreign_table_are_recorded(tmp_path: Path) -> None:
    """Dates become farm time; a start on another clock than the arrival is not known."""
    table, fields = tmp_path / "t.csv", {"submitted": "asked", "started": "from", "finished": "to"}
    table.write_text(
        "asked,from,to\n2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,2024-05-01T10:03:00Z\n"
    )
    one = {"started_at_s": 60.0, "finished_at_s": 180.0, "waiting_time_s": 60.0}
    one |= {"outcome": "succeeded"}
    assert recorded(farm.simulate(scenario(table, fields=fields))) == [one]
    table.write_text("asked,from,to\n0,2024-05-01T10:01:00Z,2024-05-01T10:03:00Z\n")
    assert recorded(farm.simulate(scenario(table, fields=fields))) == [{}]


def test_a_window_and_a_scale_move_what_was_recorded_with_the_arrival(tmp_path: Path) -> None:
    """A recorded wait keeps its length; in a workload of several sources ids are prefixed."""
    table = tmp_path / "own.csv"
    table.write_text("submitted_at_s,service_time_s,started_at_s,finished_at_s\n"
                     "1,10,2,12\n20,10,25,35\n")  # fmt: skip
    document = scenario(table, window=["10s", "1m"], time_scale=0.5)
    document["workload"].append({"arrivals": {"every": "1s", "count": 1, "service_time": "1s"}})
    found = recorded(farm.simulate(document))
    assert {"started_at_s": 10.0, "finished_at_s": 20.0, "waiting_time_s": 5.0} in found
    assert dict.fromkeys(("started_at_s", "finished_at_s", "waiting_time_s")) in found


def test_recorded_columns_are_written_and_summed_up(tmp_path: Path) -> None:
    """jobs.csv has them with their types, the summary the recorded waits, the trace reads both."""
    out = tmp_path / "run"
    run = farm.simulate(scenario(swf(tmp_path)), out=out)
    assert recorded(farm.open_run(out)) == recorded(run) == KNOWN[swf]
    waits = run.summary["recorded_waiting_time_s"]
    assert (waits["count"], waits["mean"], waits["p50"]) == (2, 5.5, 5.5)
    again = farm.simulate(scenario(out / "jobs.csv"))
    assert again.jobs["recorded_started_at_s"].tolist() == run.jobs["started_at_s"].tolist()


def test_a_run_without_records_has_no_such_columns(tmp_path: Path) -> None:
    """Neither generated jobs nor a table without instants get empty columns."""
    table = tmp_path / "plain.csv"
    table.write_text("submitted_at_s,service_time_s\n0,5\n")
    for run in (farm.simulate("quickstart"), farm.simulate(scenario(table))):
        assert not [name for name in run.jobs.columns if name.startswith("recorded")]
        assert "recorded_waiting_time_s" not in run.summary


def test_a_recorded_instant_that_is_none_is_refused(tmp_path: Path) -> None:
    """The message names line and column."""
    table = tmp_path / "bad.csv"
    table.write_text("submitted_at_s,service_time_s,started_at_s\n0,5,soon\n")
    with pytest.raises(
        TraceError, match=r"bad.csv:2: started_at_s: found 'soon'; allowed: .*number"
    ):
        build_workload(farm.load_scenario(scenario(table)))
