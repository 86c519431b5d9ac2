"""Capacity planning: the smallest pools that meet an objective, by simulation.

A size meets the objective when, for each of its terms, the confidence bound (one-sided, Student;
upper where the limit is one from above) of the value's mean over replications keeps the limit. The
smallest size is searched by the terms that more builders help, such as waits; those that they do
not, such as cost and utilization, it must meet as well, or no size does. All sizes are tried on the
same replications: the same seeds, so the same jobs at the same instants.

One pool: its size is doubled until it meets the objective, then bisected; since waits need not
fall with every builder, sizes below the found one are tried on until several in a row fail, and
the next ones above must meet it too. Several pools: all are scaled together first; then, the
most expensive first, each is made as small as the others allow, repeatedly until none can shrink.
That is a local optimum: no single pool can be smaller, while another mixture may be cheaper.

Beside pools of fixed size those with a provisioner keep it, and count in the cost. Where all pools
have one, all are sized as if they were fixed; or settings of provisioners are tried instead of
sizes, all that are given (``plan_settings``), and the cheapest that meets the objective is best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from farm.assembly import estimator_of, make_rules, run_info
from farm.core.pools.algorithm import AnyAlgorithm
from farm.forecasts.runtime.interface import RuntimeEstimator
from farm.processes.shared_work import SharedWork
from farm.results.comparison.significance import student_quantile
from farm.results.summary.objectives import Term, value_of
from farm.results.summary.summary import Measured
from farm.scenario import Pool, Scenario, TwinErrors
from farm.sim.engines import play as simulated
from farm.sim.setting import Setting
from farm.workload import build_jobs

Sizes = tuple[int, ...]
Tried = tuple[int | str, ...]
"""Sizes by pool, or settings by key as they are written."""
AlgorithmsOf = Callable[[Scenario], Mapping[str, AnyAlgorithm]]
"""The algorithms of pools that keep their provisioners."""
EstimatorOf = Callable[[Scenario], RuntimeEstimator]
"""The runtime estimator that a replication begins with."""

#: failing sizes in a row, below a found one, after which smaller ones are not tried
FAILING_IN_A_ROW = 2
#: sizes right above a found one that must meet the objective too: else it met it by chance
MEETING_ABOVE = 2


def no_algorithms(_: Scenario) -> Mapping[str, AnyAlgorithm]:
    """Return no algorithms: all pools are of a fixed size."""
    return {}


class Replication(msgspec.Struct, frozen=True):
    """One replication of one size: the terms' statistics, and the cost."""

    values: tuple[float, ...]
    builder_hours: float
    cost: float
    cost_per_month: float
    mean_wait: float
    #: keys of fair share that no job has
    warnings: tuple[str, ...] = ()


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One size of the pools and its results over the replications."""

    sizes: Tried
    #: for each term: the statistic's mean, and the bound that must keep the limit
    means: tuple[float, ...]
    bounds: tuple[float, ...]
    mean_wait: float
    builder_hours: float
    cost: float
    cost_per_month: float
    met: bool
    #: the terms are met that more builders help (``Term.helped_by_builders``)
    has_enough: bool


class SizePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The result; ``best`` is None if no size meets the objective."""

    #: what the points' sizes refer to: pools, or keys
    pools: tuple[str, ...]
    best: Point | None
    #: everything that was tried
    points: tuple[Point, ...]
    #: why none was found
    why: str = ""
    #: simulations of each size: 1 where nothing is drawn
    replications: int = 1
    #: of a farm's twin: its errors
    twin: TwinErrors | None = None
    #: of costs; empty: it has no name; None: costs are builder-hours
    currency: str | None = None
    #: on what was tried, whatever the seed: keys of fair share that no job has
    warnings: tuple[str, ...] = ()


