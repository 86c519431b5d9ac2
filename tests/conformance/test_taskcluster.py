"""The Taskcluster simulator's own counts on Firefox CI's recorded pools, number for number."""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farm.assembly import estimator_of, make_rules, run_info
from farm.results.summary.run_phase import touching
from farm.results.summary.summary import Summary, summarise
from farm.results.table.recorder import RunRecords
from farm.scenario import Scenario, parse_scenario
from farm.sim.engines import Engine
from farm.sim.engines import play as simulated
from farm.sim.setting import Setting
from farm.testing import small_scenario
from farm.workload import build_jobs
from provisioner.from_scenario import algorithms_of

from .conftest import IN_TREE, cases_folder, refuse_unknown

pytestmark = pytest.mark.usefixtures("kernel")

ENGINES = ("reference", pytest.param("fast", marks=pytest.mark.slow))
HOUR = 3600.0
HUNDREDTH = 0.005 + 1e-9  # the original's hours are known to two places


def taskcluster(
    load: dict[str, Any], phases: dict[str, str], provisioner: dict[str, Any], **pool: Any
) -> Scenario:
    """One pool of workers with a slot each, counted as the original does."""
    provisioner = {"max": 1000, "compatibility": "taskcluster", **provisioner}
    return parse_scenario(
        small_scenario(
            {"provisioner": provisioner, **pool},
            load,
            phases=phases,
            scheduling={"compatibility": "taskcluster"},
        )
    )


def firefox(trace: Path, provisioner: dict[str, Any]) -> Scenario:
    """Return the original's sims ``firefox`` and ``firefox-manual`` as a scenario."""
    phases = {"ramp_up": "1d", "run": "5d", "ramp_down": "1d"}
    load = {"trace": {"path": str(trace)}}
    return taskcluster(load, phases, provisioner, boot_time="20s", idle_timeout="15m")


def manual(workers: int, load: float) -> Scenario:
    """The original's sim ``manual``: a task of 60·√load seconds every 60 ÷ √load seconds."""
    every, time = 60 / math.sqrt(load), 60 * math.sqrt(load)
    tasks = {"every": every, "start": every, "service_time": time}
    phases = {"ramp_up": "1h", "run": "24h", "ramp_down": "1h"}
    provisioner = {"algorithm": "manual", "capacity": workers}
    return taskcluster(tasks, phases, provisioner, boot_time="10s", idle_timeout="1m")


def simple() -> Scenario:
    """The original's sim ``simple``: a task of 5 s every 900 ms, an estimate each second."""
    tasks = {"every": 0.9, "start": 0.9, "service_time": "5s"}
    phases = {"ramp_up": "10s", "run": "10000s", "ramp_down": "20s"}
    return taskcluster(tasks, phases, {**ESTIMATE, "max": 10}, boot_time="2s", idle_timeout="10s")


ESTIMATE = {"algorithm": "taskcluster"}


def play(scenario: Scenario, engine: Engine = "reference") -> tuple[Summary, RunRecords]:
    """Simulate it; return the summary, and the columns that the original counts."""
    setting = Setting.of(scenario, make_rules(scenario), algorithms_of(scenario))
    records = simulated(setting, estimator_of(scenario), build_jobs(scenario), engine=engine)
    info = run_info(scenario, "simulated", engine)
    return summarise(records, info, 0.0), touching(records, info.window)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.conformance("taskcluster", "pools")
def test_the_originals_numbers_come_out(case: dict[str, Any], engine: str, traces: Path) -> None:
    """Counts are equal, the mean wait to 0.01 ms, hours to the places that are known."""
    summary, columns = play(firefox(recorded(traces, case["name"]), ESTIMATE), engine)
    builders = summary.builders
    found = {
        "tasks": summary.jobs.succeeded,
        "workers": builders.requested,
        "events": events_kept(columns),
        "over_provisioned": builders.over_provisioned,
        "most_workers": builders.max_running,
        "mean_wait_ms": milliseconds(summary.waiting_time.mean, 0.01),
        "longest_wait_s": pytest.approx(summary.waiting_time.max, abs=0.0005),
        "worker_hours": hours(summary.builder_time),
        "over_provisioned_hours": hours(builders.over_provisioned_time),
        "worker_hours_from_request": hours(requested_time(summary, columns)),
        "busy_hours": hours((summary.utilization or 0.0) * summary.builder_time),
    }
    compare(case, found, {"never_worked", "slow"})


