"""Records, the summary and its numbers, checked against a history calculated by hand."""

from __future__ import annotations

import json
import math
import statistics
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import farm
from farm.columns import Coded
from farm.core.commands import EndJob, StartJob
from farm.core.events import BuilderJoined, EstimateMade, JobFinished, JobsSubmitted
from farm.core.model import Builder, Job
from farm.results.descriptive_statistics import quantile, spread_of
from farm.results.log.reader import read_log
from farm.results.summary.builder_time import BuilderCounts, builder_times
from farm.results.summary.costs import JobCounts
from farm.results.summary.fairness import jain_index
from farm.results.summary.figures import RunInfo
from farm.results.summary.run_phase import Window
from farm.results.summary.summary import Measured, Quiescence, Summary, summarise
from farm.results.summary.summary_table import render_summary
from farm.results.table.columnar_table import Table
from farm.results.table.recorder import Recorder, RunRecords
from farm.results.table.runs import Runs
from farm.testing import small_scenario

pytestmark = pytest.mark.usefixtures("kernel")

INFO = RunInfo(name="hand-made", world="simulated", engine="general", seed=1, policy="fifo")


@pytest.fixture
def records(history: Any, tell: Any) -> RunRecords:
    """The records of the whole history."""
    return tell(Recorder(), history).records()


@pytest.fixture
def summary(records: RunRecords) -> Summary:
    """Its summary."""
    return summarise(records, INFO, wall_time=0.5)


def shown(summary: Summary, width: int) -> str:
    """Return a summary as a terminal of this width shows it."""
    console = Console(width=width)
    with console.capture() as text:
        console.print(render_summary(summary))
    return text.get()


def test_each_job_is_counted_once(summary: Summary) -> None:
    """Under its end."""
    assert summary.jobs == JobCounts(submitted=4, succeeded=2, failed=1, cancelled=1, lost=0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("attempts", 4),
        ("makespan", 40.0),
        # c arrived at 5, though it was submitted at 6: its response time is 35, not 34
        ("waiting_time.count", 3),
        ("waiting_time.mean", (0 + 10 + 25) / 3),
        ("response_time.mean", (10 + 30 + 35) / 3),
        ("response_time.max", 35.0),
        ("stretch.mean", (1 + 1.5 + 3.5) / 3),
        # a matrix lasts from its first arrival to its last end
        ("matrix_response_time.count", 1),
        ("matrix_response_time.max", 40.0),
        # builders are there from joining until gone; slots are busy from dispatch to end
        ("builder_time", 40 + 6 + 32),
        ("utilization", (40 + 6) / 78),
        # of the slot time red was entitled to 25 s and had 20, blue to 15 s and had 20
        ("fairness_index", pytest.approx(jain_index([20 / 25, 20 / 15]), abs=1e-6)),
    ],
)
def test_a_number_is_the_one_calculated_by_hand(summary: Summary, name: str, value: float) -> None:
    """Each for what it is defined as."""
    assert attrgetter(name)(summary) == pytest.approx(value)


def test_builders_are_counted(summary: Summary) -> None:
    """One of them never ran a job."""
    assert summary.builders == BuilderCounts(1, 3, 1, 1, 2, 1, 32.0)


def test_a_summary_without_parties_has_all_other_figures(records: RunRecords) -> None:
    """A search for shorter waits goes by them, and would go by others than the run has."""
    measured = Measured(records, INFO, wall_time=0.5)
    without = measured.summary_without_parties

    assert math.isnan(without.fairness_index)
    assert measured.summary.invocations
    assert not without.invocations
    index, invocations = measured.summary.fairness_index, measured.summary.invocations
    restored = msgspec.structs.replace(without, fairness_index=index, invocations=invocations)
    assert restored == measured.summary


def test_busy_time_includes_void_attempts(records: RunRecords) -> None:
    """A lost builder was busy until it was lost."""
    assert builder_times(Runs.one(records, 1), Window()).busy == [6.0 + 40.0]


