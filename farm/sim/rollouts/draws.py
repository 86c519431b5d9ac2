"""The random numbers of rollouts: one for each (rollout, job), whatever else happens.

The numbers depend on the seed, the rollout's number and the job's id alone, so alternatives from
one snapshot have common random numbers: a job keeps its numbers when builders are added or the
policy changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from farm.columns import Floats
from farm.core.model import Builder, Job
from farm.forecasts.runtime.interface import speed_of
from farm.forecasts.runtime.quantiles import (
    ErrorLine,
    RuntimeDistribution,
    RunTimeSpread,
    sort_of,
)
from farm.forecasts.runtime.survival import TAIL, Running, Survival
from farm.forecasts.runtime.young_kinds import FEW, YoungKinds

#: minimum number of factors from which a rollout draws, or half of them
LEAST_STRETCH = 20
#: the share of rollouts that draw from the latest stretch where jobs have no kinds of their own
LATEST = 0.5
#: run times from which on that is so: of a young farm the long ones end last
MIN_OF_LATEST = 100
#: equally likely values of a standard normal distribution
NORMAL = np.array([NormalDist().inv_cdf((n + 0.5) / 500) for n in range(500)])


class Uniforms:
    """Uniform numbers in [0, 1): one for each rollout and id."""

    def __init__(self, seed: int, name: str, ids: Sequence[str]) -> None:
        self._prefix = f"{seed}\x1f{name}\x1f"
        self._columns = _mixed(_hashes(ids))

    def of(self, numbers: range) -> Floats:
        """Return those of some rollouts: a row per rollout, a column per id."""
        rows = _rows(self._prefix, numbers)
        bits = _mixed(rows[:, None] ^ self._columns)
        bits >>= np.uint64(11)
        uniform = bits.astype(np.float64)
        uniform *= 2.0**-53
        return uniform


class RunningJob(NamedTuple):
    """A running attempt: it has done as much as if it had run alone ``since`` then."""

    job: Job
    builder: Builder
    began_at: float
    since: float


class RunTimes:
    """Drawn run times of a farm's jobs: one for each rollout and job.

    Running attempts count as longer ones than they have run so far; in a history of what has ended
    the long ones are missing.

    Jobs of one period are alike: each rollout draws a kind's factors from one stretch of its
    history (a quarter of it, chosen by the rollout), so that a rollout may have good or bad times
    as a whole. Drawn one by one from all of it, the errors of a long queue would cancel out. Of a
    short history it is half, whose mean errs as that of the whole does; kinds that have one history
    in common have its stretch in common.

    Args:
        learned: the distributions.
        running: attempts.
        at: the present instant.
        seed: of the numbers.
        count: of rollouts.
    """

    def __init__(
        self,
        learned: RuntimeDistribution,
        running: Sequence[RunningJob],
        at: float,
        seed: int,
        count: int,
    ) -> None:
        self.learned, self._running, self._at = learned, running, at
        self._seed, self._count = seed, count
        # by history
        self._lines: dict[int, ErrorLine] = {}
        self._young: YoungKinds | None = None
        #: estimates of what runs
        self._going: dict[int, Floats] = {}
        self._survivals: dict[int, Survival] = {}
        self._learn_of_running()
        u = Uniforms(seed, "remaining", [one.job.id for one in running]).of(range(count))
        #: when each attempt ends if it runs alone from now on: a row per rollout
        self.ends = np.empty_like(u)
        for column, one in enumerate(running):
            self.ends[:, column] = self._ends(one, u[:, column])

    def _ends(self, one: RunningJob, u: Floats) -> Floats | float:
        learned, at = self.learned, self._at
        elapsed = max(0.0, at - one.since)
        overdue = at + learned.remaining(one.job, one.builder, elapsed)
        found = self.spread(one.job, one.builder)
        if found is None or found.time <= 0 or found.history.is_certain:
            # calculated from the start, as in the world: a certain rollout is then the simulation
            # to the last bit
            factor = 1.0 if found is None else float(found.factors[0])
            expected_at = one.since + learned.estimate(one.job, one.builder) * factor
            return expected_at if at <= expected_at < np.inf else overdue
        unit = found.time / speed_of(one.builder)
        if not unit < np.inf:  # on a builder that hardly works
            return overdue
        totals = self._survival_of(found).longer_than(elapsed / unit, u)
        if totals is None:
            return overdue
        with np.errstate(over="ignore"):  # nor on one that does little more
            rests = np.maximum(unit * totals - elapsed, 0.0)
        return at + np.where(rests < np.inf, rests, unit)

    def _learn_of_running(self) -> None:
        """Find each history's line and the distribution of its factors, with what runs."""
        groups: dict[int, tuple[RunTimeSpread, list[tuple[float, float, float]], list[str]]] = {}
        for one in self._running:
            found = self.learned.spread(one.job, one.builder)
            if found is not None and found.time > 0 and not found.history.is_certain:
                work = max(0.0, self._at - one.since) * speed_of(one.builder)
                _, rows, names = groups.setdefault(id(found.history), (found, [], []))
                rows.append((found.estimate, work, one.began_at))
                names.append(sort_of(one.job))
        for key, (found, rows, names) in groups.items():
            estimates, work, began = np.array(rows).T
            running = Running(self._at, estimates, work, began, names)
            if isinstance(found.history, YoungKinds):
                self._young = young = found.history.with_running(running)
                self._survivals[key] = young.survival(running)
            else:
                line = found.history.line_with(running, of_runs=found.of_runs)
                self._going[key] = estimates
                self._lines[key], self._survivals[key] = line, found.history.survival(line, running)

    def spread(self, job: Job, builder: Builder | None = None) -> RunTimeSpread | None:
        """Return what a job's run time is drawn from, by what runs as well; None: it is certain."""
        return self.learned.spread(job, builder, self._lines, self._young)

    def shift_of(self, spread: RunTimeSpread, estimates: Floats) -> float:
        """Return by which factor jobs of a history together last longer than each is expected to.

        Kinds tell more of jobs than how long they are declared to be, so it is asked without kinds.
        """
        history = spread.history
        if isinstance(history, YoungKinds) or spread.of_runs:
            return 1.0
        if history.is_certain or len(history.work) < FEW:
            return 1.0
        line = self._lines.get(id(history)) or history.line(of_runs=False)
        return history.shift_of(line, estimates, self._going.get(id(history), np.zeros(0)))

    def _survival_of(self, spread: RunTimeSpread) -> Survival:
        """Return the distribution of a history's factors, with its running attempts."""
        if (found := self._survivals.get(id(spread.history))) is None:
            nothing, history = Running(self._at, *np.zeros((3, 0))), spread.history
            if isinstance(history, YoungKinds):
                found = history.survival(nothing)
            else:
                found = history.survival(history.line(of_runs=spread.of_runs), nothing)
            self._survivals[id(history)] = found
        return found

    def factors_of(self, kind: str, spread: RunTimeSpread) -> Floats:
        """Return the factors of a kind that each rollout (row) draws from, in order of size."""
        ended = spread.factors
        size = max(len(ended) // 4, min(LEAST_STRETCH, (len(ended) + 1) // 2))
        u = Uniforms(self._seed, "stretch", [kind]).of(range(self._count))[:, 0]
        chosen = (u * len(ended)).astype(int)
        if len(ended) >= MIN_OF_LATEST and not self.learned.has_kinds(spread.name):
            # what waits is most like what has just ended
            chosen = np.where(
                u < LATEST,
                len(ended) - size,
                ((u - LATEST) / (1.0 - LATEST) * len(ended)).astype(int),
            )
        # each stretch once: there are no more than run times, and often more rollouts
        seen = np.bincount(chosen, minlength=len(ended)) > 0
        begins, row = np.flatnonzero(seen), (seen.cumsum() - 1)[chosen]
        places = (begins[:, None] + np.arange(size)) % len(ended)
        if spread.history.is_certain:
            return np.asarray(np.sort(ended[places])[row])
        found = self._survival_of(spread)
        values, weights = ended[places], found.weights[places]
        if found.beyond > 0:
            weights *= (1.0 - found.beyond) / np.maximum(weights.sum(axis=1), 1e-300)[:, None]
            more = np.broadcast_to(found.tail.means(), (len(begins), TAIL))
            values = np.concatenate([values, more], axis=1)
            more = np.full_like(more, found.beyond / TAIL)
            weights = np.concatenate([weights, more], axis=1)
        return np.asarray(_equally_likely(values, weights)[row])


def _equally_likely(values: Floats, weights: Floats) -> Floats:
    """Return the means of as many equally likely parts of each row as it has weighted values."""
    order = values.argsort(axis=1)
    values, weights = (np.take_along_axis(one, order, axis=1) for one in (values, weights))
    count, size = values.shape
    weights = weights / weights.sum(axis=1)[:, None]
    zero = np.zeros((count, 1))
    mass = np.concatenate([zero, weights.cumsum(axis=1)], axis=1)
    sums = np.concatenate([zero, (weights * values).cumsum(axis=1)], axis=1)
    # the rows one behind the other, so that all are interpolated in one call
    rows = 2.0 * np.arange(count)[:, None]
    wanted = np.minimum(rows + np.linspace(0.0, 1.0, size + 1), rows + mass[:, -1:])
    found = np.interp(wanted.ravel(), (rows + mass).ravel(), sums.ravel())
    return np.asarray(np.diff(found.reshape(count, size + 1), axis=1) * size)


class _Row(NamedTuple):
    """What a job is drawn from: an expected time, a history, and the place of a common error."""

    time: float
    history: int | None
    error: int
    #: from which the time was made
    estimate: float


class ServiceTimes:
    """Drawn service times of waiting jobs, on a builder of speed 1: by rollout and job."""

    def __init__(self, run_times: RunTimes, jobs: Sequence[Job], seed: int, count: int) -> None:
        self._uniforms = Uniforms(seed, "service time", [job.id for job in jobs])
        # all jobs of one history have the same factors; a certain one has the factor 1
        factors: dict[int | None, Floats] = {None: np.ones((count, 1))}
        #: errors that jobs have in common, and their deviations: a place for each
        common: dict[tuple[str, float], int] = {("", 0.0): 0}
        #: for jobs that are alike to the estimator
        known: dict[object, _Row] = {}
        #: of each history, that of its first job
        spreads: dict[int, RunTimeSpread] = {}
        rows = []
        for job, alike in zip(jobs, map(run_times.learned.alike, jobs), strict=True):
            if (row := known.get(alike)) is None:
                found, history, error = run_times.spread(job), None, 0
                if found is not None:
                    history = id(found.history)
                    spreads.setdefault(history, found)
                    if found.common:
                        young = isinstance(found.history, YoungKinds)
                        shared = sort_of(job) if young else f"line {found.name}"
                        error = common.setdefault((shared, found.common), len(common))
                    if history not in factors:
                        factors[history] = run_times.factors_of(found.name, found)
                time = run_times.learned.estimate(job) if found is None else found.time
                estimate = time if found is None else found.estimate
                row = known[alike] = _Row(time, history, error, estimate)
            rows.append(row)
        self._estimates = np.array([row.time for row in rows], np.float64)
        self._shift(run_times, rows, spreads)
        self._factors = np.concatenate(list(factors.values()), axis=1)
        sizes = np.array([its.shape[1] for its in factors.values()], np.int64)
        place = {history: n for n, history in enumerate(factors)}
        of_job = np.array([place[row.history] for row in rows], np.int64)
        # by job: the index of its first factor, and how many it has
        self._begins, self._sizes = (sizes.cumsum() - sizes)[of_job], sizes[of_job]
        self._kinds = np.array([row.error for row in rows], np.int64)
        u = Uniforms(seed, "kind", [name for name, _ in common]).of(range(count))
        normal = NORMAL[(u * len(NORMAL)).astype(np.int64)]
        #: by rollout and error; 1 where there is none
        self._errors = np.exp(normal * [deviation for _, deviation in common])

    def _shift(
        self, run_times: RunTimes, rows: Sequence[_Row], spreads: Mapping[int, RunTimeSpread]
    ) -> None:
        """Let jobs without kinds last as long as the declared times of all of them say together."""
        histories = np.array([-1 if row.history is None else row.history for row in rows])
        estimates = np.array([row.estimate for row in rows])
        for history, spread in spreads.items():
            if run_times.learned.has_kinds(spread.name):
                continue
            places = np.flatnonzero(histories == history)
            self._estimates[places] *= run_times.shift_of(spread, estimates[places])

    def of(self, number: int, row: Floats | None = None) -> Floats:
        """Return those of a rollout, in the order of the jobs, in a row if one is given."""
        u = self._uniforms.of(range(number, number + 1))[0]
        u *= self._sizes
        places = u.astype(np.int64)
        places += self._begins
        # all are there: looked for otherwise, they would be copied into the row
        times: Floats = self._factors[number].take(places, out=row, mode="clip")
        times *= self._estimates
        if self._errors.shape[1] > 1:
            times *= self._errors[number].take(self._kinds)
        return times

    def drawn(self, number: int, place: int, u: float) -> float:
        """Return that of the job at this place for a uniform number: another one of its kind."""
        nth = self._begins[place] + int(u * self._sizes[place])
        factor = self._factors[number, nth] * self._errors[number, self._kinds[place]]
        return float(self._estimates[place] * factor)


@lru_cache(maxsize=4)
def _rows(prefix: str, numbers: range) -> NDArray[np.uint64]:
    """Return a number for each rollout; the kinds of a farm ask for those of all, one by one."""
    return _hashes([f"{prefix}{number}" for number in numbers])


def _hashes(texts: Sequence[str]) -> NDArray[np.uint64]:
    digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit numbers (the finaliser of SplitMix64; Steele, Lea and Flood 2014)."""
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed
