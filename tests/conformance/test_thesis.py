"""The thesis's model, played by the real scheduler in the simulated world: exactly its numbers.

Two builders, four matrices of 25 jobs submitted together at 0, jobs as heavy as the case says.
An engine is called by what it does: ``event_none``, ``event_thesis``, ``event_`` and another
slowdown of the file's ``meta``, maybe with a rule for what is heavy behind it. Those called
``tick`` advance time in steps of 0.1 and are not compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, median, stdev
from typing import Any

import msgspec
import numpy as np
import pytest

from farm.core.commands import Command, EndJob
from farm.core.contention.laws import THESIS_TABLE, ContentionLaw, SlowdownTable
from farm.core.driver import drive
from farm.core.events import Event
from farm.core.model import Job
from farm.core.policies import POLICIES, PolicyOptions
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.oracle import Oracle
from farm.sim.world import SimulatedWorld

from .conftest import refuse_unknown

pytestmark = pytest.mark.usefixtures("kernel")

#: rules for what is heavy, of job times by matrix
HEAVY: dict[str, Callable[[Any], Any]] = {
    "top20": lambda times: times > np.sort(times, axis=None)[-21],
    "fixedthreshold": lambda times: times > 5 ** (1 / 1.161),
    "matrixtop5": lambda times: times > np.sort(times, axis=1)[:, -6:-5],
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
#: the matrix of each job
MATRIX = [number // 25 for number in range(100)]
#: what a golden run has
RUN = {"run", "jobs", "matrix", "heavy", "random_permutation", "results"}
Numbers = tuple[float, float, float]


def made(run: dict[str, Any], rule: str = "") -> tuple[Job, ...]:
    """Make the jobs of a run; the earlier in the permutation, the higher the score.

    Heavy is what a rule says, else what the run says, else the 20 longest.
    """
    permutation = run.get("random_permutation", range(len(run["jobs"])))
    place = {number: place for place, number in enumerate(permutation)}
    said = "heavy" in run and not rule
    heavy = run["heavy"] if said else heavy_by(rule or "top20", run)
    return tuple(
        Job(
            id=str(number),
            service_time=service_time,
            matrix=str(run["matrix"][number]),
            heavy=bool(heavy[number]),
            score=-place[number],
        )
        for number, service_time in enumerate(run["jobs"])
    )


def heavy_by(rule: str, run: dict[str, Any]) -> list[bool]:
    """Return which jobs of a run are heavy by a rule, which is made for four matrices of 25."""
    assert run["matrix"] == MATRIX, f"{rule}: not four matrices of 25 jobs in their order"
    flags: list[bool] = HEAVY[rule](np.reshape(run["jobs"], (4, 25))).flatten().tolist()
    return flags


def parts_of(engine: str, document: dict[str, Any]) -> tuple[ContentionLaw | None, str]:
    """Return the pool's contention law, and the rule for heavy jobs ("": no rule is named)."""
    kind, _, rest = engine.partition("_")
    slowdown, _, rule = rest.partition("_")
    given = {"none": None, "thesis": THESIS_TABLE.factors}
    given |= {
        k: v for k, v in document.get("meta", {}).get("slowdown", {}).items() if isinstance(v, list)
    }
    assert kind == "event", f"engine {engine}: known are event_… and tick_…"
    assert slowdown in given, f"engine {engine}: known slowdowns are {', '.join(given)}"
    assert rule in ("", *HEAVY), f"engine {engine}: known rules are {', '.join(HEAVY)}"
    factors = given[slowdown]
    return None if factors is None else ContentionLaw(SlowdownTable(tuple(factors))), rule


def play(jobs: Sequence[Job], name: str, slots: int, law: ContentionLaw | None) -> Numbers:
    """Run the jobs; return makespan, mean response time and mean matrix response time."""
    ended: dict[str, float] = {}

    def observe(event: Event, commands: Sequence[Command]) -> None:
        for command in commands:
            if type(command) is EndJob:
                assert command.outcome == "succeeded"
                ended[command.job.id] = command.finished_at

    pool, rules = node(slots, law), rules_of(name)
    world = SimulatedWorld([pool], iter([(0.0, tuple(jobs))]))
    drive(Scheduler(rules, Oracle(), [pool]), world, observe)
    return numbers_of(jobs, [ended[job.id] for job in jobs])


def play_each(
    sets: Sequence[Sequence[Job]], loads: Sequence[Any], name: str, slots: int, law: Any
) -> list[Numbers]:
    """Run each job set by the compiled loop; return what ``play`` returns of each."""
    from farm.sim.fast.play import ends_of_each

    ends = ends_of_each(loads, [node(slots, law)], rules_of(name)).tolist()
    return [numbers_of(jobs, row) for jobs, row in zip(sets, ends, strict=True)]


def loads_of(sets: Sequence[Sequence[Job]], name: str) -> list[Any]:
    """Return the job sets as the compiled loop reads them."""
    from farm.sim.fast.job_arrays import load_of

    arrived = ([msgspec.structs.replace(job, arrived_at=0.0) for job in jobs] for jobs in sets)
    return [load_of(rules_of(name).policy, Oracle(), jobs) for jobs in arrived]


def rules_of(name: str) -> SchedulingRules:
    """Return the scheduling rules of a policy of the thesis."""
    policy, aging = NAMES[name]
    return SchedulingRules(policy=POLICIES[policy](PolicyOptions(aging=aging)))


def node(slots: int, law: ContentionLaw | None) -> PoolSpec:
    """Return the two builders."""
    return PoolSpec(name="node", slots=slots, builders=2, law=law)


