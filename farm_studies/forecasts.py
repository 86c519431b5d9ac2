"""Compares rollouts as told at submission, with what past errors and arrivals teach and without.

Both forecast the same jobs of the same runs: eight loads, each by sources of run times and several
seeds. On plain queues so does a third one that has known the run times of each kind for long: what
it misses within a minute comes from how much run times vary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Any

import msgspec

from farm.assembly import estimator_named, laws_of, make_rules, make_scheduler, pool_specs
from farm.core.commands import Command
from farm.core.driver import World
from farm.core.events import EstimateMade, Event
from farm.core.model import Builder
from farm.core.scheduler import Scheduler
from farm.forecasts.dispatch.at_submission import EstimatingWorld
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.forecasts.runtime.training import Learner
from farm.results.estimate_scores import MINUTE, Score, score
from farm.results.figures.page import PageSection, PageTable, made_by, page
from farm.results.formatting import readable_span
from farm.results.log.reader import Entry
from farm.scenario import Scenario, load_scenario, parse_scenario
from farm.sim.rollouts.rollout_forecaster import RolloutForecaster
from farm.sim.simulation import Simulation
from farm.workload import build_jobs
from provisioner.from_scenario import algorithms_of

#: rollouts of an estimate, and the sources of run times
ROLLOUTS = 10
#: of those with a history: plain queues are cheap
MORE_ROLLOUTS = 50
#: seeds of each load
RUNS = 3
RUN_TIMES = ("declared", "learned")
TITLE = "How true forecasts are at submission"
BEFORE, AFTER, KNOWN = "before", "after", "history"
#: of a normal distribution, P90 - P10 in standard deviations
WIDTH = 2 * NormalDist().inv_cdf(0.9)
HEAD = (
    "load",
    "run times",
    "",
    "jobs",
    "bias",
    "mean ±",
    "relative",
    "±1min",
    "expected",
    "±10min",
    "P10 - P90",
    "by platform",
    "≤ P10",
    "≤ P90",
    "intervals",
)

DECLARED = {"factor": {"lognormal": {"median": 1.0, "sigma": 0.7}}}
PARETO = {"max": "2h", "pareto": {"alpha": 1.161, "scale": "3s"}}
KINDS = {"declared": DECLARED, "kind": {"a": 5, "b": 3, "c": 1}}
HEAVY = {"service_time": PARETO, "heavy": {"longest": 0.2}}
MATRICES = {"every": "60s", "count": 30, **KINDS, **HEAVY}
TASKCLUSTER = {"algorithm": "taskcluster", "min": 0, "interval": "30s", "scaling_ratio": 1}


def _arrivals(rate: str, length: str, **keys: object) -> dict[str, object]:
    poisson = {"poisson": {"rate": rate}, "duration": length}
    return {"arrivals": {"declared": DECLARED, **poisson, **keys}}


def _lognormal(median: str, sigma: float) -> dict[str, object]:
    return {"lognormal": {"median": median, "sigma": sigma}}


def _narrow_kinds() -> list[dict[str, object]]:
    """Return sixty kinds of jobs whose run times differ little."""
    times = [_lognormal(f"{60 * 1.07**n:.0f}s", 0.2) for n in range(60)]
    return [
        _arrivals("1.3/h", "12h", name=f"kind-{n}", kind=f"k{n}", service_time=one)
        for n, one in enumerate(times)
    ]


def _recorded(trace: Path | None) -> dict[str, object]:
    if trace is not None:
        path = str(trace.resolve())
        return {"trace": {"path": path, "window": ["0s", "8h"], "declared": DECLARED}}
    day = [0.4, 0.6, 1.0, 1.8, 1.6, 1.2, 0.8, 0.6] * 3
    return _arrivals("60/h", "8h", daily_cycle=day, service_time=_lognormal("15m", 0.8))


class ForecastLoad(msgspec.Struct, frozen=True):
    """A scenario, of which every n-th job is forecast, by some sources of run times."""

    name: str
    scenario: Scenario
    every: int
    run_times: tuple[str, ...] = RUN_TIMES
    #: also forecast with a history, by the last of them
    known: bool = False


def loads(trace: Path | None = None) -> list[ForecastLoad]:
    """Return the loads; ``trace``: recorded jobs for the provisioned pool."""
    quickstart = load_scenario(Path("quickstart"))
    shared = quickstart.scheduling.model_copy(update={"fair_share": ("team",)})
    quick = quickstart.model_dump(mode="json", exclude_none=True)
    for source in quick["workload"]:
        source["arrivals"]["declared"] = DECLARED
    quickstart = parse_scenario(quick)
    one = {"name": "pool", "slots": 1}
    nodes = {"name": "nodes", "builders": 7, "slots": 8}
    slow = MATRICES | {"size": 45}
    boots = {"boot_time": "90s", "boot_delay": {"uniform": {"min": "0s", "max": "60s"}}}
    sized = {"idle_timeout": "15m", "provisioner": TASKCLUSTER | {"max": 17}}
    slowed = one | {"builders": 2, "slots": 8, "contention": {"slowdown": "thesis"}}
    busy = _arrivals("41/h", "6h", **KINDS, service_time={"exponential": {"mean": "8m"}})
    short = {"size": 25, **KINDS, "service_time": _lognormal("9m", 0.6)}
    shortest = _of(one | {"builders": 6}, busy, scheduling={"policy": "sjf"})
    bursts = _of(
        one | {"builders": 8, "slots": 2}, {"matrices": {"every": "20m", "count": 20, **short}}
    )
    heavy_tails = _of(nodes, {"matrices": MATRICES | {"size": 300}})
    narrow = _of(one | {"builders": 23}, *_narrow_kinds())
    fair = quickstart.model_copy(update={"scheduling": shared})
    return [
        ForecastLoad("fixed", quickstart, 2, known=True),
        ForecastLoad("fair share", fair, 5, ("oracle", "declared")),
        ForecastLoad("shortest first", shortest, 2, ("declared",)),
        ForecastLoad("narrow kinds", narrow, 2, ("declared", "last-3"), known=True),
        ForecastLoad("provisioned", _of(one | boots | sized, _recorded(trace)), 4, ("declared",)),
        ForecastLoad("heavy tails", heavy_tails, 50),
        ForecastLoad("contention", _of(slowed, {"matrices": slow}), 8, ("declared",)),
        ForecastLoad("bursts", bursts, 3, known=True),
    ]


def _of(pool: dict[str, Any], *jobs: dict[str, Any], **more: object) -> Scenario:
    """Return the scenario of one pool."""
    return parse_scenario({"name": "load", "pools": [pool], "workload": [*jobs], **more})


class ForecastOutcome(msgspec.Struct, frozen=True):
    """One load by one source of run times and one rule: a score for each seed."""

    load: str
    run_times: str
    rules: str
    scores: tuple[Score, ...]
    #: the share within a minute that the rollouts' own spread lets expect, by seed
    expected: tuple[float, ...]


def play(load: ForecastLoad, rollouts: int = ROLLOUTS) -> list[ForecastOutcome]:
    """Play a load once, and return how right its forecasts were."""
    scenario, made = load.scenario, []
    algorithms = algorithms_of(scenario)
    learned = {name: _distribution(name, scenario) for name in load.run_times}
    wanted = [(name, rules) for name in learned for rules in (BEFORE, AFTER)]
    if load.known:
        name = load.run_times[-1]
        learned[KNOWN] = _taught(name, scenario)
        wanted.append((name, KNOWN))
    for name, rules in wanted:
        forecaster = RolloutForecaster(
            pool_specs(scenario),
            make_rules(scenario),
            learned[KNOWN if rules == KNOWN else name],
            name,
            algorithms=algorithms,
            seed=scenario.seed,
            count=MORE_ROLLOUTS if rules == KNOWN else rollouts,
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

    simulation = Simulation.of(
        scenario, scheduler=make_scheduler(scenario), algorithms=algorithms, around=around
    )
    simulation.play([observe])
    return [
        ForecastOutcome(load.name, one.run_times, one.rules, (one,), (_expected(entries, one),))
        for one in score(entries)
    ]


def _distribution(name: str, scenario: Scenario) -> RuntimeDistribution:
    return RuntimeDistribution(estimator_named(name, scenario))


def _taught(name: str, scenario: Scenario) -> RuntimeDistribution:
    """Return a distribution that knows the jobs of the same load by another seed."""
    found, alone = _distribution(name, scenario), Builder(id="any", pool="any", index=0)
    for job in build_jobs(scenario.model_copy(update={"seed": scenario.seed + 1000})):
        found.learn(job, alone, job.service_time, "succeeded")
    return found


def _expected(entries: Sequence[Entry], of: Score) -> float:
    """Return how many would be within a minute if errors were as wide as the intervals."""
    events = (entry.event for entry in entries)
    name = of.rules, of.run_times
    spreads = [
        (one.quantiles_at[-1] - one.quantiles_at[0]) / WIDTH
        for one in events
        if isinstance(one, EstimateMade) and (one.rules, one.run_times) == name and one.quantiles_at
    ]
    shares = [math.erf(MINUTE / max(spread, 1.0) / math.sqrt(2.0)) for spread in spreads]
    return fmean(shares or [1.0])


def compare(
    trace: Path | None = None, runs: int = RUNS, on_load: Callable[[str], None] = lambda _: None
) -> list[ForecastOutcome]:
    """Play all loads by as many seeds; ``on_load`` is called with the name of each before."""
    found: list[ForecastOutcome] = []
    for load in loads(trace):
        played = []
        for number in range(runs):
            on_load(f"{load.name}, {number + 1} of {runs}")
            seed = {"seed": load.scenario.seed + number}
            scenario = load.scenario.model_copy(update=seed)
            played.append(play(msgspec.structs.replace(load, scenario=scenario)))
        found.extend(map(_together, zip(*played, strict=True)))
    return found


def _together(outcomes: Sequence[ForecastOutcome]) -> ForecastOutcome:
    """Return the runs of one load, one source of run times and one rule as one outcome."""
    return msgspec.structs.replace(
        outcomes[0],
        scores=tuple(its for one in outcomes for its in one.scores),
        expected=tuple(share for one in outcomes for share in one.expected),
    )


def row_of(one: ForecastOutcome) -> tuple[str, ...]:
    """Return the row of an outcome: means over its runs, and from which to which they go."""
    each = one.scores
    platforms: dict[str, list[float | None]] = {}
    for its in (of_it for run in each for of_it in run.by_platform):
        platforms.setdefault(its.platform, []).append(its.within_p10_p90)
    return (
        one.load,
        one.run_times,
        one.rules,
        str(sum(its.scored for its in each)),
        _percent([_bias(its) for its in each], signed=True),
        readable_span(_mean([its.mean_absolute_error_time for its in each])),
        _percent([its.relative_error for its in each]),
        _percent([its.within_minute for its in each]),
        "" if one.rules == AFTER else _percent(one.expected),
        _percent([its.within_ten_minutes for its in each]),
        _percent([its.within_p10_p90 for its in each]),
        " / ".join(map(_percent, platforms.values())),
        _percent([its.within_p10 for its in each]),
        _percent([its.within_p90 for its in each]),
        str(sum(its.intervals for its in each)),
    )


def _bias(its: Score) -> float | None:
    """Return the sum of errors as a share of the sum of true waits."""
    if not its.relative_error or its.bias_time is None or its.mean_absolute_error_time is None:
        return its.relative_error
    return its.bias_time / its.mean_absolute_error_time * its.relative_error


def _mean(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return fmean(known) if known else None


def _percent(values: Sequence[float | None], *, signed: bool = False) -> str:
    """Return the mean, and the smallest and the largest where they differ."""
    known = [one for one in values if one is not None]
    if not known:
        return "-"
    form = "+.0f" if signed else ".0f"
    mean, least, most = (format(one * 100, form) for one in (fmean(known), min(known), max(known)))
    return f"{mean} %" if least == most else f"{mean} % ({least} … {most})"


def answer(outcomes: Sequence[ForecastOutcome]) -> str:
    """Return the comparison in one sentence: means over all loads, as they are told today."""
    told = [its for one in outcomes if one.rules == AFTER for its in one.scores]
    held, minute, ten = (
        _percent([_mean([getattr(its, name) for its in told])])
        for name in ("within_p10_p90", "within_minute", "within_ten_minutes")
    )
    bias = [abs(found) for its in told if (found := _bias(its)) is not None]
    return (
        f"P10 to P90 held {held} of the jobs that were told one (80 % is right); {minute} began "
        f"within a minute of what was told at submission and {ten} within ten; the mean told wait "
        f"of a run is {_percent([_mean(bias)])} too long or too short."
    )


def document(outcomes: Sequence[ForecastOutcome]) -> str:
    """Return the comparison as a page."""
    words = (
        "Before: rollouts of the farm as it is, with their own spread. After: jobs arrive as they "
        "did lately where that matters, and intervals come from past errors; there is none while "
        "too few are known. P10 - P90 should hold 80 % of the jobs that have one. History: "
        "rollouts of run times that were known before. Expected: the share within a minute by "
        "the rollouts' own spread. Means over seeds, with the least and the largest."
    )
    table = PageTable("", HEAD, [*map(row_of, outcomes)])
    section = PageSection("", [answer(outcomes), words], tables=[table])
    return page(TITLE, [section], {"outcomes": list(outcomes)}, under=made_by())
