"""Which farm waits as the records show: candidates, and a bounded search over their parameters.

A candidate is a fixed pool, or one of the provisioning algorithms with a few parameters that start
at what the records show (boot: the waits of runners' first jobs; idle time-out: the longest time
without work). Each is played with the recorded arrivals and run times; what counts is the mean
absolute error of the waits. The best two are refined by a pattern search (Hooke and Jeeves, "Direct
Search Solution of Numerical and Statistical Problems", 1961) on a logarithmic scale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from farm.records.attempt import Attempt
from farm.results.summary.descriptive_statistics import Floats
from farm.twin.pools import Shape

Document = Mapping[str, Any]
"""A part of a scenario file."""
Play = Callable[["Candidate"], Floats]
"""From a candidate to the wait of each job, seconds, in order of arrival."""

FIRST_STEP, LATE, LAST_STEP = 0.25, 0.05, 0.02
"""By which share a parameter is changed: at first, once the phase is known, and at last."""
PHASES = (4.0, 8.0, 12.0, 17.0, 21.0, 25.0)
"""Seconds within the half minute in which the slowest of the provisioners looks again."""
REFINED = 2
MOST_INVOCATIONS, MOST_WEIGHTED = 1000, 6
EVALUATIONS = 60
CLEARLY = 0.1
"""Plays of a refinement, at most."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A way in which a pool may be sized."""

    algorithm: str
    #: of the pool and of its provisioner, as in a scenario
    pool: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    #: parameters that are searched, by key of the pool or (with a dot) of the provisioner, seconds
    free: Mapping[str, float] = {}
    scheduling: Document = {}
    #: from the provisioner's first look to the first arrival, seconds: no record has it
    phase: float = 0.0

    def document(self) -> dict[str, Any]:
        """Return the pool as a scenario has it."""
        pool, options = dict(self.pool), dict(self.options)
        for key, value in self.free.items():
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

    def best(self, candidates: Iterator[Candidate]) -> list[Fit]:
        """Return the refined candidates, best first; of equal ones the one that came first."""
        by_algorithm: dict[str, Fit] = {}
        for candidate in candidates:
            found = self.fit(candidate)
            name = f"{candidate.algorithm} {candidate.scheduling}"
            if name not in by_algorithm or found.error < by_algorithm[name].error:
                by_algorithm[name] = found
        first = sorted(by_algorithm.values(), key=lambda one: one.error)
        refined = [self._in_phase(self._refined(one)) for one in first[:REFINED]]
        return sorted([*refined, *first[REFINED:]], key=lambda one: one.error)

    def _in_phase(self, fit: Fit) -> Fit:
        """Return the fit at the phase of the provisioner's looks that explains the records best."""
        if fit.candidate.algorithm == "fixed":
            return fit
        others = [msgspec.structs.replace(fit.candidate, phase=phase) for phase in PHASES]
        return self._refined(min([fit, *map(self.fit, others)], key=lambda one: one.error), LATE)

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

    def _refined(self, fit: Fit, step: float = FIRST_STEP) -> Fit:
        end = self.played + EVALUATIONS
        while step >= LAST_STEP and fit.candidate.free and self.played < end:
            before = fit.error
            for name in fit.candidate.free:
                for factor in (1 + step, 1 / (1 + step)):
                    free = dict(fit.candidate.free)
                    free[name] *= factor
                    changed = msgspec.structs.replace(fit.candidate, free=free)
                    found = self.fit(changed)
                    if found.error < fit.error:
                        fit = found
                        break
            if fit.error > 0.99 * before:
                step /= 2
        return fit


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
    idle = 1.02 * max(shape.longest_idle, 1.0)
    for boot in boots:
        for least in (0, 1):
            limits = {"min": least, "max": shape.runners}
            free = {"boot_time": boot, "idle_timeout": idle}
            yield Candidate(algorithm="taskcluster", pool=common, options=limits, free=free)
            for objective in (60.0, 300.0, 900.0):
                yield Candidate(
                    algorithm="target-wait",
                    pool=common,
                    options=limits,
                    free={**free, ".objective": objective},
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
        for least in (0, 1):
            yield Candidate(
                algorithm="arc",
                pool=once,
                options={"min": least, "max": shape.runners},
                free={"boot_time": boot},
            )


def _boots(shape: Shape) -> list[float]:
    """Return boot times to begin with: the shorter waits of runners' first jobs."""
    waits = np.array(shape.first_waits or (60.0,))
    found = np.quantile(waits, (0.05, 0.2, 0.5)).tolist()
    if shape.ephemeral and shape.turnarounds:
        found = [shape.turnaround, found[0]]
    return sorted({max(0.5, round(one, 1)) for one in found})