@pytest.mark.timeout(300)
@pytest.mark.conformance("taskcluster", "pools")
def test_by_default_over_provisioned_builders_are_those_that_never_worked(
    case: dict[str, Any], traces: Path
) -> None:
    """Protects the correct count, which the original gets wrong, as the default."""
    if "never_worked" not in case:
        pytest.skip("says nothing of those that never worked")
    scenario = firefox(recorded(traces, case["name"]), ESTIMATE)
    scheduling = scenario.scheduling.model_copy(update={"compatibility": None})
    engine: Engine = "fast" if case.get("slow") else "reference"
    summary, _ = play(scenario.model_copy(update={"scheduling": scheduling}), engine)
    assert summary.builders.over_provisioned == case["never_worked"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.conformance("taskcluster", "manual")
def test_a_manual_pool_under_an_even_load(case: dict[str, Any], engine: str) -> None:
    """Tasks at the window's edges are counted as the original does: without any trace."""
    summary, _ = play(manual(case["workers"], case["load"]), engine)
    compare(case, manual_counts(summary), {"load"})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.conformance("taskcluster", "ties")
def test_entries_of_one_instant_come_first_in_first_out(case: dict[str, Any], engine: str) -> None:
    """Simultaneous plans and time-outs give the original's result without its heap's order.

    Its priority queue takes equal entries in an order of its own making, which nothing in the
    model decides; with a queue that is first in, first out it makes these counts.
    """
    assert case["sim"] in ("manual", "simple"), f"unknown sim {case['sim']}"
    scenario = manual(case["capacity"], case["load"]) if case["sim"] == "manual" else simple()
    summary, _ = play(scenario, engine)
    found = {
        "workers": summary.builders.requested,
        "tasks": summary.jobs.submitted,
        "mean_wait_ms": milliseconds(summary.waiting_time.mean, 0.0005),
        "longest_wait_ms": pytest.approx(summary.waiting_time.max * 1000),
    }
    compare(case, found, {"sim", "capacity", "load", "slow", "workers_of_its_heap"})


@pytest.mark.parametrize("compatibility", [None, "taskcluster"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_worker_between_two_tasks_counts_as_idle(engine: str, compatibility: str | None) -> None:
    """The task that comes at 30 s waits for the one worker, which began at 3.3 s and rests 30 s.

    The original resolves a task before its ``interTaskDelay``, and counts claimed tasks.
    """
    estimate = {**ESTIMATE, "compatibility": compatibility}
    tasks = {"every": "30s", "count": 2, "service_time": "20s"}
    times = {"boot_time": "2.3s", "idle_timeout": "15m", "inter_job_time": "30s"}
    scenario = taskcluster(tasks, {"run": "5m"}, estimate, **times)
    summary, _ = play(scenario, engine)
    assert summary.builders.requested == 1
    assert summary.waiting_time.max == pytest.approx(3.3 + 20 + 30 - 30)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.conformance("taskcluster")
def test_an_overloaded_manual_pool(document: dict[str, Any], traces: Path) -> None:
    """Waits are those of the tasks that were done in time, one in thirty."""
    case = document.get("manual_trace")
    if case is None:
        pytest.skip("no such pool in this file")
    provisioner = {"algorithm": "manual", "capacity": case["workers"]}
    summary, _ = play(firefox(recorded(traces, "gecko-t-t-linux-large"), provisioner), "fast")
    compare(case, manual_counts(summary), ())


def manual_counts(summary: Summary) -> dict[str, Any]:
    """Return what the original counts of its manual pools."""
    return {
        "tasks": summary.jobs.submitted,
        "resolved": summary.waiting_time.count,
        "workers": summary.builders.requested,
        "mean_wait_ms": milliseconds(summary.waiting_time.mean, 0.5),
        "worker_hours": hours(summary.builder_time),
        "busy_hours": hours((summary.utilization or 0.0) * summary.builder_time),
    }


def compare(case: dict[str, Any], found: dict[str, Any], besides: Collection[str]) -> None:
    """Compare all that the case expects; ``besides``: what else it may have."""
    refuse_unknown("case", case, {*found, *besides})
    expected = {key: value for key, value in case.items() if key in found}
    assert expected, "nothing is expected"
    assert expected == {key: found[key] for key in expected}


def milliseconds(seconds: float, places: float) -> Any:
    """Convert a time to milliseconds, equal to what is that near."""
    return pytest.approx(seconds * 1000, abs=places)


def hours(seconds: float) -> Any:
    """Convert a time to hours, equal to what rounds to the same two places."""
    return pytest.approx(seconds / HOUR, abs=HUNDREDTH)


def recorded(traces: Path, pool: str) -> Path:
    """Return a pool's trace; skip if it was not recorded, unless the case is not ours."""
    path = traces / "firefox-ci" / f"{pool}.dat"
    if not path.is_file():
        give_up = pytest.skip if cases_folder() == IN_TREE else pytest.fail
        give_up(f"no {path.name} among the recorded traces (FARM_TRACES)")
    return path


def events_kept(records: RunRecords) -> int:
    """Count the instants in the lives of tasks and workers that the original records."""
    jobs, builders = records.jobs, records.builders
    instants = (jobs.arrived_at, jobs.started_at, jobs.finished_at)
    lives = (builders.requested_at, builders.joined_at, builders.gone_at)
    return sum(int((~np.isnan(column)).sum()) for column in (*instants, *lives))


def requested_time(summary: Summary, records: RunRecords) -> float:
    """Seconds of the run phase from request to shutdown, over all builders."""
    lives = records.builders
    gone_at = np.where(np.isnan(lives.gone_at), records.last_at, lives.gone_at)
    return float(summary.window.overlap(lives.requested_at, gone_at).sum())
