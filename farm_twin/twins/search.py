"""Which farm waits as the records show: candidates, and a bounded search over their parameters.

Each candidate is played with the recorded arrivals and run times; what counts is the mean absolute
error of the waits. Parameters are searched on a logarithmic scale, of ever fewer algorithms, by
draws around the best (the cross-entropy method; Rubinstein, "The Cross-Entropy Method for
Combinatorial and Continuous Optimization", 1999).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter

import msgspec
import numpy as np

from farm.columns import Floats
from farm.records.attempt import grouped
from farm.units import format_roughly
from farm_twin.twins.candidates import CHOSEN, Candidate, fewer, rarely_changed, rounded

Play = Callable[["Candidate"], Floats]
"""From a candidate to the wait of each job, seconds, in order of arrival."""

NEAR = 0.0001
"""Share of the mean wait by which a candidate may err so that nothing else is searched."""
SPREADS, DRAWN, ELITE = (0.4, 0.3, 0.2, 0.12, 0.08, 0.05, 0.03, 0.015), 24, 6
"""How far from the best known candidates others are drawn (standard deviation of the logarithm),
how many, and how many are kept."""
SURVIVORS, WORSE = (9, 4, 3, 2, 2, 2, 2, 2), 4.0
"""Algorithms of which others are drawn, that many at each spread, and times the best one's error up
to which they are, from the second on."""
EXACT, ANEW = 0.005, 3
"""Error per job, as a share of the mean wait, with which a given number of runners is enough, and
up to which it is searched anew, how often at most: what is found near one point is chance."""
MOST_SEARCHED = DRAWN * (sum(SURVIVORS) + 2 * ANEW * len(SPREADS))
"""Plays of a search after those of the candidates as they are, about, at most."""
NO_BETTER = 0.5
"""Share of a constant's error from which a candidate explains no waits of ephemeral runners."""
ALIKE = 1.25
"""Times the error of the best algorithm's, up to which another fits as well."""
UNEXPLAINED = 0.03
"""Error per job, as a share of the mean wait, above which an algorithm does not explain waits."""
CHANGED, CHANGES = 2, 2
"""Algorithms of which options that are rarely changed are tried, and how many at most."""
UNUSUAL = 0.3
"""By which share such an option must be better than its default."""
FARTHER = 2.0
"""Times a time that was found, to see whether anything tells that it is no longer."""
ROUNDED, LEEWAY, FLAT = 12, 0.05, 0.002
"""Round times that are tried for one that was found, by which share they may err more, and the
share of the mean wait up to which no error matters."""


class Fit(msgspec.Struct, frozen=True):
    """A candidate that was played, and the mean absolute error of its waits (s)."""

    candidate: Candidate
    error: float


