"""Traces in JSON, of Batsim and the Taskcluster simulator; ids that stay distinct."""

import pytest

from farm.core.errors import InputError, TraceError
from farm.records.traces import read_records
from farm.scenario import TraceOptions
from farm.workload import build_jobs, read_trace

from .conftest import ScenarioOf, Write
from .test_traces import SWF, read

BATSIM = """{"nb_res": 8, "jobs": [
 {"id": "a", "subtime": 5, "res": 3, "profile": "d20", "walltime": 60},
 {"id": 7, "subtime": 1.5, "res": 1, "profile": "d9"}],
 "profiles": {"d20": {"type": "delay", "delay": 20.5}, "d9": {"type": "delay", "delay": 9}}}"""


def test_a_batsim_workload_is_read(write: Write) -> None:
    """By arrival; the profile gives the length and is the kind, the walltime is declared."""
    jobs = list(read_trace(write("w.json", f"\ufeff{BATSIM}")))
    assert [(job.id, job.arrived_at, job.service_time) for job in jobs] == [
        ("7", 1.5, 9.0), ("a", 5.0, 20.5),
    ]  # fmt: skip
    assert (jobs[1].kind, jobs[1].declared_time) == ("d20", 60.0)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"profile": "d9"', '"profile": "d8"', "job 7: found profile 'd8'"),
        ('"type": "delay", "delay": 9', '"type": "parallel"', "profile d9: found type"),
        ('"res": 3', '"res": 0', "job a: allowed: subtime"),
        ('"jobs"', '"job"', "not a Batsim workload"),
    ],
)
def test_a_wrong_batsim_workload_is_one_message(
    write: Write, old: str, new: str, told: str
) -> None:
    """It names the job, or the key."""
    with pytest.raises(TraceError, match=told):
        read_trace(write("w.json", BATSIM.replace(old, new)))


NESTED = """{"nb_res": 4, "jobs": [
 {"id": 1, "subtime": 0, "profile": "twice", "walltime": 12},
 {"id": 2, "subtime": 0, "profile": "old", "walltime": 100},
 {"id": 3, "subtime": 0, "profile": "d4"}],
 "profiles": {
  "d4": {"type": "DelayProfile", "delay": 4},
  "twice": {"type": "SequentialCompositionProfile", "repeat": 2, "seq": ["d4", "d4"]},
  "old": {"type": "composed", "repeat": 3, "seq": ["twice", "d4"]}}}"""


def test_profiles_of_batsim_5_and_sequences_of_delays_are_read(write: Write) -> None:
    """Its own workloads all name the type DelayProfile, and a sequence needs no platform either."""
    jobs = {job.id: job for job in read_trace(write("w.json", NESTED))}
    assert (jobs["3"].service_time, jobs["2"].service_time) == (4.0, 60.0)


def test_a_walltime_ends_a_job_that_would_run_for_longer(write: Write) -> None:
    """As in Batsim, which kills it; it was played to its end, silently."""
    path = write("w.json", NESTED)
    jobs = {job.id: job for job in read_trace(path)}
    assert (jobs["1"].service_time, jobs["1"].fails) == (12.0, True)
    assert not jobs["2"].fails
    assert read_records(path, None, TraceOptions()).notes == (
        "killed at the walltime, and failed: 1 job of a longer run time",
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"seq": ["d4", "d4"]', '"seq": ["old"]', "no sequence within itself"),
        ('"seq": ["d4", "d4"]', '"seq": ["d5"]', "profile d5: found in a sequence"),
        ('"repeat": 2', '"repeat": -2', "profile twice: allowed: repeat from 0"),
        ('"DelayProfile"', '"PtaskProfile"', "profile d4: found type 'PtaskProfile'"),
    ],
)
def test_a_sequence_without_a_length_is_refused(
    write: Write, old: str, new: str, told: str
) -> None:
    """One sentence that names the profile; a sequence in itself would never end."""
    with pytest.raises(TraceError, match=told):
        read_trace(write("w.json", NESTED.replace(old, new)))


