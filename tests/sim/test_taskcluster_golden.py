"""The Taskcluster simulator's own counts on Firefox CI's recorded pools, number for number."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farm.assembly import make_scheduler, run_info
from farm.results.summary.columns import Columns
from farm.results.summary.records import Recorder
from farm.results.summary.summary import Summary, summarise
from farm.scenario import Scenario, parse_scenario
from farm.sim.fast.engine_choice import try_fast
from farm.sim.simulation import simulate
from farm.workload import build_jobs
from provisioner.from_scenario import algorithms_of

CASES = Path(__file__).parents[1] / "conformance" / "cases" / "taskcluster.json"
GOLDEN = json.loads(CASES.read_text(encoding="utf-8"))
POOLS = GOLDEN["pools"]
#: pools that simulate in a few seconds at most
SMALL = ("mobile-3-decision", "mobile-3-b-linux-large")
ENGINES = ("reference", pytest.param("fast", marks=pytest.mark.slow))
HOUR = 3600.0
HUNDREDTH = 0.005 + 1e-9  # the original's hours are known to two places


def firefox(trace: Path, provisioner: dict[str, Any]) -> Scenario:
    """Return the original's sims ``firefox`` and ``firefox-manual`` as a scenario."""
    return parse_scenario(
        {
            "phases": {"ramp_up": "1d", "run": "5d", "ramp_down": "1d"},
            "pools": [pool("20s", "15m", provisioner)],
            "workload": [{"trace": {"path": str(trace)}}],
            "scheduling": {"compatibility": "taskcluster"},
        }
    )


def manual(workers: int, load: float) -> Scenario:
    """The original's sim ``manual``: a task of 60·√load seconds every 60 ÷ √load seconds."""
    every, time = 60 / math.sqrt(load), 60 * math.sqrt(load)
    return parse_scenario(
        {
            "phases": {"ramp_up": "1h", "run": "24h", "ramp_down": "1h"},
            "pools": [pool("10s", "1m", {"algorithm": "manual", "capacity": workers})],
            "workload": [{"arrivals": {"every": every, "start": every, "service_time": time}}],
            "scheduling": {"compatibility": "taskcluster"},
        }
    )


def simple() -> Scenario:
    """The original's sim ``simple``: a task of 5 s every 900 ms, an estimate each second."""
    sized = pool("2s", "10s", {**ESTIMATE, "max": 10})
    return parse_scenario(
        {
            "phases": {"ramp_up": "10s", "run": "10000s", "ramp_down": "20s"},
            "pools": [sized],
            "workload": [{"arrivals": {"every": 0.9, "start": 0.9, "service_time": "5s"}}],
            "scheduling": {"compatibility": "taskcluster"},
        }
    )


def pool(boot_time: str, idle_timeout: str, provisioner: dict[str, Any]) -> dict[str, Any]:
    """One pool of builders with a slot each."""
    return {
        "name": "firefox",
        "platform": {"processor": "amd64"},
        "boot_time": boot_time,
        "idle_timeout": idle_timeout,
        "provisioner": {"max": 1000, "compatibility": "taskcluster", **provisioner},
    }


ESTIMATE = {"algorithm": "taskcluster"}


def play(scenario: Scenario, engine: str = "reference") -> tuple[Summary, Columns]:
    """Simulate it; return the summary, and the columns that the original counts."""
    algorithms = algorithms_of(scenario)
    if engine == "fast":
        pytest.importorskip("numba")
        from farm.sim.fast.run_records import records as records_of

        scheduler, jobs = make_scheduler(scenario), build_jobs(scenario)
        found = try_fast(scenario, scheduler, jobs, algorithms, forced=True)
        assert found.played is not None
        records = records_of(found.played)
    else:
        recorder = Recorder()
        simulate(scenario, [recorder], algorithms=algorithms)
        records = recorder.records()
    info = run_info(scenario, "simulated", engine)
    touching = records.columns().touching(info.window.start, info.window.end)
    return summarise(records, info, 0.0), touching


@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case["name"], marks=() if case["name"] in SMALL else pytest.mark.slow)
        for case in POOLS
    ],
)
def test_the_originals_numbers_come_out(case: dict[str, Any], engine: str, traces: Path) -> None:
    """Counts are equal, the mean wait to 0.01 ms, hours to the places that are known."""
    summary, columns = play(firefox(recorded(traces, case["name"]), ESTIMATE), engine)
    builders = summary.builders
    counts = {
        "tasks": summary.jobs.succeeded,
        "workers": builders.requested,
        "events": events_kept(columns),
        "over_provisioned": builders.over_provisioned,
        "most_workers": builders.max_running,
    }
    assert counts == {name: case[name] for name in counts}
    assert summary.waiting_time.mean == pytest.approx(case["mean_wait_ms"] / 1000, abs=0.01e-3)
    assert summary.waiting_time.max == pytest.approx(case["longest_wait_s"], abs=0.0005)
    hours = {
        "worker_hours": summary.builder_time / HOUR,
        "over_provisioned_hours": builders.over_provisioned_time / HOUR,
        "worker_hours_from_request": requested_time(summary, columns) / HOUR,
        "busy_hours": (summary.utilization or 0.0) * summary.builder_time / HOUR,
    }
    assert hours == pytest.approx({name: case[name] for name in hours}, abs=HUNDREDTH)


