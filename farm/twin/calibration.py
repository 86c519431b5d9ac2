"""Which farm waits as the records show: candidates, and a bounded search over their parameters.

Each candidate is played with the recorded arrivals and run times; what counts is the mean absolute
error of the waits. Parameters are searched on a logarithmic scale, of ever fewer algorithms:
by draws around the best (the cross-entropy method; Rubinstein, "The Cross-Entropy Method for
Combinatorial and Continuous Optimization", 1999), then by a pattern search (Hooke and Jeeves,
"Direct Search Solution of Numerical and Statistical Problems", 1961).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from farm.records.attempt import Attempt
from farm.results.table.columns import Floats
from farm.twin.candidates import Candidate, Document
from farm.units import format_roughly

Play = Callable[["Candidate"], Floats]
"""From a candidate to the wait of each job, seconds, in order of arrival."""

FIRST_STEP, LAST_STEP = 0.05, 0.01
"""By which share a parameter is changed in the pattern search, at first and at last."""
REFINED, EVALUATIONS = 2, 40
"""Algorithms that are refined, and plays of a pattern search at most."""
NEAR = 0.002
"""Share of the mean wait by which a candidate may err so that no other algorithm is refined."""
SPREADS, DRAWN, ELITE = (0.4, 0.3, 0.2, 0.12, 0.08, 0.05), 24, 6
"""How far from the best known candidates others are drawn (standard deviation of the logarithm),
how many, and how many are kept."""
SURVIVORS = (9, 4, 3, 2, 2, 1)
"""Algorithms of which others are drawn, that many at each spread."""
MOST_SEARCHED = DRAWN * sum(SURVIVORS) + REFINED * EVALUATIONS
"""Plays of a search after those of the candidates as they are, about."""
PHASES = 12
"""First plans in a period that are drawn."""
MOST_INVOCATIONS, MOST_WEIGHTED = 1000, 6
"""Values of a column that may be whom a job is charged to, and teams whose weight is tried."""
EXACT = 0.005
"""Error per job, as a share of the mean wait, with which a given number of runners is enough."""
NO_BETTER = 0.5
"""Share of a constant's error from which a candidate explains no waits of ephemeral runners."""
ALIKE = 1.25
"""Times the error of the best algorithm's, up to which another fits as well."""
CLEARLY = 0.1
"""By which share another order must be better than that of arrival."""


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

        Of each others are drawn, and of the ``SURVIVORS`` ever closer to the best known ones; the
        best are refined, until one is ``NEAR`` enough.
        """
        near = NEAR * float(self._recorded.mean())
        known = list(_by_algorithm(self._first_fits(candidates)).values())
        for spread, count in zip(SPREADS, SURVIVORS, strict=True):
            if known[0][0].error <= near or self.is_over:
                break
            known[:count] = [self._drawn(some, spread) for some in known[:count]]
            known.sort(key=lambda some: some[0].error)
        best = [some[0] for some in known]
        for place in range(min(REFINED, len(best))):
            if best[0].error <= near:
                break
            best[place] = self._refined(best[place])
            best[: place + 1] = sorted(best[: place + 1], key=lambda one: one.error)
        return sorted(best, key=lambda one: one.error)

    def first(self, candidates: Iterable[Candidate]) -> list[Fit]:
        """Return the best of each algorithm as they are, best first."""
        return [some[0] for some in _by_algorithm(map(self.fit, candidates)).values()]

    def _first_fits(self, candidates: Iterable[Candidate]) -> Iterator[Fit]:
        """Play candidates, and no further ones where a number that is given explains all."""
        enough = EXACT * float(self._recorded.mean())
        for one in candidates:
            yield (fit := self.fit(one))
            if one.algorithm in ("fixed", "manual") and fit.error <= enough:
                return

    def _drawn(self, fits: Sequence[Fit], spread: float) -> list[Fit]:
        """Return the best of some fits of an algorithm and of candidates drawn around them."""
        # equal errors: what differs does not matter
        elite = list({one.error: one for one in reversed(fits)}.values())[::-1][:ELITE]
        if not elite[0].candidate.free:
            return elite
        rng = np.random.default_rng(self.played)
        for parent in rng.integers(len(elite), size=DRAWN).tolist():
            names = list(elite[parent].candidate.free)
            others = [one.candidate.free for one in elite[:ELITE]]
            rows = [[one[name] for name in names] for one in others if list(one) == names]
            step = _alike(np.log(rows), rng) + rng.normal(0.0, spread, len(names))
            factors = dict(zip(names, np.exp(step).tolist(), strict=True))
            later = round(rng.normal(0.0, spread) * PHASES) / PHASES
            elite.append(self.fit(_moved(elite[parent], factors).later(later)))
        return sorted(elite, key=lambda one: one.error)[:ELITE]

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

    def evidence(self, fit: Fit, others: Iterable[Fit]) -> Iterator[str]:
        """Yield which others fit as well, and how much worse another instant of the plans is."""
        mean = max(1e-9, float(self._recorded.mean()))
        for other in others:
            name, error = other.candidate.algorithm, other.error
            if name != fit.candidate.algorithm and error <= max(ALIKE * fit.error, NEAR * mean):
                against = f"{error / mean:.1%} against {fit.error / mean:.1%} of the mean wait"
                yield f"{name} fits as well: {against}, per job"
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


def _alike(known: Floats, rng: np.random.Generator) -> Floats:
    """Draw a step that varies as the known points do: parameters make up for each other."""
    weights = rng.normal(0.0, 0.5 / len(known) ** 0.5, len(known))
    step: Floats = weights @ (known - known.mean(axis=0))
    return step


def _by_algorithm(fits: Iterable[Fit]) -> dict[str, list[Fit]]:
    """Return fits by algorithm, the best ones first."""
    found: dict[str, list[Fit]] = {}
    for one in sorted(fits, key=lambda one: one.error):
        found.setdefault(one.candidate.algorithm, []).append(one)
    return found


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


def explains_no_more(fit: Fit, recorded: Floats) -> bool:
    """Return whether a candidate's waits are hardly nearer to the recorded ones than a constant."""
    return fit.error > NO_BETTER * float(np.abs(recorded - np.median(recorded)).mean())