def test_a_sequence_of_many_equal_parts_is_added_up_once(write: Write) -> None:
    """Ten levels of a hundred parts are 10^20 delays."""
    parts = [", ".join([f'"s{level}"'] * 100) for level in range(10)]
    levels = [
        f'"s{level}": {{"type": "composed", "seq": [{part}]}}'
        for level, part in enumerate(parts, 1)
    ]
    profiles = ", ".join(['"s0": {"type": "delay", "delay": 1e-18}', *levels])
    text = f'{{"jobs": [{{"id": 1, "subtime": 0, "profile": "s10"}}], "profiles": {{{profiles}}}}}'
    [job] = read_trace(write("w.json", text))
    assert job.service_time == pytest.approx(100.0)


DATASTORE = """{"duration": 9000, "events": [
 [0, "task-created", "a"], [5000, "task-started", "a"], [1000, "task-resolved", "a"],
 [100, "task-created", "b"], [200, "task-started", "b"], [2200, "task-resolved", "b"],
 [300, "task-created", "c"]]}"""


def test_a_task_that_ended_before_its_start_is_left_out(write: Write) -> None:
    """No service time is below zero: such a task is counted, as one that did not end is."""
    path = write("datastore.json", f"\ufeff{DATASTORE}")
    assert [(job.id, job.service_time) for job in read(path)] == [("b", 2.0)]
    assert read_records(path, None, TraceOptions()).remarks == [
        "left out: 1 row of tasks that did not end", "left out: 1 row ended before the start",
    ]  # fmt: skip
    write("datastore.json", DATASTORE.replace("2200", "100"))
    with pytest.raises(TraceError, match="found no task that ended after its start"):
        read(path)
    write("datastore.json", DATASTORE.replace("2200", "1" + "0" * 400))
    with pytest.raises(TraceError, match="event 6: found"):
        read(path)


def test_jobs_of_several_processors_are_one_split_or_refused(write: Write) -> None:
    """As configured; the parts of a job are a matrix of its name. Other jobs are never changed."""
    batsim, swf = write("w.json", BATSIM), write("log.swf", SWF)
    assert [job.id for job in read_trace(batsim)] == ["7", "a"]
    split = list(read_trace(batsim, options=TraceOptions(parallel="split")))
    assert [(job.id, job.matrix) for job in split] == [
        ("7", None), ("a-1", "a"), ("a-2", "a"), ("a-3", "a"),
    ]  # fmt: skip
    assert [job.service_time for job in split] == [9.0, 20.5, 20.5, 20.5]
    named = [job.id for job in read_trace(swf, options=TraceOptions(parallel="split"))]
    assert named == ["1-1", "1-2", "1-3", "1-4", "2", "6"]
    for path, count in ((batsim, 1), (swf, 1)):
        with pytest.raises(TraceError, match=f"found {count} jobs of several"):
            read_trace(path, options=TraceOptions(parallel="refuse"))


def test_distinct_ids_stay_distinct(scenario_of: ScenarioOf, write: Write) -> None:
    """Zeros are put before none of a trace's ids if two would become one; nor do parts collide."""
    same = BATSIM.replace('"a"', '"01"').replace("7", '"1"').replace('"res": 3', '"res": 1')
    write("w.json", same)
    jobs = build_jobs(scenario_of({"trace": {"path": "w.json"}}))
    assert [job.id for job in jobs] == ["w-1", "w-01"]
    parts = write("parts.json", BATSIM.replace("7", '"a-1"'))
    split = read(parts, parallel="split")
    assert [(job.id, job.matrix) for job in split] == [
        ("000001", None), ("000002", "a"), ("000003", "a"), ("000004", "a"),
    ]  # fmt: skip


def test_ids_of_several_sources_stay_distinct(scenario_of: ScenarioOf, write: Write) -> None:
    """A prefix and an id of the user's can read like another prefix and id: that is refused."""
    write("t.csv", "job_id,submitted_at_s,service_time_s\nb-000001,1,2\n")
    generated = {"arrivals": {"every": "1s", "count": 1, "service_time": "1s", "name": "a-b"}}
    both = scenario_of({"trace": {"path": "t.csv", "name": "a"}}, generated)
    with pytest.raises(InputError, match="workload: a-b-000001: found this id twice"):
        list(build_jobs(both))
