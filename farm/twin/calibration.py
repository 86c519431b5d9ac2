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

from farm.records.attempt import Attempt
from farm.results.table.columns import Floats
from farm.twin.pools import Shape

Document = Mapping[str, Any]
"""A part of a scenario file."""
Play = Callable[["Candidate"], Floats]
"""From a candidate to the wait of each job, seconds, in order of arrival."""

FIRST_STEP, LAST_STEP = 0.05, 0.01
"""By which share a parameter is changed in the pattern search, at first and at last."""
REFINED, EVALUATIONS = 2, 40
"""Algorithms that are refined, and plays of a pattern search at most."""
SPREADS, DRAWN, ELITE = (0.4, 0.3, 0.2, 0.12, 0.08, 0.05), 24, 6
"""How far from the best known candidates others are drawn (standard deviation of the logarithm),
how many, and how many are kept."""
PERIOD, PHASE = 30.0, 2.5
"""Seconds after which the slowest of the provisioners looks again, and between two phases tried."""
MOST_INVOCATIONS, MOST_WEIGHTED = 1000, 6
"""Values of a column that may be whom a job is charged to, and teams whose weight is tried."""
OBJECTIVES = (60.0, 200.0, 600.0)
"""Seconds."""
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
    #: from the provisioner's first look to the first arrival, seconds: no record has it
    phase: float = 0.0

    def document(self) -> dict[str, Any]:
        """Return the pool as a scenario has it."""
        pool, options = dict(self.pool), dict(self.options)
        for key, found in self.free.items():
            value = max(found, self.least.get(key, 0.0))
            if key.startswith("."):
                options[key[1:]] = value
            else:
                pool[key] = value
        if self.algorithm != "fixed":
            pool["provisioner"] = {"algorithm": self.algorithm, **options}
        return pool


class Fit(msgspec.Struct, frozen=True):
    """A candidate that was played: the mean absolute error of its waits, and the waits (s)."""

    candidate: Candidate
    error: float
    waits: Floats


class Search:
    """Plays candidates, and counts how many."""

    def __init__(self, play: Play, recorded: Floats) -> None:
        self._play, self._recorded = play, recorded
        self.played = 0

    def fit(self, candidate: Candidate) -> Fit:
        """Return how a candidate waits."""
        self.played += 1
        waits = self._play(candidate)
        error = float(np.abs(waits[: len(self._recorded)] - self._recorded).mean())
        return Fit(candidate, error, waits)

    def best(self, candidates: Iterable[Candidate]) -> list[Fit]:
        """Return the best of each algorithm, best first; the first ones are refined.

        Of equal ones the one that came first is better.
        """
        fits = sorted(map(self.fit, candidates), key=lambda one: one.error)
        by_algorithm: dict[str, list[Fit]] = {}
        for one in fits:
            by_algorithm.setdefault(one.candidate.algorithm, []).append(one)
        best = [some[0] for some in by_algorithm.values()]
        for place, some in enumerate(list(by_algorithm.values())[:REFINED]):
            best[place] = self._refined(self._sampled(some))
        return sorted(best, key=lambda one: one.error)

    def _sampled(self, fits: Sequence[Fit]) -> Fit:
        """Return the best of candidates drawn ever closer to the best ones known so far."""
        first = fits[0]
        if not first.candidate.free:
            return first
        rng = np.random.default_rng(1)
        names, elite = list(first.candidate.free), list(fits[:ELITE])
        for spread in SPREADS:
            known = np.log([[one.candidate.free[name] for name in names] for one in elite])
            drawn = known[rng.integers(len(elite), size=DRAWN)]
            drawn += _alike(known, rng, DRAWN) + rng.normal(0.0, spread, drawn.shape)
            parents = rng.integers(len(elite), size=DRAWN)
            for row, parent in zip(np.exp(drawn).tolist(), parents.tolist(), strict=True):
                candidate = elite[parent].candidate
                phase = candidate.phase + rng.normal(0.0, PERIOD * spread)
                phase = round(phase / PHASE) * PHASE % PERIOD
                free = dict(zip(names, row, strict=True))
                changed = msgspec.structs.replace(candidate, free=free, phase=phase)
                elite.append(self.fit(changed))
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
            if fit is before:
                break
        return fit

    def _better(self, fit: Fit, schedulings: Iterable[Document]) -> Fit:
        most = fit.error * (1 - CLEARLY)
        for scheduling in schedulings:
            changed = msgspec.structs.replace(fit.candidate, scheduling=scheduling)
            found = self.fit(changed)
            if found.error < most:
                fit, most = found, found.error
        return fit

    def _refined(self, fit: Fit) -> Fit:
        step, end = FIRST_STEP, self.played + EVALUATIONS
        while step >= LAST_STEP and fit.candidate.free and self.played < end:
            before, fit = fit, self._explored(fit, step)
            if fit.error > 0.99 * before.error:
                step /= 2
                continue
            # on in the direction that helped: parameters make up for each other
            ahead = self._explored(self._moved(fit, _further(before, fit)), step)
            if ahead.error < fit.error:
                fit = ahead
        return fit

    def _explored(self, fit: Fit, step: float) -> Fit:
        """Return the fit with each parameter a step longer or shorter, where that is better."""
        for name in fit.candidate.free:
            for factor in (1 + step, 1 / (1 + step)):
                found = self._moved(fit, {name: factor})
                if found.error < fit.error:
                    fit = found
                    break
        return fit

    def _moved(self, fit: Fit, factors: Mapping[str, float]) -> Fit:
        free = {name: one * factors.get(name, 1.0) for name, one in fit.candidate.free.items()}
        return self.fit(msgspec.structs.replace(fit.candidate, free=free))


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
    for name in ("user", "matrix", *sorted(columns)):
        values = {name_of(one, name) for one in attempts}
        if 1 < len(values) <= MOST_INVOCATIONS:
            yield {"fair_share": [name]}


