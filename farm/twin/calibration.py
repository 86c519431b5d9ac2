"""Which farm waits as the records show: candidates, and a bounded search over their parameters.

A candidate is a fixed pool, or one of the provisioning algorithms with a few parameters that start
at what the records show (boot: the waits of runners' first jobs; idle time-out: the longest time
without work). Each is played with the recorded arrivals and run times; what counts is the mean
absolute error of the waits. The best two algorithms' parameters are searched on a logarithmic
scale: by draws around the best (the cross-entropy method; Rubinstein, "The Cross-Entropy Method for
Combinatorial and Continuous Optimization", 1999), then by a pattern search (Hooke and Jeeves,
"Direct Search Solution of Numerical and Statistical Problems", 1961).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from farm.records.attempt import Attempt
from farm.results.table.columns import Floats
from farm.twin.pools import Shape
from farm.units import format_roughly

Document = Mapping[str, Any]
"""A part of a scenario file."""
Play = Callable[["Candidate"], Floats]
"""From a candidate to the wait of each job, seconds, in order of arrival."""

FIRST_STEP, LAST_STEP = 0.05, 0.01
"""By which share a parameter is changed in the pattern search, at first and at last."""
REFINED, EVALUATIONS = 2, 40
"""Algorithms that are refined, and plays of a pattern search at most."""
ENOUGH = 10
"""Runners whose age at their first start is known, from which that is the boot time."""
NEAR = 0.002
"""Share of the mean wait by which a candidate may err so that no other algorithm is refined."""
SPREADS, DRAWN, ELITE = (0.4, 0.3, 0.2, 0.12, 0.08, 0.05), 24, 6
"""How far from the best known candidates others are drawn (standard deviation of the logarithm),
how many, and how many are kept."""
PERIODS = {"target-wait": 15.0, "keda": 30.0, "gitlab": 60.0}
"""Seconds between two plans (keda: polls) where they are so long that the first one matters."""
MOST_PLANS = 8000
"""Plans of such an algorithm in one play: about a second."""
PHASES = 12
"""First plans in a period that are drawn."""
MOST_INVOCATIONS, MOST_WEIGHTED = 1000, 6
"""Values of a column that may be whom a job is charged to, and teams whose weight is tried."""
WARM = (0, 1, 2, 3, 5)
"""Ephemeral runners that may be kept ready."""
OBJECTIVES = (60.0, 200.0, 600.0)
"""Seconds."""
EXACT = 0.005
"""Error per job, as a share of the mean wait, with which a given number of runners is enough."""
NO_LIMIT, AT_ONCE = 1_000_000, 0.1
"""Hosted runners at once, and seconds after which there is one for a new job."""
CONSTANT = 1.0
"""Seconds by which delays differ that are one."""
NO_BETTER = 0.5
"""Share of a constant's error from which a candidate explains no waits of ephemeral runners."""
CLEARLY = 0.1
"""By which share another order must be better than that of arrival."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A way in which a pool may be sized."""

    algorithm: str
    #: of the pool and of its provisioner, as in a scenario
    pool: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    #: parameters that are searched, by key of the pool or (with a dot) of the provisioner, seconds
    free: Mapping[str, float] = {}
    #: below what they cannot be, as the records show
    least: Mapping[str, float] = {}
    scheduling: Document = {}
    #: from the first arrival to the next plan, seconds; None: it does not matter
    first_plan: float | None = None

    def document(self) -> dict[str, Any]:
        """Return the pool as a scenario has it."""
        pool, options = dict(self.pool), dict(self.options)
        for key, found in self.free.items():
            value = max(found, self.least.get(key, 0.0))
            if key.startswith("."):
                options[key[1:]] = value
            else:
                pool[key] = value
        if self.first_plan is not None:
            options["first_plan"] = self.first_plan
        if self.algorithm != "fixed":
            pool["provisioner"] = {"algorithm": self.algorithm, **options}
        return pool

    def later(self, share: float) -> Candidate:
        """Return the candidate with its first plan later by a share of its period, within that."""
        if self.first_plan is None:
            return self
        period = PERIODS[self.algorithm]
        # the first arrival may be at farm time 0, and no plan is
        return replace(self, first_plan=(self.first_plan + share * period) % period or period)


