"""What a trace's source says really happened to its jobs: their waits, runners and results."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from farm.core.errors import TraceError
from farm.core.model import Platform
from farm.records.attempt import Attempt
from farm.records.bundle import write_bundle
from farm.records.traces import read_records
from farm.records.traces.bundle import UNLABELLED, records_of
from farm.scenario import TraceOptions
from farm_twin.importing import load_records

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
    assert found.results is not None
    assert tuple(found.runners.tolist() if found.runners else ("", "")) == runners
    assert tuple(found.results.tolist()) == results


def test_a_bundle_keeps_what_happened(write: Write, tmp_path: Path) -> None:
    """Its attempts are those that were imported, also where only some are selected."""
    bundle = load_records([write("t.csv", CSV)], "csv", FIELDS)
    write_bundle(tmp_path / "b", bundle)
    records = read_records(tmp_path / "b", None, TraceOptions(window=(1.0, 90.0)))
    assert records.happened is not None
    (kept,) = (one for one in bundle.attempts if one.runner == "r1")
    told = [[kept.waited], [kept.ran], ["r1"], [kept.result], None]
    assert [None if one is None else one.tolist() for one in records.happened] == told


TEXTS = st.sampled_from(["", "a", "b"])
TIMES = st.none() | st.integers(0, 9).map(float)


@given(
    st.lists(
        st.builds(
            Attempt,
            id=st.uuids().map(str),
            submitted_at=st.integers(0, 9).map(float),
            eligible_at=TIMES,
            started_at=st.floats(0, 9),
            finished_at=st.floats(9, 20),
            result=st.sampled_from(["succeeded", "failed", "lost"]),
            **dict.fromkeys(("platform", "kind", "matrix", "user", "runner"), TEXTS),
            attributes=st.dictionaries(
                st.sampled_from(["user", "level", "team"]), st.sampled_from(["a", "0", "7", "-2"])
            ),
        ),
        min_size=1,
    )
)
def test_attempts_are_the_same_jobs_by_column_as_one_by_one(attempts: list[Attempt]) -> None:
    """What an attempt says of itself is what its job has; what is empty says nothing.

    But that its platform is none of the others'. Jobs come as they arrived, and as they started.
    """
    found = records_of(attempts, {})
    attempts = sorted(attempts, key=lambda one: (one.arrived_at, one.started_at))
    first = min(one.arrived_at for one in attempts)
    assert found.arrived.tolist() == [one.arrived_at - first for one in attempts]
    assert found.service.tolist() == [one.ran for one in attempts]
    beside = UNLABELLED if any(one.platform for one in attempts) else ""
    details = [
        {
            "platform": (one.platform or beside) and Platform(one.platform or beside),
            "kind": one.kind,
            "matrix": one.matrix,
            "attributes": one.traits,
            "level": one.level,
            "fails": one.result == "failed",
        }
        for one in attempts
    ]
    rows = [{name: of for name, of in row.items() if of} for row in details]
    known = {name: [row.get(name, UNSET) for row in rows] for row in rows for name in row}
    assert {name: column.tolist() for name, column in found.details.items()} == known


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
