"""Compares rollouts as told at submission, with what past errors and arrivals teach and without.

Both forecast the same jobs of the same runs: eight loads, each by sources of run times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from farm.assembly import estimator_named, laws_of, make_rules, make_scheduler, pool_specs
from farm.core.commands import Command
from farm.core.driver import World
from farm.core.events import EstimateMade, Event
from farm.core.scheduler import Scheduler
from farm.forecasts.dispatch.at_submission import EstimatingWorld
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.forecasts.runtime.training import Learner
from farm.results.estimate_scores import Score, score
from farm.results.figures.page import Section, Table, page
from farm.results.formatting import readable_span
from farm.results.log.reader import Entry
from farm.scenario import Scenario, load_scenario, parse_scenario
from farm.sim.rollouts.at_submission import RolloutForecaster
from farm.sim.simulation import Simulation
from provisioner.from_scenario import algorithms_of

#: rollouts of an estimate, and the sources of run times
ROLLOUTS = 10
RUN_TIMES = ("declared", "learned")
TITLE = "How true forecasts are at submission"
BEFORE, AFTER = "before", "after"
HEAD = ("load", "run times", "", "jobs", "bias", "mean ±", "relative", "±1min", "±10min",
        "P10 - P90", "by platform", "≤ P10", "≤ P90", "intervals")  # fmt: skip

DECLARED = {"factor": {"lognormal": {"median": 1.0, "sigma": 0.7}}}
PARETO = {"max": "2h", "pareto": {"alpha": 1.161, "scale": "3s"}}
KINDS = {"a": 5, "b": 3, "c": 1}
MATRICES = {"every": "60s", "count": 30, "service_time": PARETO, "declared": DECLARED,
            "kind": KINDS, "heavy": {"longest": 0.2}}  # fmt: skip
BURSTS = {"every": "20m", "count": 20, "size": 25, "declared": DECLARED, "kind": KINDS,
          "service_time": {"lognormal": {"median": "9m", "sigma": 0.6}}}  # fmt: skip
BUSY = {"poisson": {"rate": "41/h"}, "duration": "6h", "declared": DECLARED, "kind": KINDS,
        "service_time": {"exponential": {"mean": "8m"}}}  # fmt: skip
TASKCLUSTER = {"algorithm": "taskcluster", "min": 0, "interval": "30s", "scaling_ratio": 1}


def _narrow_kinds() -> list[dict[str, Any]]:
    """Return sixty kinds of jobs whose run times differ little."""
    return [
        {"arrivals": {"name": f"kind-{n}", "poisson": {"rate": "1.3/h"}, "duration": "12h",
                      "service_time": {"lognormal": {"median": f"{60 * 1.07**n:.0f}s",
                                                     "sigma": 0.2}},
                      "declared": DECLARED, "kind": f"k{n}"}}
        for n in range(60)
    ]  # fmt: skip


def _recorded(trace: Path | None) -> dict[str, Any]:
    if trace is not None:
        return {"trace": {"path": str(trace.resolve()), "window": ["0s", "8h"],
                          "declared": DECLARED}}  # fmt: skip
    return {"arrivals": {"poisson": {"rate": "60/h"}, "duration": "8h", "declared": DECLARED,
                         "daily_cycle": [0.4, 0.6, 1.0, 1.8, 1.6, 1.2, 0.8, 0.6] * 3,
                         "service_time": {"lognormal": {"median": "15m", "sigma": 0.8}}}
    }  # fmt: skip


class Load(msgspec.Struct, frozen=True):
    """A scenario, of which every n-th job is forecast, by some sources of run times."""

    name: str
    scenario: Scenario
    every: int
    run_times: tuple[str, ...] = RUN_TIMES


def loads(trace: Path | None = None) -> list[Load]:
    """Return the loads; ``trace``: recorded jobs for the provisioned pool."""
    quickstart = load_scenario(Path("quickstart"))
    shared = quickstart.scheduling.model_copy(update={"fair_share": ("team",)})
    quick = quickstart.model_dump(mode="json", exclude_none=True)
    for source in quick["workload"]:
        source["arrivals"]["declared"] = DECLARED
    quickstart = parse_scenario(quick)
    one = {"name": "pool", "slots": 1}
    nodes = {"name": "nodes", "builders": 7, "slots": 8}
    elastic = one | {"boot_time": "90s", "boot_delay": {"uniform": {"min": "0s", "max": "60s"}},
                     "idle_timeout": "15m", "provisioner": TASKCLUSTER | {"max": 17}}  # fmt: skip
    slowed = one | {"builders": 2, "slots": 8, "contention": {"slowdown": "thesis"}}
    slow = MATRICES | {"size": 45}
    shortest = parse_scenario({"name": "load", "pools": [one | {"builders": 6}],
                               "workload": [{"arrivals": BUSY}],
                               "scheduling": {"policy": "sjf"}})  # fmt: skip
    fair = quickstart.model_copy(update={"scheduling": shared})
    return [
        Load("fixed", quickstart, 2),
        Load("fair share", fair, 5, ("oracle", "declared")),
        Load("shortest first", shortest, 2, ("declared",)),
        _load("narrow kinds", one | {"builders": 23}, _narrow_kinds(), 4, "declared", "last-3"),
        _load("provisioned", elastic, [_recorded(trace)], 4, "declared"),
        _load("heavy tails", nodes, [{"matrices": MATRICES | {"size": 300}}], 50, *RUN_TIMES),
        _load("contention", slowed, [{"matrices": slow}], 8, "declared"),
        _load("bursts", one | {"builders": 8, "slots": 2}, [{"matrices": BURSTS}], 3, *RUN_TIMES),
    ]


def _load(
    name: str, pool: dict[str, Any], jobs: list[dict[str, Any]], every: int, *run_times: str
) -> Load:
    """Return a load of one pool."""
    scenario = parse_scenario({"name": "load", "pools": [pool], "workload": jobs})
    return Load(name, scenario, every, run_times)


class Outcome(msgspec.Struct, frozen=True):
    """One load by one source of run times, before and after."""

    load: str
    run_times: str
    before: Score
    after: Score


def play(load: Load, run_times: Sequence[str], rollouts: int = ROLLOUTS) -> list[Outcome]:
    """Play a load once, and return how right its forecasts were."""
    scenario, made = load.scenario, []
    algorithms = algorithms_of(scenario)
    learned = {name: RuntimeDistribution(estimator_named(name, scenario)) for name in run_times}
    for name, distribution in learned.items():
        for rules in (BEFORE, AFTER):
            forecaster = RolloutForecaster(
                pool_specs(scenario),
                make_rules(scenario),
                distribution,
                name,
                algorithms=algorithms,
                seed=scenario.seed,
                count=rollouts,
                truthful=name == "oracle",
                learns=rules == AFTER,
            )
            forecaster.rules = rules
            made.append(forecaster)
    learners = [Learner(one, laws_of(scenario)) for one in learned.values()]
    entries: list[Entry] = []

    def around(world: World, scheduler: Scheduler) -> World:
        return EstimatingWorld(world, scheduler, made, every=load.every, learners=learners)

    def observe(event: Event, commands: Sequence[Command]) -> None:
        if commands or isinstance(event, EstimateMade):
            entries.append(Entry(event, list(commands), len(entries)))

    simulation = Simulation(
        scenario, scheduler=make_scheduler(scenario), algorithms=algorithms, around=around
    )
    simulation.play([observe])
    found: Mapping[tuple[str, str], Score] = {(s.rules, s.run_times): s for s in score(entries)}
    pairs = ((name, found[BEFORE, name], found[AFTER, name]) for name in run_times)
    return [Outcome(load.name, name, before, after) for name, before, after in pairs]


def compare(
    trace: Path | None = None, on_load: Callable[[str], None] = lambda _: None
) -> list[Outcome]:
    """Play all loads; ``on_load`` is called with the name of each before."""
    found = []
    for load in loads(trace):
        on_load(load.name)
        found.extend(play(load, load.run_times))
    return found


def rows(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """Return two rows for each outcome: before and after."""
    return [
        (one.load, one.run_times, name, str(its.scored), readable_span(its.bias_time),
         readable_span(its.mean_absolute_error_time),
         *map(_percent, (its.relative_error, its.within_minute, its.within_ten_minutes,
                         its.within_p10_p90)),
         " / ".join(_percent(each.within_p10_p90) for each in its.by_platform),
         _percent(its.within_p10), _percent(its.within_p90),
         str(its.intervals))
        for one in outcomes
        for name, its in ((BEFORE, one.before), (AFTER, one.after))
    ]  # fmt: skip


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def document(outcomes: Sequence[Outcome]) -> str:
    """Return the comparison as a page."""
    words = (
        "Before: rollouts of the farm as it is, with their own spread. After: jobs arrive as they "
        "did lately where that matters, and intervals come from past errors; there is none while "
        "too few are known. P10 - P90 should hold 80 % of the jobs that have one."
    )
    section = Section("", [words], tables=[Table("", HEAD, rows(outcomes))])
    return page(TITLE, [section], {"outcomes": list(outcomes)})