def test_an_execution_that_serves_several_jobs_is_busy_once() -> None:
    """Jobs deduplicated into one execution must not make a builder busier than it is."""
    lead, other = (Job(id=name, service_time=10.0, action="x") for name in ("a", "b"))
    recorder = Recorder()
    recorder(BuilderJoined(0.0, Builder(id="b", pool="p", index=0)), [])
    recorder(JobsSubmitted(0.0, (lead, other)), [StartJob(lead, 1, "b", 0)])
    ends = [
        EndJob(lead, "succeeded", 1, 0.0, 10.0, 0.0, 0.0, "b", 0),
        EndJob(other, "succeeded", 1, 0.0, 10.0, 0.0, 0.0, "b", 0, served_by="a"),
    ]
    recorder(JobFinished(10.0, "a", 1, "b", "succeeded"), ends)
    summary = summarise(recorder.records(), INFO, 0.0)
    assert (summary.utilization, summary.attempts) == (1.0, 1)


def test_a_job_that_joins_a_running_execution_has_not_waited() -> None:
    """Its execution began before it arrived: that is no negative time of waiting."""
    twins = [farm.Job(id=name, arrived_at=at, service_time=20.0, action="x")
             for name, at in (("first", 0.0), ("joins", 15.0))]  # fmt: skip
    result = farm.simulate(small_scenario({"builders": 2}), jobs=twins)
    assert result.jobs["response_time_s"].tolist() == [20.0, 5.0]
    assert result.jobs["waiting_time_s"].tolist() == [0.0, 0.0]
    assert result.summary["waiting_time_s"]["mean"] == 0.0


def test_only_the_run_phase_counts(records: RunRecords) -> None:
    """Ramp-up and ramp-down warm the farm up; they must not affect its numbers."""
    info = msgspec.structs.replace(INFO, window=Window(5.0, 35.0))
    summary = summarise(records, info, 0.0)
    assert (summary.jobs.submitted, summary.jobs.failed, summary.jobs.cancelled) == (2, 1, 1)
    assert summary.builder_time == 30 + 1 + 27
    assert summary.utilization == pytest.approx((30 + 1) / 58)
    assert (summary.builders.joined, summary.builders.max_running) == (1, 2)
    assert summary.builders.over_provisioned_time == 27.0
    assert msgspec.json.decode(msgspec.json.encode(summary), type=Summary).window == info.window


def test_the_state_of_the_farm_at_the_end_of_its_phases(records: RunRecords) -> None:
    """At 15 s b runs on b1, c and d wait and b3 idles; the last job ends 25 s later."""
    found = summarise(records, msgspec.structs.replace(INFO, ends_at=15.0), 0.0).quiescence
    assert found == Quiescence(open_jobs=3, builders=2, busy_builders=1, beyond_time=25.0)
    later = summarise(records, msgspec.structs.replace(INFO, ends_at=40.0), 0.0).quiescence
    assert later is not None
    assert (later.open_jobs, later.busy_builders, later.beyond_time) == (0, 0, 0.0)


#: two jobs of ten minutes; their builders leave two minutes later, but the ramp-down is shorter
SIZED = {"idle_timeout": "2m", "provisioner": {"algorithm": "taskcluster", "max": 5}}
RAMPED_DOWN = small_scenario(
    [
        {"name": "sized", **SIZED},
        {"name": "fixed", "platform": {"processor": "arm64"}, "builders": 3},
    ],
    {"every": "10s", "count": 2, "service_time": "595s", "platform": {"processor": "amd64"}},
    phases={"run": "10m", "ramp_down": "1m"},
)


@pytest.mark.parametrize("engine", ["reference", "fast"])
def test_builders_that_a_ramp_down_left_over_are_a_warning(engine: str) -> None:
    """The run was said to be at rest; a fixed pool's builders, and a minimum, are to stay."""
    result = farm.simulate(RAMPED_DOWN, engine=engine)
    summary = result.kept.summary
    assert summary.warnings == ("2 builders were still there when the ramp-down ended: sized 2",)
    assert summary.quiescence is not None
    assert (summary.quiescence.builders, summary.quiescence.left_over) == (5, {"sized": 2})
    assert summary.ended_well, "no job was lost and nothing failed"
    assert "not at rest: no job open, 5 builders there" in shown(summary, 120)


@pytest.mark.parametrize("width", [40, 50, 60])
def test_no_number_is_cut_on_a_narrow_terminal(width: int) -> None:
    """382 jobs were three at 60 columns: a column that has no room is left out, and named."""
    lines = shown(farm.simulate("quickstart").kept.summary, width).splitlines()
    assert any("hidden at this width: std" in line for line in lines)
    [wait] = [line.split()[2:] for line in lines if line.startswith("waiting time")]
    assert wait[0] == "8m41s"
    assert {*wait} <= {"8m41s", "4m38s", "25m53s", "42m20s", "44m39s", "655"}