#: simulations of each size, with the same seeds at all sizes
REPLICATIONS = 10
#: with which the mean of the replications is on the right side of a limit
CONFIDENCE = 0.95
#: builders of a pool up to which sizes are tried
MOST_BUILDERS = 10_000


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to search."""

    replications: int = REPLICATIONS
    confidence: float = CONFIDENCE
    most: int = MOST_BUILDERS
    algorithms: AlgorithmsOf = no_algorithms
    estimator: EstimatorOf = estimator_of
    #: given how many of a size's simulations are done, and of how many
    on_run: Callable[[Tried, int, int], None] = lambda *_: None


def pools_to_size(scenario: Scenario) -> tuple[Pool, ...]:
    """Return the fixed pools, or all where none is."""
    return tuple(p for p in scenario.pools if p.provisioner is None) or scenario.pools


def sized(scenario: Scenario, sizes: Sequence[int]) -> Scenario:
    """Return the scenario with pools of these sizes."""
    made = {
        pool.name: pool.model_copy(update={"builders": size, "provisioner": None})
        for pool, size in zip(pools_to_size(scenario), sizes, strict=True)
    }
    pools = tuple(made.get(pool.name, pool) for pool in scenario.pools)
    return scenario.model_copy(update={"pools": pools})


def draws_nothing(scenario: Scenario) -> bool:
    """Return whether a scenario comes out the same with every seed, as of a trace.

    Its jobs are compared for two seeds; pools must not draw losses, boots or signals. Functions of
    your own may draw.
    """
    chosen = scenario.scheduling
    if chosen.policy == "random" or any(":" in one for one in (chosen.policy, chosen.balancer)):
        return False
    if any(
        pool.failure_rate or pool.losses or pool.boot_delay or pool.signals or pool.behaviour
        for pool in scenario.pools
    ):
        return False
    other = scenario.model_copy(update={"seed": scenario.seed + 1})
    return all(one == two for one, two in zip(*map(build_jobs, (scenario, other)), strict=True))


def play(
    scenario: Scenario,
    terms: Sequence[Term],
    seed: int,
    algorithms: AlgorithmsOf = no_algorithms,
    estimator: EstimatorOf = estimator_of,
) -> Replication:
    """Simulate one replication."""
    own = scenario.model_copy(update={"seed": seed})
    setting = Setting.of(own, make_rules(own), algorithms(own))
    records = simulated(setting, estimator(own), build_jobs(own))
    info = run_info(own, "simulated", "reference")
    measured = Measured(records, info, 0.0)
    summary = measured.summary
    values = [value_of(records, summary, term, own.pools) for term in terms]
    return Replication(
        # where no job has such a value, nothing is missed
        tuple(0.0 if value is None else value for value in values),
        summary.builder_time / 3600,
        summary.cost,
        summary.cost_per_month or 0.0,
        summary.waiting_time.mean or 0.0,
        measured.figures.warnings,
    )


class Evaluator:
    """Evaluates sizes, each once."""

    def __init__(
        self,
        scenario_of: Callable[[Any], Scenario],
        seed: int,
        terms: Sequence[Term],
        options: PlanOptions,
        work: SharedWork,
        on_point: Callable[[Point], None] = lambda _: None,
    ) -> None:
        self._scenario_of = scenario_of
        self._seeds = range(seed, seed + options.replications)
        self._terms = tuple(terms)
        self._options = options
        self._on_point = on_point
        self._factor = (
            student_quantile(options.confidence, options.replications - 1)
            / math.sqrt(options.replications)
            if options.replications > 1
            else 0.0
        )
        self.points: dict[Tried, Point] = {}
        self._warnings: dict[str, None] = {}
        self._work = work

    def at(self, sizes: Tried) -> Point:
        """Return the results of these sizes."""
        if sizes not in self.points:
            outcomes = self._outcomes(sizes)
            point = self.points[sizes] = self._point(sizes, outcomes)
            for warning in outcomes[0].warnings:
                if all(warning in outcome.warnings for outcome in outcomes):
                    self._warnings[warning] = None
            self._on_point(point)
        return self.points[sizes]

    def _outcomes(self, sizes: Tried) -> list[Replication]:
        scenario, options = self._scenario_of(sizes), self._options
        calls = [
            partial(play, scenario, self._terms, seed, options.algorithms, options.estimator)
            for seed in self._seeds
        ]
        found: dict[int, Replication] = {}
        for place, outcome in self._work.done(calls):
            found[place] = outcome
            options.on_run(sizes, len(found), len(calls))
        return [found[place] for place in range(len(calls))]

    def _point(self, sizes: Tried, outcomes: Sequence[Replication]) -> Point:
        values = np.array([outcome.values for outcome in outcomes])
        means = values.mean(axis=0)
        finite = bool(np.isfinite(values).all())
        spread = values.std(axis=0, ddof=1) if finite and len(values) > 1 else np.zeros(len(means))
        sides = np.array([-1.0 if term.above else 1.0 for term in self._terms])
        bounds = means + sides * self._factor * spread
        judged = list(zip(self._terms, bounds.tolist(), strict=True))
        return Point(
            sizes=sizes,
            means=tuple(means.tolist()),
            bounds=tuple(bounds.tolist()),
            mean_wait=float(np.mean([outcome.mean_wait for outcome in outcomes])),
            builder_hours=float(np.mean([outcome.builder_hours for outcome in outcomes])),
            cost=float(np.mean([outcome.cost for outcome in outcomes])),
            cost_per_month=float(np.mean([outcome.cost_per_month for outcome in outcomes])),
            met=all(term.is_met_by(bound) for term, bound in judged),
            has_enough=all(
                term.is_met_by(bound) for term, bound in judged if term.helped_by_builders
            ),
        )

    def result(
        self, names: Sequence[str], best: Point | None, why: str, pools: Sequence[Pool]
    ) -> SizePlan:
        """Return what was found by these points, or why nothing was, of these pools."""
        return SizePlan(
            pools=tuple(names),
            best=best,
            points=tuple(self.points.values()),
            why=why if best is not None else why + self._held_back(pools),
            replications=self._options.replications,
            warnings=tuple(self._warnings),
        )

    def _held_back(self, pools: Sequence[Pool]) -> str:
        """Return which pools' jobs miss the objective at the nearest point, if others' meet it."""
        nearest = min(self.points.values(), key=lambda point: (point.bounds, -point.cost))
        apart = [
            msgspec.structs.replace(term, pool=pool.name)
            for pool in pools
            for term in self._terms
            if term.statistic and term.pool in ("", pool.name)
        ]
        own = Evaluator(self._scenario_of, self._seeds.start, apart, self._options, self._work)
        judged = zip(apart, own.at(nearest.sizes).bounds, strict=True)
        held = dict.fromkeys(term.pool for term, bound in judged if not term.is_met_by(bound))
        if not 0 < len(held) < len(pools):
            return ""
        return f"; what holds it back is the pool {' and '.join(held)}"


def plan(
    scenario: Scenario,
    terms: Sequence[Term],
    options: PlanOptions,
    on_point: Callable[[Point], None] = lambda _: None,
) -> SizePlan:
    """Return the smallest pools that meet the objective, or report that none do."""
    jobs = sum(1 for _ in build_jobs(scenario))
    options = _fewest_replications(options, [scenario])
    with SharedWork() as work:
        scenario_of = partial(sized, scenario)
        evaluator = Evaluator(scenario_of, scenario.seed, terms, options, work, on_point)
        best, why = _Search(scenario, evaluator, min(options.most, jobs)).run()
        pools = [pool.name for pool in pools_to_size(scenario)]
        if best is not None and not best.met:
            why = _missed_by_the_smallest(best, pools, terms)
            return msgspec.structs.replace(
                evaluator.result(pools, best, "", scenario.pools), best=None, why=why
            )
        return evaluator.result(pools, best, why, scenario.pools)


def _missed_by_the_smallest(point: Point, pools: Sequence[str], terms: Sequence[Term]) -> str:
    """Return which terms the smallest size misses that meets the others."""
    sizes = ", ".join(f"{pool} {size}" for pool, size in zip(pools, point.sizes, strict=True))
    missed = [
        f"{term.name} is {term.show(bound)}"
        for term, bound in zip(terms, point.bounds, strict=True)
        if not term.is_met_by(bound)
    ]
    return f"no size does: with {sizes}, the smallest that meets the rest, {' and '.join(missed)}"


def _fewest_replications(options: PlanOptions, scenarios: Iterable[Scenario]) -> PlanOptions:
    """Return the options with one replication where others would come out the same."""
    if options.replications > 1 and all(map(draws_nothing, scenarios)):
        return msgspec.structs.replace(options, replications=1)
    return options


def plan_settings(
    scenarios: Mapping[tuple[str, ...], Scenario],
    keys: Sequence[str],
    terms: Sequence[Term],
    options: PlanOptions,
    on_point: Callable[[Point], None] = lambda _: None,
) -> SizePlan:
    """Try every scenario, and return the cheapest that meets the objective."""
    first = next(iter(scenarios.values()))
    options = _fewest_replications(options, scenarios.values())
    with SharedWork() as work:
        evaluator = Evaluator(scenarios.__getitem__, first.seed, terms, options, work, on_point)
        met = [point for point in map(evaluator.at, scenarios) if point.met]
        best = min(met, key=lambda point: point.cost, default=None)
        why = "" if met else f"none of {len(scenarios)} settings meets it"
        return evaluator.result(keys, best, why, first.pools)


class _Search:
    def __init__(self, scenario: Scenario, evaluator: Evaluator, most: int) -> None:
        self._at = evaluator.at
        #: more builders in a pool than jobs in the whole scenario change nothing
        self._most = most
        self._why = ""
        pools = pools_to_size(scenario)
        self._start = tuple(pool.builders or 1 for pool in pools)
        prices = [pool.price for pool in pools]
        self._by_price = sorted(range(len(prices)), key=lambda place: -prices[place])

    def run(self) -> tuple[Point | None, str]:
        """Search; return the best point, or None and why."""
        if len(self._start) == 1:
            found = self._smallest(lambda k: (k,), self._most)
            return (self._at((found,)), "") if found is not None else (None, self._why)
        scale = self._smallest(self._together, 10 * self._most)
        if scale is None:
            return None, self._why
        return self._at(self._shrink(self._together(scale))), ""

    def _together(self, scale: int) -> Sizes:
        """Return all pools at ``scale`` tenths of the scenario's sizes."""
        return tuple(min(self._most, max(1, math.ceil(size * scale / 10))) for size in self._start)

    def _shrink(self, sizes: Sizes) -> Sizes:
        """Make each pool as small as the others allow, until none can shrink."""
        while True:
            before = sizes
            for place in self._by_price:

                def at(k: int, sizes: Sizes = sizes, place: int = place) -> Sizes:
                    return (*sizes[:place], k, *sizes[place + 1 :])

                found = self._smallest(at, sizes[place])
                sizes = at(found if found is not None else sizes[place])
            if sizes == before:
                return sizes

    def _smallest(self, at: Callable[[int], Sizes], most: int) -> int | None:
        """Return the smallest number from 1 on that meets it; None: not even ``most`` does."""
        bracket = self._bracket(at, most)
        if bracket is None:
            return None
        fails, meets = bracket
        while meets - fails > 1:
            middle = (fails + meets) // 2
            if self._at(at(middle)).has_enough:
                meets = middle
            else:
                fails = middle
        return self._settled(at, meets, most)

    def _bracket(self, at: Callable[[int], Sizes], most: int) -> tuple[int, int] | None:
        """Return a number that fails (or 0) and a larger one that meets it."""
        fails, tried = 0, 1
        last: Point | None = None
        while not (point := self._at(at(tried))).has_enough:
            more = last is not None and builders(point) > builders(last)
            if last is not None and more and _same_waits(point, last):
                self._why = (
                    f"no size can: with {builders(last)} builders no job waits for another any "
                    "more, more of them change nothing, and it is missed still"
                )
                return None
            if tried >= most:
                self._why = f"not even {builders(point)} builders meet it, and no more are allowed"
                return None
            last, fails, tried = point, tried, min(most, tried * 2)
        return fails, tried

    def _settled(self, at: Callable[[int], Sizes], found: int, most: int) -> int | None:
        """Try the neighbours: waits need not fall with every builder."""
        failing, smaller = 0, found - 1
        while smaller >= 1 and failing < FAILING_IN_A_ROW:
            if self._at(at(smaller)).has_enough:
                found, failing = smaller, 0
            else:
                failing += 1
            smaller -= 1
        while found <= most:
            above = range(found, min(most, found + MEETING_ABOVE) + 1)
            bad = [number for number in above if not self._at(at(number)).has_enough]
            if not bad:
                return found
            found = bad[-1] + 1
        self._why = f"not even {most} builders meet it, though fewer do"
        return None


def builders(point: Point) -> int:
    """Return the total number of builders."""
    return sum(size for size in point.sizes if isinstance(size, int))


def _same_waits(one: Point, other: Point) -> bool:
    return one.means == other.means and one.mean_wait == other.mean_wait