class Fit(msgspec.Struct, frozen=True):
    """A candidate that was played: the mean absolute error of its waits, and the waits (s)."""

    candidate: Candidate
    error: float
    waits: Floats


class Search:
    """Plays candidates, and counts how many; after ``most`` of them it ends soon."""

    def __init__(self, play: Play, recorded: Floats, most: int) -> None:
        self._play, self._recorded = play, recorded
        self.most = most
        self.played = 0

    @property
    def is_over(self) -> bool:
        """Whether as many were played as there may be."""
        return self.played >= self.most

    def fit(self, candidate: Candidate) -> Fit:
        """Return how a candidate waits."""
        self.played += 1
        waits = self._play(candidate)
        error = float(np.abs(waits[: len(self._recorded)] - self._recorded).mean())
        # a job that never started has no wait: nothing is worse
        return Fit(candidate, np.inf if np.isnan(error) else error, waits)

    def best(self, candidates: Iterable[Candidate]) -> list[Fit]:
        """Return the best of each algorithm, best first; of equal ones the one that came first.

        The first ones are refined, until one is ``NEAR`` enough.
        """
        fits = sorted(self._first_fits(candidates), key=lambda one: one.error)
        by_algorithm: dict[str, list[Fit]] = {}
        for one in fits:
            by_algorithm.setdefault(one.candidate.algorithm, []).append(one)
        best = [some[0] for some in by_algorithm.values()]
        for place, some in enumerate(list(by_algorithm.values())[:REFINED]):
            best[place] = self._refined(self._sampled(some))
            if best[place].error <= NEAR * float(self._recorded.mean()):
                break
        return sorted(best, key=lambda one: one.error)

    def _first_fits(self, candidates: Iterable[Candidate]) -> Iterator[Fit]:
        """Play candidates, and no further ones where a number that is given explains all."""
        enough = EXACT * float(self._recorded.mean())
        for one in candidates:
            yield (fit := self.fit(one))
            if one.algorithm in ("fixed", "manual") and fit.error <= enough:
                return

    def _sampled(self, fits: Sequence[Fit]) -> Fit:
        """Return the best of candidates drawn ever closer to the best ones known so far."""
        first = fits[0]
        if not first.candidate.free:
            return first
        rng = np.random.default_rng(1)
        names, elite = list(first.candidate.free), list(fits[:ELITE])
        for spread in SPREADS:
            if self.is_over:
                break
            known = np.log([[one.candidate.free[name] for name in names] for one in elite])
            parents = rng.integers(len(elite), size=DRAWN)
            drawn = known[parents] + _alike(known, rng, DRAWN)
            drawn += rng.normal(0.0, spread, drawn.shape)
            for row, parent in zip(np.exp(drawn).tolist(), parents.tolist(), strict=True):
                candidate = elite[parent].candidate
                later = round(rng.normal(0.0, spread) * PHASES) / PHASES
                changed = replace(candidate, free=dict(zip(names, row, strict=True)))
                elite.append(self.fit(changed.later(later)))
            elite = sorted(elite, key=lambda one: one.error)[:ELITE]
        return elite[0]

    def ordered(self, fit: Fit, attempts: Sequence[Attempt]) -> Fit:
        """Return the fit with the order of jobs that explains the records best.

        Another than that of arrival must be better by ``CLEARLY``; weights are added one by one.
        """
        for scheduling in orders_of(attempts):
            fit = self._better(fit, [scheduling])
        while fit.candidate.scheduling.get("fair_share"):
            before = fit
            fit = self._better(fit, weighted(fit, attempts))
            if fit is before or self.is_over:
                break
        return fit

    def _better(self, fit: Fit, schedulings: Iterable[Document]) -> Fit:
        most = fit.error * (1 - CLEARLY)
        for scheduling in schedulings:
            changed = replace(fit.candidate, scheduling=scheduling)
            found = self.fit(changed)
            if found.error < most:
                fit, most = found, found.error
        return fit

    def evidence_of_first_plan(self, fit: Fit) -> Iterator[str]:
        """Yield how much worse another instant of the first plan is, if it matters."""
        if fit.candidate.first_plan is not None:
            other = self.fit(fit.candidate.later(0.5))
            at, best, worse = map(
                format_roughly, (fit.candidate.first_plan, fit.error, other.error)
            )
            yield (
                f"it plans {at} after the first arrival, which no record has: so waits differ by "
                f"{best} from the recorded ones, and by {worse} half a period later"
            )

    def _refined(self, fit: Fit) -> Fit:
        step, end = FIRST_STEP, min(self.played + EVALUATIONS, self.most)
        while step >= LAST_STEP and fit.candidate.free and self.played < end:
            before, fit = fit, self._explored(fit, step)
            if fit.error > 0.99 * before.error:
                step /= 2
                continue
            # on in the direction that helped: parameters make up for each other
            ahead = self._explored(self.fit(_moved(fit, _further(before, fit))), step)
            if ahead.error < fit.error:
                fit = ahead
        return fit

    def _explored(self, fit: Fit, step: float) -> Fit:
        """Return the fit with each parameter a step longer or shorter, where that is better."""
        for name in fit.candidate.free:
            longer, shorter = (_moved(fit, {name: (1 + step) ** way}) for way in (1, -1))
            fit = self._first_better(fit, (longer, shorter))
        if fit.candidate.first_plan is not None:
            fit = self._first_better(fit, (fit.candidate.later(step), fit.candidate.later(-step)))
        return fit

    def _first_better(self, fit: Fit, candidates: Iterable[Candidate]) -> Fit:
        """Return the first candidate's fit that is better, or the one that is known."""
        return next((one for one in map(self.fit, candidates) if one.error < fit.error), fit)


