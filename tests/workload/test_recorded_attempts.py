"""What a trace's source says really happened to its jobs: their waits, runners and results."""

from pathlib import Path

import pytest
from msgspec.structs import astuple

from farm.core.errors import TraceError
from farm.records.bundle import write_bundle
from farm.records.importing import load_records
from farm.records.traces import read_records
from farm.scenario import TraceOptions

from .conftest import Write

CSV = "at,from,to,on,how\n10,30,90,r1,failed\n5,6,8,r2,passed\n7,,,,cancelled\n"
RUN = (
    "job_id,submitted_at_s,service_time_s,started_at_s,finished_at_s,outcome,builder,attempts\n"
    "a,10,60,30,90,failed,r1,2\nb,5,2,6,8,succeeded,r2,1\n"
)
DATASTORE = """{"duration": 90000, "events": [
 [10000, "task-created", "a"], [30000, "task-started", "a", "r1"], [90000, "task-resolved", "a"],
 [5000, "task-created", "b"], [6000, "task-started", "b", "r2"], [8000, "task-resolved", "b"]]}"""
FIELDS = {"submitted": "at", "started": "from", "finished": "to", "runner": "on", "result": "how"}


def swf(*lines: tuple[int, int, int, int, int]) -> str:
    """Return lines of job, submit, wait, run and status."""
    return "\n".join(
        f"{job} {submit} {wait} {run} 1 -1 -1 1 -1 -1 {status}" + " -1" * 7
        for job, submit, wait, run, status in lines
    )


FILES = [
    ("t.csv", CSV, TraceOptions(fields=FIELDS), ("r2", "r1"), ("succeeded", "failed")),
    ("jobs.csv", RUN, TraceOptions(), ("r2", "r1"), ("succeeded", "failed")),
    ("datastore.json", DATASTORE, TraceOptions(), ("r2", "r1"), ("succeeded", "succeeded")),
    ("t.swf", swf((1, 10, 20, 60, 0), (2, 5, 1, 2, 1)), TraceOptions(), ("", ""),
     ("succeeded", "failed")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "options", "runners", "results"), FILES)
def test_a_trace_keeps_what_happened(
    write: Write,
    name: str,
    text: str,
    options: TraceOptions,
    runners: tuple[str, str],
    results: tuple[str, str],
) -> None:
    """In the order of the jobs, whatever the file's: when they started and ended, where and how."""
    records = read_records(write(name, text), None, options)
    assert (found := records.happened) is not None
    assert found.waited.tolist() == [1.0, 20.0]
    assert found.ran.tolist() == records.service.tolist() == [2.0, 60.0]
    assert tuple(found.runners or ("", "")) == runners
    assert tuple(found.results or ()) == results


def test_a_bundle_keeps_what_happened(write: Write, tmp_path: Path) -> None:
    """Its attempts are those that were imported, also where only some are selected."""
    bundle = load_records([write("t.csv", CSV)], "csv", FIELDS)
    write_bundle(tmp_path / "b", bundle)
    records = read_records(tmp_path / "b", None, TraceOptions(window=(1.0, 90.0)))
    assert records.happened is not None
    (one,) = records.happened.recorded()
    (kept,) = (one for one in bundle.attempts if one.runner == "r1")
    assert astuple(one) == (kept.waited, kept.ran, "r1", kept.result)


def test_where_no_start_is_known_nothing_is_said(write: Write) -> None:
    """A length alone does not tell when a job started: no wait is made up."""
    files = {
        "a.dat": bytes(8),
        "t.swf": swf((1, 0, -1, 5, 1)),
        "jobs.csv": "submitted_at_s,service_time_s\n0,5\n",
    }
    for name, content in files.items():
        assert read_records(write(name, content), None, TraceOptions()).happened is None
    spans = TraceOptions(fields={"submitted": "at", "duration": "took"})
    assert read_records(write("t.csv", "at,took\n0,5\n"), None, spans).happened is None


def test_a_start_that_is_none_is_one_message(write: Write) -> None:
    """It names the columns, and what was found."""
    path = write("jobs.csv", RUN.replace(",30,", ",soon,"))
    with pytest.raises(TraceError, match=r"jobs.csv:\d+: started_at_s: found 'soon'"):
        read_records(path, None, TraceOptions())
