"""Which farm waits as the records show: candidates, and a bounded search over their parameters.

A candidate is a fixed pool, or one of the provisioning algorithms with a few parameters that start
at what the records show (boot: the waits of runners' first jobs; idle time-out: the longest time
without work). Each is played with the recorded arrivals and run times; what counts is the mean
absolute error of the waits. The best two are refined by a pattern search (Hooke and Jeeves, "Direct
Search Solution of Numerical and Statistical Problems", 1961) on a logarithmic scale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from farm.results.summary.descriptive_statistics import Floats
from farm.twin.pools import Shape

Play = Callable[[Mapping[str, Any]], Floats]
"""From a pool of a scenario to the wait of each job, seconds, in order of arrival."""

FIRST_STEP, LAST_STEP = 0.25, 0.02
"""By which share a parameter is changed, at first and at last."""
REFINED = 2
EVALUATIONS = 60
"""Plays of a refinement, at most."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A way in which a pool may be sized."""

    algorithm: str
    #: of the pool and of its provisioner, as in a scenario
    pool: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    #: parameters that are searched, by key of the pool or (with a dot) of the provisioner, seconds
    free: Mapping[str, float] = {}

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
    """Plays candidates and remembers the best."""

    def __init__(self, play: Play, recorded: Floats) -> None:
        self._play, self._recorded = play, recorded
        self.played = 0

    def fit(self, candidate: Candidate) -> Fit:
        """Return how a candidate waits."""
        self.played += 1
        waits = self._play(candidate.document())
        error = float(np.abs(waits[: len(self._recorded)] - self._recorded).mean())
        return Fit(candidate, error, waits)

    def best(self, candidates: Iterator[Candidate]) -> list[Fit]:
        """Return the refined candidates, best first; of equal ones the one that came first."""
        by_algorithm: dict[str, Fit] = {}
        for candidate in candidates:
            found = self.fit(candidate)
            name = candidate.algorithm
            if name not in by_algorithm or found.error < by_algorithm[name].error:
                by_algorithm[name] = found
        first = sorted(by_algorithm.values(), key=lambda one: one.error)
        refined = [self._refined(one) for one in first[:REFINED]]
        return sorted([*refined, *first[REFINED:]], key=lambda one: one.error)

    def _refined(self, fit: Fit) -> Fit:
        step, end = FIRST_STEP, self.played + EVALUATIONS
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
    found = np.quantile(waits, (0.05, 0.2, 0.5))
    return sorted({max(0.5, round(float(one), 1)) for one in found})
