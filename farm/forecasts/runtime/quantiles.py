"""The distribution of estimation errors, from which rollouts draw run times.

Besides an estimator this keeps, per kind, what the last attempts took and what had been estimated
before. A run time is the time that such an estimate stands for, times one of the observed factors
around it, so any estimator becomes a distribution: the oracle's is certain, the declared times'
shows how well submitters know their jobs. Long attempts end late: those that run must count as
well (``survival``). Where jobs have no kinds, those that wait may be of another sort than what has
ended: their declared times tell, all together (``_History.shift_of``). There is no random generator
here: rollouts draw.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from farm.columns import Floats
from farm.core.declarations import own_declaration
from farm.core.model import Builder, Job, Outcome
from farm.core.rules import EndedAttempt
from farm.forecasts.runtime.changes import is_one_of_several, runs_since_change
from farm.forecasts.runtime.interface import (
    Basis,
    JobProgress,
    JsonValues,
    RuntimeEstimator,
    check_owner,
    converted,
    is_time,
    latest,
    speed_of,
)
from farm.forecasts.runtime.survival import BEFORE, Running, Survival, seen_from, survival
from farm.forecasts.runtime.young_kinds import FEW, MIN_RUNS, YoungKinds

#: ratios are limited to this range: beyond it an estimate means nothing
SMALLEST, LARGEST = 1e-6, 1e6
#: work is limited to this range, seconds
LONGEST = 1e12
#: attempts before and after one that tell the level of estimates at its time
AROUND = 5
#: the mean square of their steps, as a share of their variance, up to which they move together
ALIKE = 0.2
#: attempts remembered per kind
KEPT = 200
#: of Newton's method
MOST_STEPS = 20
#: a line errs as that of such a part of its history does: jobs of one period are alike
PART = 0.25
#: of the logarithm of an error that jobs have in common, the largest deviation
MOST_COMMON = 1.0
#: of a history, as it is dumped
PARTS = ("ratios", "work", "began", "ended")


class ErrorLine(NamedTuple):
    """What an estimate stands for, and the observed factors around that, 1 on average."""

    scale: float
    exponent: float
    factors: Floats
    #: the logarithm of the estimate around which it turns if the exponent is another one, and the
    #: standard error of that
    middle: float = 0.0
    error: float = 0.0

    def common(self, estimate: float) -> float:
        """Return the deviation of the logarithm of the error that its exponent makes."""
        away = math.log(min(max(estimate, SMALLEST), LONGEST)) - self.middle
        return round(min(max(self.error * away, -MOST_COMMON), MOST_COMMON), 2)

    def time_of(self, estimate: float) -> float:
        """Return the expected run time (s at speed 1)."""
        estimate = min(estimate, LONGEST)
        if self.exponent == 1.0:
            return estimate * self.scale
        return float(self.scale * max(estimate, SMALLEST) ** self.exponent)

    def times_of(self, running: Running) -> tuple[Floats, Floats]:
        """Return the expected run times of attempts, and which part of it each has run so far."""
        times = np.array([self.time_of(one) for one in running.estimates.tolist()])
        # within what a number can hold, of whatever times there were
        return times, np.minimum(running.work, LONGEST) / np.maximum(times, 1e-200)


class _History:
    """What attempts took alone and what had been estimated, in the order in which they ended.

    A straight line through the logarithms expresses how reliable estimates are:
    run time = e^a · estimate^b · an observed factor, 1 on average. An estimate that is right except
    for its scale has b = 1; one that knows no more than the kind has b = 0, and the factors are
    then the kind's run times themselves. Ratios alone would count an estimate's own error twice: a
    large estimate is more often too large. A queue waits for a sum of run times, so the line is
    that of Poisson's likelihood, by which the sums are right; least squares of logarithms misses a
    quarter of a heavy tail (Santos Silva and Tenreyro, The log of gravity, 2006).
    """

    __slots__ = ("_lines", "began", "changed", "ended", "ratios", "work")

    def __init__(self) -> None:
        # instants of farm time
        self.began: list[float] = []
        self.ended: list[float] = []
        self.ratios: list[float] = []
        #: seconds at speed 1
        self.work: list[float] = []
        #: what was before a change has been forgotten
        self.changed = False
        self._lines: dict[bool, ErrorLine] = {}

    def add(self, began_at: float, ended_at: float, ratio: float, work: float) -> None:
        """Add an attempt, and forget the first one if there are more than ``KEPT``."""
        self.began.append(began_at)
        self.ended.append(ended_at)
        self.ratios.append(ratio)
        self.work.append(work)
        self.keep(KEPT)

    def keep(self, count: int) -> None:
        """Forget all but the last attempts."""
        for kept in (self.began, self.ended, self.ratios, self.work):
            del kept[: max(0, len(kept) - count)]
        self._lines.clear()

    def forget_before_change(self) -> bool:
        """Forget what was before the last attempts if they differ from it; return whether."""
        recent = runs_since_change(self.work)
        if recent is None:
            return False
        self.keep(recent)
        self.changed = True
        return True

    def contain(self, time: float) -> bool:
        """Return whether a time (s at speed 1) is among the run times, or between them."""
        least, most = min(self.work, default=math.inf), max(self.work, default=0.0)
        return least * (1 - 1e-9) <= time <= most * (1 + 1e-9)

    @property
    def is_certain(self) -> bool:
        """All attempts took what was estimated, times one factor."""
        return max(self.ratios) - min(self.ratios) <= 1e-9 * max(self.ratios)

    @property
    def since(self) -> float:
        """Since when all attempts that ended are among the factors."""
        forgot = self.changed or len(self.work) == KEPT
        return self.ended[0] if forgot else -math.inf

    def line(self, *, of_runs: bool) -> ErrorLine:
        """Return the line by what has ended; ``of_runs``: estimates are made of past runs."""
        found = self._lines.get(of_runs)
        if found is None:
            found = ErrorLine(1.0, 1.0, np.array(self.ratios))
            if not self.is_certain:
                found = self._fitted(*self._points(of_runs=of_runs))
            self._lines[of_runs] = found
        return found

    def line_with(self, running: Running, *, of_runs: bool) -> ErrorLine:
        """Return it by what runs as well, at the length that the line without lets expect.

        Long attempts end late. Where estimates know which ones are long, a line through what has
        ended is too flat; those made of past runs only know what has ended (one step of
        expectation and maximisation: Dempster, Laird and Rubin, JRSS B 39, 1977).
        """
        line = self.line(of_runs=of_runs)
        # what has ended in a window of time is neither too long nor too short
        if of_runs or self.is_certain or self.since > -math.inf:
            return line
        times, bounds = line.times_of(running)
        found = self.survival(line, running)
        expected = times * [found.mean_beyond(bound) for bound in bounds.tolist()]
        x, took = self._points(of_runs=of_runs)
        of_running = np.log(np.clip(running.estimates, self._least(), LONGEST))
        all_took = np.append(took, np.minimum(expected, LONGEST))
        return self._fitted(x, took, np.append(x, of_running), all_took)

    def survival(self, line: ErrorLine, running: Running) -> Survival:
        """Return the distribution of the factors; attempts that run have outlived their bounds."""
        _, bounds = line.times_of(running)
        present = np.full(len(bounds), running.at)
        ended = seen_from(np.array(self.began), np.array(self.ended), self.since)
        entered = bounds * seen_from(running.began, present, self.since)
        return survival(line.factors, line.factors * ended, bounds, entered)

    def shift_of(self, line: ErrorLine, estimates: Floats, going: Floats) -> float:
        """Return by which factor some jobs together last longer than the line says of each.

        Each estimate errs, so the line is flat: a large one is more often too large. The errors of
        many cancel out. If they are larger or smaller as a whole than the estimates behind the
        line, so are their run times, as far as estimates follow run times: by the slope of the one
        over the other, which is 1 where an estimate is the truth times chance. What chance makes of
        the difference does not count (James and Stein 1961).

        Args:
            line: by which each of the jobs is forecast.
            estimates: of the jobs.
            going: those of the attempts that run.
        """
        least, work = self._least(), np.array(self.work)
        ended, took = np.log(np.maximum(work / np.array(self.ratios), least)), np.log(work + least)
        its = np.log(np.clip(estimates, least, LONGEST))
        among = float(took.var())
        if among <= 1e-12 or line.exponent >= 1.0:
            return 1.0
        follows = float((took - took.mean()) @ (ended - ended.mean())) / len(took) / among
        # of what has ended in a window of time, long attempts are not missing
        if self.since == -math.inf:
            ended = np.append(ended, np.log(np.clip(going, least, LONGEST)))
        difference = float(its.mean() - ended.mean())
        chance = float(ended.var()) * (1.0 / len(ended) + 1.0 / len(its))
        if difference**2 <= chance:
            return 1.0
        difference *= 1.0 - chance / difference**2
        return math.exp((1.0 - line.exponent) * min(max(follows, 0.0), 1.0) * difference)

    def _least(self) -> float:
        # tiny values count as zero: one job of no length must not turn the line
        return max(statistics.median(self.work) / 100, SMALLEST)

    def _points(self, *, of_runs: bool) -> tuple[Floats, Floats]:
        """Return the logarithms of the estimates, and the run times.

        Estimates made of past runs grow on a young farm, since short attempts end first, and say
        nothing by that. Where each is much like the last one, only what differs at one time counts.
        """
        least, work = self._least(), np.array(self.work)
        x = np.log(np.maximum(work / np.array(self.ratios), least))
        window, steps = np.ones(2 * AROUND + 1), np.diff(x)
        together = float((steps**2).mean()) < ALIKE * float(x.var())
        if of_runs and together and len(x) >= len(window):
            levels = np.convolve(x, window, "same") / np.convolve(np.ones_like(x), window, "same")
            x = x - levels + levels[-1]
        return x, np.maximum(work, least)

    @staticmethod
    def _fitted(x: Floats, took: Floats, *by: Floats) -> ErrorLine:
        """Return the line through these points, or through others, and the factors of these."""
        its_x, its_took = by or (x, took)
        exponent = _slope(its_x, its_took)
        weights = np.exp(exponent * its_x)
        scale = float(its_took.sum() / weights.sum())
        factors = took / (scale * np.exp(exponent * x))
        if not by:
            factors /= factors.mean()
        weights /= weights.sum()
        middle = float(weights @ its_x)
        among = float(weights @ (its_x - middle) ** 2)
        # by their logarithms as well: of a heavy tail the longest have not been seen
        mean, logarithms = float(factors.mean()), np.log(factors)
        away = logarithms - logarithms.mean()
        around = max(
            float(factors @ factors) / len(x) / mean**2 - 1.0,
            math.expm1(float(away @ away) / len(x)),
        )
        error = math.sqrt(around / (PART * len(x) * among)) if among > 1e-12 else 0.0
        return ErrorLine(scale, exponent, factors, middle, error)


def _slope(x: Floats, took: Floats) -> float:
    """Return b, 0 to 1.5, where the mean of x weighted by e^(b x) is that weighted by run times."""
    if float(x.var()) * len(x) <= 1e-12:
        return 1.0
    x = x - x.max()
    wanted, b = float(took @ x) / float(took.sum()), 1.0
    for _ in range(MOST_STEPS):
        weights = np.exp(b * x)
        weights /= weights.sum()
        mean = float(weights @ x)
        variance = float(weights @ (x - mean) ** 2)
        step = (wanted - mean) / max(variance, 1e-12)
        before, b = b, min(max(b + min(max(step, -0.5), 0.5), 0.0), 1.5)
        if abs(b - before) < 1e-6:
            break
    return b


def sort_of(job: Job) -> str:
    """Return which jobs have one history: those of a kind, and its heavy ones apart.

    A job that is heavy is known to be, and is longer or shorter than the others of its kind.
    """
    return f"{job.kind}\x1fheavy" if job.heavy else job.kind


class RunTimeSpread(NamedTuple):
    """A time at speed 1 (s) and the observed factors around it, by the end of their attempts."""

    time: float
    factors: Floats
    history: _History | YoungKinds
    #: of the history: the sort of jobs, or none
    name: str
    estimate: float
    #: the estimate is made of past runs
    of_runs: bool
    #: standard deviation of the logarithm of the error that all jobs of the sort have in common;
    #: with a sign, where it is the smaller for some the larger it is for others
    common: float = 0.0


class RuntimeDistribution(RuntimeEstimator):
    """A runtime estimator together with the distribution of its jobs' true run times.

    It is a runtime estimator itself and replaces the one that it wraps. A draw is the run time of
    jobs with such an estimate, by a line through the logarithms of both, times an observed factor.
    Jobs whose estimates are made of their kind's few runs are drawn by these and what is known of
    all kinds (``young_kinds``); others of a kind with fewer than ``MIN_RUNS`` attempts from those
    of all kinds. If all of them are too few, the estimate is taken as certain. Where the estimator
    has found out that declared times tell how long a kind's jobs are, the line is through these:
    its own earlier estimates were made without them. So it is where jobs have no kinds.
    """

    learns = True

    def __init__(self, estimator: RuntimeEstimator) -> None:
        self.estimator = estimator
        self.name = estimator.name
        #: of all kinds: where the estimate was not one of the kind's own runs
        self._others = _History()
        self._kinds: dict[str, _History] = {}
        #: by declared times in the place of estimates
        self._declared: dict[str, _History] = {}
        self._young: YoungKinds | None = None
        reads = own_declaration(estimator, "reads", RuntimeEstimator.reads)
        #: from a job without a builder to what its estimate and its spread depend on
        self.alike: Callable[[Job], object] = attrgetter("kind", "heavy", "declared_time", *reads)

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the wrapped estimate in seconds."""
        return self.estimator.estimate(job, builder)

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Learn from an attempt that had the builder for itself, at an unknown time."""
        self._record(EndedAttempt(job, builder, BEFORE, BEFORE, outcome), elapsed)
        self.estimator.learn(job, builder, elapsed, outcome)

    def learn_attempt(self, ended: EndedAttempt) -> None:
        """Record the error of the estimate for this builder; then let the estimator learn.

        What is recorded is the work: in a rollout its neighbours slow a job down again.
        """
        elapsed = ended.ended_at - ended.began_at
        self._record(ended, elapsed if ended.work is None else ended.work)
        self.estimator.learn(ended.job, ended.builder, elapsed, ended.outcome)

    def _record(self, ended: EndedAttempt, alone: float) -> None:
        job, builder = ended.job, ended.builder
        if ended.outcome != "succeeded" or not is_time(alone):
            return
        estimate = self.estimator.estimate(job, builder)
        if estimate > 0:
            ratio = min(max(alone / estimate, SMALLEST), LARGEST)
            work = min(alone * speed_of(builder), LONGEST)
            kind = latest(self._kinds, sort_of(job), _History())
            own = self._of_runs(job, builder) and kind.contain(estimate * speed_of(builder))
            for history in (kind,) if own else (self._others, kind):
                history.add(ended.began_at, ended.ended_at, ratio, work)
            if self.estimator.uses_declared and is_time(declared := job.declared_time) and declared:
                history = latest(self._declared, sort_of(job), _History())
                ratio = min(max(work / declared, SMALLEST), LARGEST)
                history.add(ended.began_at, ended.ended_at, ratio, work)
            # without kinds of their own, jobs of different lengths come one after the other
            name = sort_of(job)
            if self.has_kinds(name) and kind.forget_before_change():
                self._forget_declared(name, kind)
            self._young = None

    def _forget_declared(self, name: str, kind: _History) -> None:
        """Forget of declared times what a history that has changed has forgotten."""
        history = self._declared.get(name)
        if history is None:
            return
        # only some jobs may have a declared time: as many would be older ones, too
        later = sum(ended_at >= kind.ended[0] for ended_at in history.ended)
        history.keep(min(later, len(kind.work)))
        history.changed = True
        if not history.work:
            del self._declared[name]

    def _of_runs(self, job: Job, builder: Builder | None) -> bool:
        basis = self.estimator.basis(job, builder)
        return basis.samples > 0 and not basis.declared

    def basis(self, job: Job, builder: Builder | None = None) -> Basis:
        """Return the basis of the wrapped estimate."""
        return self.estimator.basis(job, builder)

    def size_sent(self, job: Job, builder: Builder) -> float | None:
        """Return the size that the wrapped estimator lets a builder be sent."""
        return self.estimator.size_sent(job, builder)

    def remaining(
        self, job: Job, builder: Builder, elapsed: float, progress: JobProgress | None = None
    ) -> float:
        """Return the wrapped estimate of a running job's remaining time in seconds."""
        return self.estimator.remaining(job, builder, elapsed, progress)

    def spread(
        self,
        job: Job,
        builder: Builder | None = None,
        lines: Mapping[int, ErrorLine] | None = None,
        young: YoungKinds | None = None,
    ) -> RunTimeSpread | None:
        """Return what a job's run time is drawn from; None: the estimate is certain.

        ``builder``: the estimate for this one counts, without one that of a waiting job.
        ``lines``: other lines than by what has ended, by the identity of their histories; ``young``
        is the same of young kinds.
        """
        of_runs = self._of_runs(job, builder)
        estimate = self.estimator.estimate(job, builder) * speed_of(builder)
        history = self._kinds.get(name := sort_of(job))
        other, declared = self._declared.get(name), job.declared_time
        if other is not None and declared and is_time(declared):
            known = len(other.work)
            # without kinds nothing else tells jobs apart
            only = known >= FEW and not self.has_kinds(name)
            if only or (known >= MIN_RUNS and self.estimator.basis(job, builder).declared):
                history, estimate, of_runs = other, declared, False
        few = history is not None and len(history.work) < FEW and history.contain(estimate)
        if of_runs and few and (made := self._of_young(name, estimate, young)) is not None:
            return made
        if history is None or len(history.ratios) < MIN_RUNS:
            name, history = "", self._others
            if len(history.ratios) < MIN_RUNS:
                return None
        line = (lines and lines.get(id(history))) or history.line(of_runs=of_runs)
        time = line.time_of(estimate)
        common = line.common(estimate)
        found = RunTimeSpread(time, line.factors, history, name, estimate, of_runs, common)
        return found if is_time(time) else None

    def _of_young(
        self, name: str, estimate: float, learned: YoungKinds | None
    ) -> RunTimeSpread | None:
        """Return what a young kind's run time is drawn from; None: too little is known of all."""
        if self._young is None:
            self._young = YoungKinds(
                {sort: kept for sort, kept in self._kinds.items() if kept.work}
            )
        if (kinds := self._young).repeated < MIN_RUNS:
            return None
        if kinds.is_certain:
            return RunTimeSpread(estimate, np.ones(1), kinds, "", estimate, of_runs=True)
        learned = learned or kinds
        time, common = learned.time_of(name)
        return RunTimeSpread(time, learned.factors, kinds, "", estimate, True, common)

    def has_kinds(self, name: str) -> bool:
        """Return whether jobs have kinds, as one sort sees it: else all that differ are of it."""
        others = (len(kept.work) for sort, kept in self._kinds.items() if sort != name)
        return is_one_of_several(self.known_of(name), others)

    def known_of(self, kind: str) -> int:
        """Return how many run times of a kind are remembered."""
        history = self._kinds.get(kind)
        return 0 if history is None else len(history.work)

    def forget_times(self) -> None:
        """Count all that was learned so far as before the farm's beginning."""
        for history in (self._others, *self._kinds.values(), *self._declared.values()):
            history.began = [BEFORE] * len(history.began)
            history.ended = list(history.began)

    def dump(self) -> JsonValues:
        """Return the estimator's statistics and the history as plain JSON values.

        The history is in the order in which attempts ended.
        """
        found: JsonValues = {"estimator": self.name, "statistics": self.estimator.dump()}
        for name in PARTS:
            found[name] = list(getattr(self._others, name))
            by_kind = {kind: list(getattr(kept, name)) for kind, kept in self._kinds.items()}
            found[f"{name}_by_kind"] = by_kind
            declared = {kind: list(getattr(kept, name)) for kind, kept in self._declared.items()}
            found[f"{name}_declared"] = declared
        found["changed"] = [kind for kind, kept in self._kinds.items() if kept.changed]
        declared_changed = [kind for kind, kept in self._declared.items() if kept.changed]
        found["changed_declared"] = declared_changed
        return found

    def load(self, state: JsonValues) -> None:
        """Restore both; StateError if the dump is invalid.

        A dump of the wrapped estimator alone is valid too: the history is then empty.
        """
        check_owner(state, self.name)
        parts = [converted(state, name, list[float]) for name in PARTS]
        inner = converted(state, "statistics", JsonValues) if "statistics" in state else state
        self.estimator.load(inner)
        self._others, self._young = _loaded(*parts), None
        self._kinds, self._declared = (_all_loaded(state, name) for name in ("by_kind", "declared"))
        for name, histories in (("changed", self._kinds), ("changed_declared", self._declared)):
            for kind in converted(state, name, list[str]):
                if kind in histories:
                    histories[kind].changed = True


def _all_loaded(state: JsonValues, name: str) -> dict[str, _History]:
    parts = [converted(state, f"{part}_{name}", dict[str, list[float]]) for part in PARTS]
    return {kind: _loaded(*(part.get(kind, []) for part in parts)) for kind in parts[0]}


def _loaded(
    ratios: list[float], work: list[float], began: list[float], ended: list[float]
) -> _History:
    """Return a history of dumped values; those that mean nothing are left out."""
    history = _History()
    dated = len(began) == len(ended) == len(ratios)
    for n, (ratio, value) in enumerate(zip(ratios, work, strict=False)):
        if SMALLEST <= ratio <= LARGEST and 0.0 <= value <= LONGEST:
            began_at, ended_at = (began[n], ended[n]) if dated else (BEFORE, BEFORE)
            history.add(began_at, ended_at, ratio, value)
    return history