def test_waits_are_told_by_invocation() -> None:
    """Whose jobs wait, which the mean of all hides: calm's hardly do."""
    lines = shown(farm.simulate("fair-share-two-teams").kept.summary, 80).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("invocation"))
    loud, calm = (line.split() for line in lines[at + 1 : at + 3])
    assert (loud[:2], calm[:2]) == (["loud", "200"], ["calm", "15"])
    assert loud[2].startswith("1m")
    assert calm[2].endswith("s")
    assert "m" not in calm[2].removesuffix("ms")


@pytest.mark.parametrize(
    "given",
    [
        {"phases.ramp_down": "3m"},
        {"phases.ramp_down": "0s"},
        {"pools.sized.provisioner.min": 2},
        {"workload.0.arrivals.count": 100},
    ],
    ids=["long enough", "none", "kept by the minimum", "load until the end"],
)
def test_builders_that_should_be_there_are_no_warning(given: dict[str, Any]) -> None:
    """Protects runs whose builders left, are to stay, or still have a load."""
    assert farm.simulate(RAMPED_DOWN, **given).kept.summary.warnings == ()


def test_a_run_that_was_ended_before_its_ramp_down_has_no_such_warning(
    history: Any, tell: Any
) -> None:
    """Its builders could not have left yet."""
    records = tell(Recorder(), history[:-1]).records()
    info = msgspec.structs.replace(INFO, window=Window(0.0, 20.0), ends_at=30.0)
    lasted = msgspec.structs.replace(info, until=30.0)
    assert len(summarise(records, lasted, 0.0).warnings) == 1
    assert summarise(records, info, 0.0).warnings == ()


def test_counting_as_taskcluster_keeps_everything_present_in_the_phase(
    history: Any, tell: Any, records: RunRecords
) -> None:
    """What ended before the phase is ignored, what began before it counts with its whole life."""
    info = msgspec.structs.replace(INFO, window=Window(15.0, 39.0), as_taskcluster=True)
    summary = summarise(records, info, 0.0)
    assert (summary.jobs.submitted, summary.jobs.cancelled) == (3, 1), "a ended before"
    assert (summary.builders.requested, summary.builders.joined) == (0, 2), "b2 was lost before"
    assert summary.waiting_time.count == 1, "c ended after the phase"
    assert summary.builder_time == 24 + 24
    staying = tell(Recorder(), history[:-1]).records()
    late = msgspec.structs.replace(info, window=Window(40.5, 50.0))
    builders = summarise(staying, late, 0.0).builders
    assert (builders.over_provisioned, builders.over_provisioned_time) == (2, 40.0 + 32.0), (
        "b1's work is forgotten, its time is not"
    )


def test_nothing_at_all_can_be_summarised() -> None:
    """A run without jobs and builders ends with a summary, not with a crash."""
    summary = summarise(Recorder().records(), INFO, 0.0)
    assert summary.jobs.submitted == 0
    assert summary.makespan is None
    assert summary.waiting_time.mean is None
    assert summary.utilization is None
    assert summary.fairness_index == 1.0
    assert "0 submitted" in shown(summary, 100)


def test_jobs_without_an_end_are_lost(history: Any, tell: Any) -> None:
    """A truncated run reports how many jobs it never ended, and a matrix with one has no time."""
    summary = summarise(tell(Recorder(), history[:14]).records(), INFO, 0.0)
    assert (summary.jobs.submitted, summary.jobs.lost) == (4, 2)
    assert summary.matrix_response_time.count == 0


def test_summary_json_has_the_promised_keys(summary: Summary) -> None:
    """These names are a promise to other programs."""
    told = json.loads(msgspec.json.encode(summary))
    spreads = ("waiting_time_s", "response_time_s", "stretch", "matrix_response_time_s")
    assert set(told) >= {
        *("name", "world", "engine", "seed", "policy", "jobs", "attempts", "makespan_s"),
        *spreads,
        *("builders", "builder_time_s", "utilization", "fairness_index", "events", "wall_time_s"),
    }
    assert set(told["jobs"]) == {"submitted", "succeeded", "failed", "cancelled", "lost"}
    assert all(set(told[x]) >= {"mean", "std", "p50", "p95", "p99", "max"} for x in spreads)
    assert set(told["builders"]) == {
        *("requested", "joined", "retired", "lost", "max_running"),
        *("over_provisioned", "over_provisioned_time_s"),
    }