def _moved(fit: Fit, factors: Mapping[str, float]) -> Candidate:
    """Return the candidate with parameters that are longer by these factors."""
    free = {name: one * factors.get(name, 1.0) for name, one in fit.candidate.free.items()}
    return replace(fit.candidate, free=free)


def _alike(known: Floats, rng: np.random.Generator, count: int) -> Floats:
    """Draw steps that vary together as the known points do: parameters make up for each other."""
    apart = known - known.mean(axis=0)
    weights = rng.normal(0.0, 0.5 / max(1, len(known)) ** 0.5, (count, len(known)))
    steps: Floats = weights @ apart
    return steps


def _further(before: Fit, now: Fit) -> dict[str, float]:
    """Return by which factor each parameter has changed."""
    start = before.candidate.free
    return {name: one / start[name] for name, one in now.candidate.free.items()}


def orders_of(attempts: Sequence[Attempt]) -> Iterator[Document]:
    """Yield the orders in which jobs may have been started, that of arrival first."""
    yield {}
    yield {"policy": "sjf"}
    yield {"policy": "ljf"}
    columns = {key for one in attempts for key in one.attributes}
    for name in ("user", *sorted(columns - {"user"})):
        values = {one.traits.get(name, "") for one in attempts}
        if 1 < len(values) <= MOST_INVOCATIONS:
            yield {"fair_share": [name]}


def weighted(fit: Fit, attempts: Sequence[Attempt]) -> Iterator[Document]:
    """Yield a fair share's order with one team's share doubled or halved, or more."""
    keys = fit.candidate.scheduling.get("fair_share", ())
    known = fit.candidate.scheduling.get("weights", {})
    if len(keys) != 1:
        return
    counts = Counter(one.traits.get(keys[0], "") for one in attempts)
    for name, _ in counts.most_common(MOST_WEIGHTED):
        for weight in (0.25, 0.5, 2.0, 3.0, 4.0):
            if name and known.get(name, 1.0) != weight:
                yield {**fit.candidate.scheduling, "weights": {**known, name: weight}}


