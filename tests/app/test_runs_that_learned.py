"""Runs that start from an earlier run's statistics: explained, exported and planned with them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import farm
from farm.app.forecasts.capacity import plan_pools
from farm.app.recorded.auditing import decisions_on
from farm.app.recorded.backfill import Place, write_text
from farm.app.recorded.played_again import played_again
from farm.app.runs.estimating import Estimating
from farm.assembly import estimator_of
from farm.core.commands import StartJob
from farm.core.errors import InputError
from farm.core.model import Builder
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.results.run_directory import Run, load_run
from farm.results.summary.objectives import parse_objective
from farm.scenario import Scenario, parse_scenario
from farm.sim.capacity_planning import PlanOptions
from farm.testing import VirtualFarm, small_scenario
from tests.metrics.test_exporter import samples


def scenario(slow: str, quick: str, **estimates: Any) -> Scenario:
    """Jobs of two kinds, one of each a second, on one builder; the shorter estimate goes first."""
    kinds = {"slow": slow, "quick": quick}
    loads = [{"kind": kind, "count": 15, "service_time": time} for kind, time in kinds.items()]
    rules = {"policy": "sjf", "runtime_estimates": "last-3"}
    return parse_scenario(small_scenario({}, loads, scheduling=rules, estimates=estimates))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that learned the opposite of what is true: slow jobs first."""
    folder = tmp_path_factory.mktemp("runs")
    farm.simulate(scenario("1s", "60s")).save(folder / "earlier")
    wanted = scenario("20s", "2s", learn_from=str(folder / "earlier"))
    farm.simulate(wanted).save(folder / "run")
    return load_run(folder / "run")


def changed(run: Run, path: Path) -> Run:
    """Return a copy of the run whose scheduler has no statistics."""
    run.save(path)
    text = (path / "scenario.yaml").read_text()
    lines = [line for line in text.splitlines(keepends=True) if "learn_from" not in line]
    assert len(lines) == text.count("\n") - 1
    (path / "scenario.yaml").write_text("".join(lines))
    return load_run(path)


def test_each_dispatch_is_explained_as_it_was(run: Run) -> None:
    """The replay begins with the statistics that the run began with."""
    started = {
        command.job.id: (entry.event.at, command.builder)
        for entry in run.entries()
        for command in entry.commands
        if isinstance(command, StartJob)
    }
    assert len(started) == 30
    last = {job: decisions_on(run.path, job)[-1] for job in started}
    assert {job: (one.at, one.builder) for job, one in last.items()} == started


def test_other_decisions_than_the_recorded_ones_are_not_shown(run: Run, tmp_path: Path) -> None:
    """A run that cannot be replayed is refused, with its line, before metrics of it are written."""
    other, text = changed(run, tmp_path / "other"), io.StringIO()
    refused = r"other: cannot be replayed: from line \d+ of its event"
    with pytest.raises(InputError, match=refused):
        decisions_on(other.path, run.jobs["job_id"][-1])
    with pytest.raises(InputError, match=refused):
        write_text(other, Place.of(other, None, None), text)
    assert text.getvalue() == ""


def test_the_metrics_of_a_run_end_where_its_summary_does(run: Run) -> None:
    """All jobs have succeeded, and none is left in the queue."""
    text = io.StringIO()
    write_text(run, Place.of(run, None, None), text)
    ended = [line for line in text.getvalue().splitlines() if 'outcome="succeeded"' in line]
    totals = [line for line in ended if line.startswith("farm_jobs_total{")]
    assert float(totals[-1].split()[1]) == run.summary.jobs.succeeded == 30
    assert samples(text, "farm_queue_depth")[-1][1] == 0.0


def test_a_plan_begins_with_the_statistics_too(run: Run) -> None:
    """Its one replication with the scenario's own pool is the run."""
    terms = parse_objective("mean(waiting_time) < 1d")
    found = plan_pools(run.scenario, terms, PlanOptions(replications=1, most=1))
    (point,) = (point for point in found.points if point.sizes == (1,))
    assert point.mean_wait == pytest.approx(run.summary.waiting_time.mean)


def test_a_virtual_farm_begins_with_the_statistics_too(run: Run) -> None:
    """Its scheduler estimates as that of the run did at first."""
    estimate = VirtualFarm(run.scenario).scheduler.estimator.estimate
    jobs = [farm.Job(id=kind, service_time=5.0, kind=kind) for kind in ("slow", "quick")]
    assert [estimate(job) for job in jobs] == [1.0, 60.0]


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("dumped", ["alone", "with its errors", "in a snapshot"])
def test_every_file_of_statistics_is_learned_from(tmp_path: Path, dumped: str, live: bool) -> None:
    """A live farm's, too, by a simulation, which keeps no errors of its estimates."""
    known = RuntimeDistribution(estimator_of(scenario("1s", "1s")))
    builder = Builder(id="p-1", pool="p", index=1, processors=("amd64",))
    for _ in range(3):
        known.learn(farm.Job(id="a", service_time=7.0, kind="slow"), builder, 7.0, "succeeded")
    statistics = known.estimator.dump() if dumped == "alone" else known.dump()
    content = (
        statistics if dumped != "in a snapshot" else {"snapshot": {}, "statistics": statistics}
    )
    (tmp_path / "learned.json").write_text(json.dumps(content))
    wanted = scenario("1s", "1s", learn_from=str(tmp_path / "learned.json"))
    found = Estimating(wanted, live=live, again=played_again).estimator
    assert found.estimate(farm.Job(id="b", service_time=1.0, kind="slow")) == 7.0