def numbers_of(jobs: Sequence[Job], ends: Sequence[float]) -> Numbers:
    """Return makespan, mean response time and mean matrix response time."""
    last: dict[str | None, float] = {}
    for job, end in zip(jobs, ends, strict=True):
        last[job.matrix] = max(end, last.get(job.matrix, 0.0))
    return max(ends), fmean(ends), fmean(last.values())


@pytest.mark.conformance("thesis", "golden_runs")
def test_golden_run(case: dict[str, Any], document: dict[str, Any]) -> None:
    """Every policy at every number of slots, with and without slowdown, to 1e-9."""
    refuse_unknown("case", case, RUN)
    engines = [engine for engine in case["results"] if not engine.startswith("tick")]
    assert engines, "no results but those of time steps"
    for engine in engines:
        law, rule = parts_of(engine, document)
        jobs = made(case, rule)
        assert case["results"][engine], f"{engine}: no results"
        for name, by_slots in case["results"][engine].items():
            assert name in NAMES, f"unknown policy {name}; known: {', '.join(NAMES)}"
            assert by_slots, f"{engine}, {name}: no results"
            assert name != "RANDOM" or "random_permutation" in case, "RANDOM without permutation"
            for slots, expected in by_slots.items():
                found = play(jobs, name, int(slots), law)
                assert found == pytest.approx(expected, rel=1e-9, abs=1e-9), (
                    f"{engine}, {name}, {slots} slots"
                )


# --- the tables over many runs -----------------------------------------------------------------

METRICS = ("makespan", "avg_response_time", "avg_matrix_response_time")
STATISTICS = (
    "mean", "std", "median", "p10", "p90", "geomean_ratio_to_RANDOM", "share_of_runs_best_or_tied",
)  # fmt: skip
#: of the runs that the scheduler plays
EVERY = 200
#: what the tables have, by depth
LEVELS = (
    ("policy", NAMES),
    ("slots", [str(slots) for slots in range(1, 17)]),
    ("metric", METRICS),
    ("statistic", STATISTICS),
)


def job_sets(document: dict[str, Any], rule: str = "") -> Iterator[tuple[Job, ...]]:
    """Draw the job sets as the file's ``meta.job_sets`` says, heavy by a rule (``made``)."""
    meta = document["meta"]
    draws = np.random.RandomState(meta["seed"])
    times = draws.pareto(1.161, (meta["runs"], 100)) + 1.0
    for row in times:
        run = {
            "jobs": row.tolist(),
            "matrix": MATRIX,
            "random_permutation": draws.permutation(100).tolist(),
        }
        yield made(run, rule)


@pytest.mark.conformance("thesis")
def test_the_recipe_gives_the_golden_job_sets(document: dict[str, Any]) -> None:
    """What the tables are averaged over is what the golden runs are taken from."""
    golden = {run["run"]: made(run) for run in document.get("golden_runs", ())}
    if "tables" not in document:
        pytest.skip("no tables in this file, so no recipe either")
    for number, jobs in enumerate(job_sets(document)):
        if number in golden:
            assert jobs == golden[number]


def statistics(rows: Mapping[str, Sequence[float]], name: str) -> dict[str, float]:
    """Return what a table says of one policy, given what all had on the same job sets."""
    values, least = rows[name], [min(run) for run in zip(*rows.values(), strict=True)]
    ratios = [math.log(one / other) for one, other in zip(values, rows["RANDOM"], strict=True)]
    best = [value <= bar * (1 + 1e-9) for value, bar in zip(values, least, strict=True)]
    found = (
        fmean(values),
        stdev(values),
        median(values),
        float(np.percentile(values, 10)),
        float(np.percentile(values, 90)),
        math.exp(fmean(ratios)),
        fmean(best),
    )
    return dict(zip(STATISTICS, found, strict=True))


def refuse_table(where: str, table: Any, levels: Sequence[Any]) -> None:
    """Raise AssertionError for a table of which a part is empty, or has an unknown name."""
    (what, known), *deeper = levels
    assert isinstance(table, dict), f"{where}: {table!r} is no table of {what}"
    assert table, f"{where}: no {what}"
    refuse_unknown(where, table, known)
    for name, part in table.items() if deeper else ():
        refuse_table(f"{where}, {name}", part, deeper)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.conformance("thesis", "tables")
def test_table(case: dict[str, Any], document: dict[str, Any]) -> None:
    """All thousand runs: mean, spread, quantiles, ratio to RANDOM and share of bests, by slots.

    The compiled loop plays all of them, the scheduler every 200th, with exactly the same numbers.
    """
    engine, table = case["name"], case["value"]
    if engine.startswith("tick"):
        pytest.skip("time steps are not ours to match")
    law, rule = parts_of(engine, document)
    refuse_table(engine, table, LEVELS)
    sets = list(job_sets(document, rule))
    loads = {name: loads_of(sets, name) for name in NAMES}
    slots = {count for by_slots in table.values() for count in by_slots}
    for count in sorted(slots, key=int):
        found = {}
        for name in NAMES:
            rows = play_each(sets, loads[name], name, int(count), law)
            assert rows[::EVERY] == [play(jobs, name, int(count), law) for jobs in sets[::EVERY]]
            found[name] = list(zip(*rows, strict=True))
        for name in table:
            for metric, wanted in table[name].get(count, {}).items():
                place = METRICS.index(metric)
                got = statistics({other: found[other][place] for other in found}, name)
                assert {key: got[key] for key in wanted} == pytest.approx(wanted, rel=2e-6), (
                    f"{engine}, {name}, {count} slots, {metric}"
                )