def candidates_of(shape: Shape) -> Iterator[Candidate]:
    """Yield what may have sized a pool, the simplest first."""
    common: dict[str, Any] = {"slots": shape.slots}
    if shape.loss_rate:
        common["losses"] = {"rate": f"{shape.loss_rate:g}/h"}
    if shape.hosted:
        yield delayed(shape)
        return
    if shape.ephemeral:
        yield from _ephemeral(shape, common)
        return
    if shape.changes is not None:
        # first: a change in the second half is not in what is played here
        yield Candidate(algorithm="manual", pool=common, options=shape.changes)
    yield Candidate(algorithm="fixed", pool={**common, "builders": shape.runners})
    if shape.is_fixed or shape.is_replaced:
        return
    boots = _boots(shape)
    idle = max(shape.longest_idle, 1.0)
    least = {"idle_timeout": idle}
    for boot in boots:
        for fewest in (0, 1):
            limits = {"min": fewest, "max": shape.runners}
            free = {"boot_time": boot, "idle_timeout": 1.05 * idle}
            yield Candidate(
                algorithm="taskcluster", pool=common, options=limits, free=free, least=least
            )
            for objective in OBJECTIVES:
                yield Candidate(
                    algorithm="target-wait",
                    pool=common,
                    options=limits,
                    free={**free, ".objective": objective},
                    least=least,
                    first_plan=PERIODS["target-wait"],
                )
            yield Candidate(
                algorithm="keda",
                pool=common,
                options={**limits, "length": "waiting+running", "list_length": shape.slots},
                free={"boot_time": boot},
                first_plan=PERIODS["keda"],
            )
            yield Candidate(
                algorithm="gitlab",
                pool=common,
                options=limits,
                free={"boot_time": boot},
                first_plan=PERIODS["gitlab"],
            )


def plans_rarely(shape: Shape) -> bool:
    """Return whether algorithms may have sized a pool of which each plan takes long to play."""
    return any(one.algorithm in PERIODS for one in candidates_of(shape))


def too_many_plans(shape: Shape, span: float) -> list[str]:
    """Return the algorithms that plan too often in this time (s) to be played in a search."""
    tried = {one.algorithm for one in candidates_of(shape)}
    return [name for name, time in PERIODS.items() if name in tried and span / time > MOST_PLANS]


def delayed(shape: Shape) -> Candidate:
    """Return runners that start for each job, after delays as recorded, up to a visible limit."""
    constant = shape.delays[-1] - shape.delays[0] <= CONSTANT
    values = {"empirical": {"values": list(shape.delays)}}
    boot = {"boot_time": shape.delays[0]} if constant else {"boot_delay": values}
    return Candidate(
        algorithm="arc",
        pool={"slots": 1, "uses": 1, **boot},
        options={
            "min": 0, "max": shape.runners if shape.limited else NO_LIMIT, "interval": AT_ONCE,
        },
    )  # fmt: skip


def explains_no_more(fit: Fit, recorded: Floats) -> bool:
    """Return whether a candidate's waits are hardly nearer to the recorded ones than a constant."""
    return fit.error > NO_BETTER * float(np.abs(recorded - np.median(recorded)).mean())


def _ephemeral(shape: Shape, common: Mapping[str, Any]) -> Iterator[Candidate]:
    once = {**common, "uses": 1}
    for boot in _boots(shape):
        yield Candidate(
            algorithm="fixed",
            pool={**once, "builders": shape.runners},
            free={"boot_time": boot},
        )
        for fewest in WARM:
            yield Candidate(
                algorithm="arc",
                pool=once,
                options={"min": fewest, "max": shape.runners},
                free={"boot_time": boot},
            )


def _boots(shape: Shape) -> list[float]:
    """Return boot times to begin with: the shorter waits of runners' first jobs.

    Where the source says when a runner was requested, it is the usual time until its first start.
    """
    if len(shape.ages) >= ENOUGH:
        return [max(0.5, round(float(np.median(shape.ages)) - shape.pickup_time, 1))]
    waits = np.array(shape.first_waits or (60.0,))
    found = np.quantile(waits, (0.05, 0.2, 0.5)).tolist()
    if shape.ephemeral and shape.turnarounds:
        found = [shape.turnaround, found[0]]
    return sorted({max(0.5, round(one, 1)) for one in found})