class Search:
    """Plays candidates, and counts how many; once it ``is_late``, it ends with the best so far."""

    def __init__(self, play: Play, recorded: Floats, is_late: Callable[[], bool]) -> None:
        self._play, self._recorded, self._is_late = play, recorded, is_late
        self.is_over = False
        self.played = 0

    def fit(self, candidate: Candidate) -> Fit:
        """Return how a candidate waits."""
        self.played += 1
        waits = self._play(candidate)
        self.is_over = self._is_late()
        error = float(np.abs(waits[: len(self._recorded)] - self._recorded).mean())
        # a job that never started has no wait: nothing is worse
        return Fit(candidate, np.inf if np.isnan(error) else error)

    def best(self, candidates: Sequence[Candidate], anew: int = ANEW) -> list[Fit]:
        """Return the best of each algorithm, best first; of equal ones the one that came first.

        Until one is ``EXACT`` enough it is searched ``anew``, that often at most. Those that plan
        at another pace than by themselves are searched only where the others leave waits
        unexplained, and must explain clearly more.
        """
        usual = [one for one in candidates if one.usual] or candidates
        most = UNEXPLAINED * float(self._recorded.mean())
        if len(usual) == len(candidates):
            return self._best(usual, anew, np.inf)
        found = self._best(usual, anew, most)
        if found[0].error > most and not self.is_over:
            others = self._best([one for one in candidates if not one.usual], anew, np.inf)
            least = found[0].error / ALIKE
            clear = [one for one in others if one.error < least]
            found = [*clear, *found, *others[len(clear) :]]
        return found

    def _best(self, candidates: Iterable[Candidate], anew: int, most: float) -> list[Fit]:
        """Return the same of some, the best two drawn anew if they err by no more than ``most``."""
        mean = float(self._recorded.mean())
        near = NEAR * mean
        first = _by_algorithm(self._first_fits(candidates))
        best = self._searched(list(first.values()), near)
        for _ in range(anew):
            if not EXACT * mean < best[0].error <= most or self.is_over:
                break
            again = [first[one.candidate.algorithm] for one in best[:2]]
            found = _by_algorithm([*best, *self._searched(again, near)])
            best = [some[0] for some in found.values()]
        return [self._rounded(best[0]), *best[1:]]

    def _searched(self, known: list[list[Fit]], near: float) -> list[Fit]:
        """Return the best of each algorithm, the best algorithm first.

        Of each others are drawn, and of the ``SURVIVORS`` ever closer to the best known ones, until
        one is ``near`` enough.
        """
        for spread, count in zip(SPREADS, SURVIVORS, strict=True):
            if known[0][0].error <= near or self.is_over:
                break
            most = np.inf if spread == SPREADS[0] else WORSE * known[0][0].error
            known[:count] = [
                self._drawn(some, spread) if some[0].error <= most else some
                for some in known[:count]
            ]
            known.sort(key=lambda some: some[0].error)
        best = [some[0] for some in known]
        for place in range(min(CHANGED, len(best))):
            if best[0].error > near:
                best[place] = self._changed(best[place])
        return sorted(best, key=lambda one: one.error)

    def _rounded(self, fit: Fit) -> Fit:
        """Return the fit with fewer runners kept and round times where they explain as much."""
        mean = float(self._recorded.mean())
        ways: list[tuple[float, Callable[[Candidate], Iterator[Candidate]]]] = [(NEAR, fewer)]
        ways += [(FLAT, partial(rounded, name=name)) for name in CHOSEN]
        for flat, simpler in ways:
            most = max(flat * mean, fit.error * (1 + LEEWAY))
            tried = (self.fit(one) for one in simpler(fit.candidate))
            fit = next((one for one in islice(tried, ROUNDED) if one.error <= most), fit)
        return fit

    def _changed(self, fit: Fit) -> Fit:
        """Return the fit with options at other values than their defaults, where these show."""
        for _ in range(CHANGES):
            if self.is_over:
                break
            fits = self._fits(rarely_changed(fit.candidate))
            best = min(fits, key=lambda one: one.error, default=fit)
            if best.error > (1 - UNUSUAL) * fit.error:
                break
            fit = self._drawn(self._drawn([best], SPREADS[2]), SPREADS[4])[0]
        return fit

    def _first_fits(self, candidates: Iterable[Candidate]) -> Iterator[Fit]:
        """Play candidates, and no further ones where a number that is given explains all."""
        enough = EXACT * float(self._recorded.mean())
        for fit in self._fits(candidates):
            yield fit
            if fit.candidate.algorithm in ("fixed", "manual") and fit.error <= enough:
                return

    def _fits(self, candidates: Iterable[Candidate]) -> Iterator[Fit]:
        """Play candidates, the first one in any case, until it is late."""
        for one in candidates:
            yield self.fit(one)
            if self.is_over:
                return

    def _drawn(self, fits: Sequence[Fit], spread: float) -> list[Fit]:
        """Return the best of some fits of an algorithm and of candidates drawn around them."""
        # equal errors: what differs does not matter
        elite = list({one.error: one for one in reversed(fits)}.values())[::-1][:ELITE]
        if not any(one.candidate.free for one in elite):
            return elite
        rng = np.random.default_rng(self.played)
        for parent in rng.integers(len(elite), size=DRAWN).tolist():
            if self.is_over:
                break
            names = list(elite[parent].candidate.free)
            others = [one.candidate.free for one in elite[:ELITE]]
            rows = [[one[name] for name in names] for one in others if list(one) == names]
            step = rng.normal(0.0, spread, len(names))
            if names:  # parameters make up for each other: it varies as the known points do
                apart = np.log(rows) - np.log(rows).mean(axis=0)
                step += rng.normal(0.0, 0.5 / len(rows) ** 0.5, len(rows)) @ apart
            factors = dict(zip(names, np.exp(step).tolist(), strict=True))
            moved = elite[parent].candidate.moved(factors)
            elite.append(self.fit(moved.later(rng.normal(0.0, spread))))
        return sorted(elite, key=lambda one: one.error)[:ELITE]

    def evidence(self, fits: Sequence[Fit]) -> Iterator[str]:
        """Yield which others fit as well as the first, and what another instant of plans does."""
        fit, *others = fits
        mean = max(1e-9, float(self._recorded.mean()))
        for other in others:
            name, error = other.candidate.algorithm, other.error
            if name != fit.candidate.algorithm and error <= max(ALIKE * fit.error, NEAR * mean):
                against = f"{error / mean:.1%} against {fit.error / mean:.1%} of the mean wait"
                yield f"{name} fits as well: {against}, per job"
        found = fit.candidate
        yield from self._unbounded(fit, mean)
        if (rhythm := found.rhythm) is not None and found.first_plan is not None:
            yield (
                f"{rhythm.runners:,} runners that came while jobs waited did so at intervals of "
                f"{format_roughly(rhythm.period)} or a multiple: a boot time after a plan"
            )
        elif found.first_plan is not None:
            other = self.fit(found.later(0.5))
            at, best, worse = map(format_roughly, (found.first_plan, fit.error, other.error))
            yield (
                f"it plans {at} after the first arrival, which no record has: so waits differ by "
                f"{best} from the recorded ones, and by {worse} half a period later"
            )

    def _unbounded(self, fit: Fit, mean: float) -> Iterator[str]:
        """Yield which times may be longer, too: no waits depend on them."""
        most = max(FLAT * mean, fit.error * (1 + LEEWAY))
        for name in CHOSEN:
            if name not in fit.candidate.free:
                continue
            longer = fit.candidate.moved({name: FARTHER})
            short, long = fit.candidate.free[name], longer.free[name]
            # within its bounds
            if long > 0.9 * FARTHER * short and self.fit(longer).error <= most:
                spans = f"{format_roughly(long)} explains as much as {format_roughly(short)}"
                yield f"{name.strip('.')}: {spans}, no record tells"


def _by_algorithm(fits: Iterable[Fit]) -> dict[str, list[Fit]]:
    """Return fits by algorithm, the best ones first."""
    best_first = sorted(fits, key=attrgetter("error"))
    return grouped(best_first, lambda one: one.candidate.algorithm)


def explains_no_more(fit: Fit, recorded: Floats) -> bool:
    """Return whether a candidate's waits are hardly nearer to the recorded ones than a constant."""
    return fit.error > NO_BETTER * float(np.abs(recorded - np.median(recorded)).mean())