def test_a_summary_is_readable(summary: Summary) -> None:
    """Readers get units and few digits."""
    text = shown(summary, 100)
    assert "4 submitted, 2 succeeded, 1 failed, 1 cancelled" in text
    assert "25s" in text


def as_list(table: Table, name: str) -> list[Any]:
    """Return a column's values; None: none, which unlike NaN is equal to itself."""
    column = getattr(table, name)
    values = column.tolist() if isinstance(column, Coded) else column
    return [None if value != value else value for value in (() if values is None else values)]


def test_records_can_be_made_from_the_log(log: Path, records: RunRecords) -> None:
    """A finished run can be summarised again from its log alone."""
    again = Recorder()
    for entry in read_log(log):
        again(entry.event, entry.commands)
    read, seen = again.records(), records
    for part in ("jobs", "lost", "builders", "void"):
        one, other = getattr(read, part), getattr(seen, part)
        assert {name: as_list(one, name) for name in one.columns} == {
            name: as_list(other, name) for name in other.columns
        }
    assert (read.events, read.last_at) == (seen.events, seen.last_at)


def test_the_first_estimate_counts(tell: Any) -> None:
    """An estimate is judged as it was given first; later ones know more."""
    events = [(EstimateMade(at, "a", "page", at + 5), []) for at in (0.0, 3.0)]
    events.insert(0, (JobsSubmitted(0.0, (Job(id="a", service_time=1.0),)), []))
    assert tell(Recorder(), events).records().lost.estimated_dispatch_at.tolist() == [5.0]


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=50))
def test_percentiles_are_type_seven(values: list[float]) -> None:
    """The stated rule is the one used: Python's inclusive quantiles are type 7."""
    spread = spread_of(values)
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    assert spread.p50 == pytest.approx(cuts[49])
    assert spread.p95 == pytest.approx(cuts[94])
    assert spread.p99 == pytest.approx(cuts[98])
    assert spread.std == pytest.approx(statistics.pstdev(values), abs=1e-6)


@given(
    st.integers(100, 3000),
    st.sampled_from(["spread", "few", "mostly 0", "one", "by time"]),
    st.sampled_from([0.0, 0.01, 0.5, 0.95, 0.99, 0.999, 1.0]),
)
def test_quantiles_of_many_values(count: int, kind: str, level: float) -> None:
    """They are what NumPy gives, to the last bit."""
    values = np.random.default_rng(count).exponential(100.0, count)
    values = {
        "spread": values,
        "few": np.floor(values / 100),
        "mostly 0": np.where(values < 300, 0.0, values),
        "one": np.full(count, 2.5),
        "by time": np.sort(values),
    }[kind]
    spread = spread_of(values)
    assert quantile(values, level) == np.quantile(values, level)
    assert [spread.p50, spread.p95, spread.p99] == np.quantile(values, [0.5, 0.95, 0.99]).tolist()
    assert (spread.count, spread.max) == (count, values.max())


def test_quantiles_of_nothing() -> None:
    """No values have no quantile; a spread of nothing is empty."""
    with pytest.raises(ValueError, match="no quantile"):
        quantile([], 0.5)
    assert quantile([1.0, 2.0], 0.25) == 1.25
    assert spread_of([]).max is None


@given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=20))
def test_jain_index_lies_between_one_nth_and_one(shares: list[float]) -> None:
    """1/n is all to one, 1 is even."""
    assert 1 / len(shares) - 1e-9 <= jain_index(shares) <= 1 + 1e-9


def test_a_job_cancelled_while_it_waits_again_saves_all_of_its_service_time() -> None:
    """The attempt on the lost builder is void: what ran of it is no part of another attempt."""
    pool = {"builders": 2, "boot_time": "30s", "losses": {"at": ["50s"]}}
    load = [
        Job(id="a", service_time=100.0, matrix="m", arrived_at=0.0),
        Job(id="b", service_time=40.0, matrix="m", arrived_at=0.0, fails=True),
    ]
    run = farm.simulate(small_scenario(pool, scheduling={"fail_fast": True}), jobs=load)
    rows = {row["job_id"]: row for row in run.jobs}
    b, a = rows["b"], rows["a"]
    assert (b["outcome"], b["service_time_s"], b["finished_at_s"]) == ("failed", 40.0, 70.0)
    assert (a["outcome"], a["started_at_s"], a["builder"]) == ("cancelled", 30.0, "")
    assert math.isnan(a["service_time_s"])
    assert run.summary["saved_time_s"] == 100.0