def name_of(attempt: Attempt, column: str) -> str:
    """Return the value of a column by which a farm may order jobs; empty: it has none."""
    if column in ("user", "matrix"):
        found: str = getattr(attempt, column)
        return found
    return attempt.attributes.get(column, "")


def weighted(fit: Fit, attempts: Sequence[Attempt]) -> Iterator[Document]:
    """Yield a fair share's order with one team's share doubled or halved, or more."""
    keys = fit.candidate.scheduling.get("fair_share", ())
    known = fit.candidate.scheduling.get("weights", {})
    if len(keys) != 1:
        return
    counts = Counter(name_of(one, keys[0]) for one in attempts)
    for name, _ in counts.most_common(MOST_WEIGHTED):
        for weight in (0.25, 0.5, 2.0, 3.0, 4.0):
            if name and known.get(name, 1.0) != weight:
                yield {**fit.candidate.scheduling, "weights": {**known, name: weight}}


def candidates_of(shape: Shape) -> Iterator[Candidate]:
    """Yield what may have sized a pool, the simplest first."""
    common = {"slots": shape.slots}
    if shape.ephemeral:
        yield from _ephemeral(shape, common)
        return
    yield Candidate(algorithm="fixed", pool={**common, "builders": shape.runners})
    if shape.ever <= shape.runners:
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
                )
            yield Candidate(
                algorithm="keda",
                pool=common,
                options={**limits, "length": "waiting+running", "list_length": shape.slots},
                free={"boot_time": boot},
            )
            yield Candidate(
                algorithm="gitlab", pool=common, options=limits, free={"boot_time": boot}
            )


def _ephemeral(shape: Shape, common: Mapping[str, Any]) -> Iterator[Candidate]:
    once = {**common, "uses": 1}
    for boot in _boots(shape):
        yield Candidate(
            algorithm="fixed",
            pool={**once, "builders": shape.runners},
            free={"boot_time": boot},
        )
        for fewest in (0, 1):
            yield Candidate(
                algorithm="arc",
                pool=once,
                options={"min": fewest, "max": shape.runners},
                free={"boot_time": boot},
            )


def _boots(shape: Shape) -> list[float]:
    """Return boot times to begin with: the shorter waits of runners' first jobs."""
    waits = np.array(shape.first_waits or (60.0,))
    found = np.quantile(waits, (0.05, 0.2, 0.5)).tolist()
    if shape.ephemeral and shape.turnarounds:
        found = [shape.turnaround, found[0]]
    return sorted({max(0.5, round(one, 1)) for one in found})
