"""The thesis's model, played by the real scheduler in the simulated world: exactly its numbers.

Two builders, four matrices of 25 jobs handed in together at 0, jobs as heavy as the case says.
The engines called ``tick`` advance time in steps of 0.1 and are not ours to match.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, median, stdev
from typing import Any

import numpy as np
import pytest

from farm.core.commands import Command, EndJob
from farm.core.events import Event
from farm.core.model import Job
from farm.core.policies import POLICIES, PolicyOptions
from farm.core.pool_spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.runtime_estimators.oracle import Oracle
from farm.core.scheduler import Scheduler
from farm.driver import drive
from farm.sim.world import SimulatedWorld

#: engine -> the pool's contention, as a scenario writes it
ENGINES: dict[str, dict[str, Any] | None] = {
    "event_none": None,
    "event_thesis": {"slowdown": "thesis"},
}
#: the thesis's name -> policy and ageing; RANDOM's permutation is given, as scores
NAMES = {
    "LJF": ("ljf", "linear"),
    "SJF": ("sjf", "linear"),
    "RANDOM": ("score", "linear"),
    "FIFO": ("fifo", "linear"),
    "LJF_AGING": ("ljf-aging", "matrix"),
    "SJF_AGING": ("sjf-aging", "matrix"),
}
Numbers = tuple[float, float, float]


def made(run: dict[str, Any]) -> tuple[Job, ...]:
    """Make the jobs of a run; the earlier in the permutation, the higher the score."""
    place = {number: place for place, number in enumerate(run["random_permutation"])}
    return tuple(
        Job(
            id=str(number),
            service_time=service_time,
            matrix=str(run["matrix"][number]),
            heavy=bool(run["heavy"][number]),
            score=-place[number],
        )
        for number, service_time in enumerate(run["jobs"])
    )


def play(jobs: Sequence[Job], name: str, slots: int, engine: str) -> Numbers:
    """Run the jobs; return makespan, mean response time and mean matrix response time."""
    policy, aging = NAMES[name]
    key = POLICIES[policy](PolicyOptions(aging=aging))
    ended: dict[str, float] = {}

    def observe(event: Event, commands: Sequence[Command]) -> None:
        for command in commands:
            if type(command) is EndJob:
                assert command.outcome == "succeeded"
                ended[command.job.id] = command.finished_at

    pool = PoolSpec(name="node", slots=slots, builders=2, contention=ENGINES[engine])
    world = SimulatedWorld([pool], iter([(0.0, tuple(jobs))]))
    drive(Scheduler(SchedulingRules(policy=key), Oracle()), world, observe)
    last: dict[str | None, float] = {}
    for job in jobs:
        last[job.matrix] = max(ended[job.id], last.get(job.matrix, 0.0))
    return max(ended.values()), fmean(ended.values()), fmean(last.values())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.conformance("thesis", "golden_runs")
def test_golden_run(case: dict[str, Any], engine: str) -> None:
    """Every policy at every number of slots, with and without slowdown, to 1e-9."""
    jobs = made(case)
    for name, by_slots in case["results"].get(engine, {}).items():
        for slots, expected in by_slots.items():
            found = play(jobs, name, int(slots), engine)
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9), f"{name}, {slots} slots"


# --- the tables over many runs -----------------------------------------------------------------

METRICS = ("makespan", "avg_response_time", "avg_matrix_response_time")


def job_sets(document: dict[str, Any]) -> Iterator[tuple[Job, ...]]:
    """Draw the job sets as the file's ``meta.job_sets`` says; the 20 longest of 100 are heavy."""
    meta = document["meta"]
    draws = np.random.RandomState(meta["seed"])
    times = draws.pareto(1.161, (meta["runs"], 100)) + 1.0
    for row in times:
        run = {
            "jobs": row.tolist(),
            "matrix": [number // 25 for number in range(100)],
            "heavy": (row > np.sort(row)[-21]).tolist(),
            "random_permutation": draws.permutation(100).tolist(),
        }
        yield made(run)


@pytest.mark.conformance("thesis")
def test_the_recipe_gives_the_golden_job_sets(document: dict[str, Any]) -> None:
    """What the tables are averaged over is what the golden runs are taken from."""
    golden = {run["run"]: made(run) for run in document["golden_runs"]}
    if "tables" not in document:
        pytest.skip("no tables in this file, so no recipe either")
    for number, jobs in enumerate(job_sets(document)):
        if number in golden:
            assert jobs == golden[number]


@pytest.mark.conformance("thesis")
def test_what_the_thesis_claims(document: dict[str, Any]) -> None:
    """Sixty job sets show what a thousand do: LJF has the best makespan, SJF the best response."""
    if "tables" not in document:
        pytest.skip("no tables in this file, so no recipe either")
    sets = [jobs for jobs, _ in zip(job_sets(document), range(60), strict=False)]
    for slots in (2, 8):
        found = {
            name: [play(jobs, name, slots, "event_thesis") for jobs in sets]
            for name in ("LJF", "SJF", "FIFO")
        }
        medians = {
            name: [median(c) for c in zip(*rows, strict=True)] for name, rows in found.items()
        }
        assert medians["LJF"][0] == min(row[0] for row in medians.values())
        assert medians["SJF"][1] == min(row[1] for row in medians.values())


def statistics(values: Sequence[float], random: Sequence[float]) -> dict[str, float]:
    """Return what a table says of one policy, beside RANDOM on the same job sets."""
    ratios = [math.log(one / other) for one, other in zip(values, random, strict=True)]
    return {
        "mean": fmean(values),
        "std": stdev(values),
        "median": median(values),
        "p10": float(np.percentile(values, 10)),
        "p90": float(np.percentile(values, 90)),
        "geomean_ratio_to_RANDOM": math.exp(fmean(ratios)),
    }


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.conformance("thesis")
def test_tables(document: dict[str, Any], engine: str) -> None:
    """All thousand runs: mean, spread, median, 10 % and 90 %, and the ratio to RANDOM, by slots."""
    table = document.get("tables", {}).get(engine)
    if table is None:
        pytest.skip(f"this file has no table of {engine}")
    sets = list(job_sets(document))
    slots = {count for by_slots in table.values() for count in by_slots}
    for count in sorted(slots, key=int):
        found = {
            name: list(zip(*(play(jobs, name, int(count), engine) for jobs in sets), strict=True))
            for name in table
        }
        for name, by_slots in table.items():
            for place, metric in enumerate(METRICS):
                expected = by_slots[count][metric]
                got = statistics(found[name][place], found["RANDOM"][place])
                wanted = {key: expected[key] for key in got if key in expected}
                assert {key: got[key] for key in wanted} == pytest.approx(wanted, rel=2e-6), (
                    f"{name}, {count} slots, {metric}"
                )