@pytest.mark.parametrize("case", POOLS[:1], ids=lambda case: case["name"])
def test_by_default_over_provisioned_builders_are_those_that_never_worked(
    case: dict[str, Any], traces: Path
) -> None:
    """Protects the correct count, which the original gets wrong, as the default."""
    scenario = firefox(recorded(traces, case["name"]), ESTIMATE)
    scheduling = scenario.scheduling.model_copy(update={"compatibility": None})
    summary, _ = play(scenario.model_copy(update={"scheduling": scheduling}))
    assert summary.builders.over_provisioned == case["never_worked"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", GOLDEN["manual"], ids=lambda case: case["name"])
def test_a_manual_pool_under_an_even_load(case: dict[str, Any], engine: str) -> None:
    """Tasks at the window's edges are counted as the original does: without any trace."""
    summary, _ = play(manual(case["workers"], case["load"]), engine)
    check_manual(summary, case)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", GOLDEN["ties"], ids=lambda case: case["name"])
def test_entries_of_one_instant_come_first_in_first_out(case: dict[str, Any], engine: str) -> None:
    """Simultaneous plans and time-outs give the original's result without its heap's order.

    Its priority queue takes equal entries in an order of its own making, which nothing in the
    model decides; with a queue that is first in, first out it makes these counts.
    """
    scenario = manual(case["capacity"], case["load"]) if case["sim"] == "manual" else simple()
    summary, _ = play(scenario, engine)
    assert summary.builders.requested == case["workers"]
    assert summary.jobs.submitted == case["tasks"]
    assert summary.waiting_time.mean == pytest.approx(case["mean_wait_ms"] / 1000, abs=5e-7)
    assert summary.waiting_time.max == pytest.approx(case["longest_wait_ms"] / 1000)


@pytest.mark.parametrize("compatibility", [None, "taskcluster"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_worker_between_two_tasks_counts_as_idle(engine: str, compatibility: str | None) -> None:
    """The task that comes at 30 s waits for the one worker, which began at 3.3 s and rests 30 s.

    The original resolves a task before its ``interTaskDelay``, and counts claimed tasks.
    """
    estimate = {**ESTIMATE, "compatibility": compatibility}
    tasks = {"every": "30s", "count": 2, "service_time": "20s"}
    scenario = parse_scenario(
        {
            "phases": {"run": "5m"},
            "pools": [{**pool("2.3s", "15m", estimate), "inter_job_time": "30s"}],
            "workload": [{"arrivals": tasks}],
            "scheduling": {"compatibility": "taskcluster"},
        }
    )
    summary, _ = play(scenario, engine)
    assert summary.builders.requested == 1
    assert summary.waiting_time.max == pytest.approx(3.3 + 20 + 30 - 30)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_overloaded_manual_pool(traces: Path) -> None:
    """Waits are those of the tasks that were done in time, one in thirty."""
    case = GOLDEN["manual_trace"]
    provisioner = {"algorithm": "manual", "capacity": case["workers"]}
    summary, _ = play(firefox(recorded(traces, "gecko-t-t-linux-large"), provisioner))
    check_manual(summary, case)


def check_manual(summary: Summary, case: dict[str, Any]) -> None:
    """Compare with the original's counts of its manual pools."""
    assert summary.jobs.submitted == case["tasks"]
    assert summary.waiting_time.count == case["resolved"]
    assert summary.builders.requested == case["workers"]
    assert summary.waiting_time.mean == pytest.approx(case["mean_wait_ms"] / 1000, abs=0.0005)
    assert summary.builder_time / HOUR == pytest.approx(case["worker_hours"], abs=HUNDREDTH)
    busy = (summary.utilization or 0.0) * summary.builder_time / HOUR
    assert busy == pytest.approx(case["busy_hours"], abs=HUNDREDTH)


def recorded(traces: Path, pool: str) -> Path:
    """Return a pool's trace; skip if it was not recorded."""
    path = traces / "firefox-ci" / f"{pool}.dat"
    if not path.is_file():
        pytest.skip(f"no {path.name} among the recorded traces (FARM_TRACES)")
    return path


def events_kept(columns: Columns) -> int:
    """Count the instants in the lives of tasks and workers that the original records."""
    ends, spans = columns.ends, columns.spans
    instants = (ends.arrived_at, ends.started_at, ends.finished_at)
    lives = (spans.requested_at, spans.joined_at, spans.gone_at)
    return sum(int((~np.isnan(column)).sum()) for column in (*instants, *lives))


def requested_time(summary: Summary, columns: Columns) -> float:
    """Seconds of the run phase from request to shutdown, over all builders."""
    spans = columns.spans
    gone_at = np.where(np.isnan(spans.gone_at), columns.last_at, spans.gone_at)
    return float(summary.window.overlap(spans.requested_at, gone_at).sum())
