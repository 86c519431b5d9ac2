"""Intervals of dispatch estimates that hold as often as they say, by the farm's own past errors.

Rollouts say which of two jobs is the less certain, but not how uncertain both are: they do not know
what they do not model. So each side of a forecast, from its median to its P10 and from its median
to its P90, is scaled. A scale follows the errors: it grows where the truth was outside more often
than in one job of ten, and shrinks where that was rarer (adaptive conformal inference: Gibbs and
Candès, NeurIPS 2021, on a logarithmic scale). It is there from the first job on, when it is 1: the
rollouts' own range, which is then said to be unproven.

What was told while a queue grew, before any of its errors was known, has one error in common: the
more of them became known since a forecast, the less a scale moves. A wait that has outlasted its
P90 is an error that is known before it ends.

Jobs of a platform are alike, those of one level or of one party under fair share are more alike,
and so are short or long forecasts. A scale is the product of one for each of these groups.
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

import msgspec

from farm.core.events import Event, JobStarted
from farm.core.model import Platform
from farm.core.scheduler import Scheduler
from farm.core.state.working_state import JobState
from farm.forecasts.dispatch.at_submission import Forecast, executing
from farm.forecasts.dispatch.wait_range import GUESSED, WaitRange
from farm.forecasts.runtime.interface import latest

LEVELS = tuple(number / 10 for number in range(1, 10))
"""The quantiles of an estimate."""
MEDIAN = LEVELS.index(0.5)

#: the share of jobs that are to be dispatched before P10, and after P90
OUTSIDE = 0.1
#: past errors from which a range is proven: two of them are expected on each side of it, and of
#: fewer a range that is far too narrow would often miss none
PROVEN_FROM = 20
#: past forecasts of a group whose share that held is told
LATELY = 100
#: by how much the logarithm of a scale moves after an error, at most, in all groups together: a
#: range that is too narrow by half is right after three misses, and one miss by chance is forgotten
#: after nine hits
STEP = 0.3
#: the largest logarithm of a scale
FARTHEST = 1.0
#: seconds by which even a sure forecast may err
LEAST_SPREAD = 2.0
#: forecasts of waits between two of these (seconds) have errors in common
HORIZONS = (60.0, 300.0, 1800.0, 7200.0)
#: rollouts of which the middle four fifths differ by less than this share of their median are
#: alike: nothing that they draw matters, so what will decide may be unknown to them
SURE = 0.05
#: the share of a platform's last forecasts that held, from which such rollouts are trusted: ranges
#: that are right hold eight times of ten, and LATELY such by chance hardly ever less than this
TRUSTED = 0.7
#: tolerance: a certain estimate is met exactly except for rounding
ROUNDING = 1e-6


class Given(msgspec.Struct, frozen=True):
    """A forecast whose truth is not known yet."""

    at: float
    #: waits
    p10: float
    p90: float
    #: those of its job, the platform first
    groups: tuple[str, ...]
    #: errors of its platform that were known when it was made
    known: int


class GroupMemory(msgspec.Struct):
    """What past errors say of one group of jobs."""

    #: how many there were
    errors: int = 0
    #: logarithms of the scales of the sides
    early: float = 0.0
    late: float = 0.0
    #: whether the last forecasts held
    held: list[bool] = []

    def learn(self, step: float, *, before: bool, after: bool) -> None:
        """Learn that a job was dispatched before P10, after P90, or between them."""
        self.errors += 1
        self.early += step * (before - OUTSIDE)
        self.late += step * (after - OUTSIDE)
        self.early, self.late = (_limited(one) for one in (self.early, self.late))
        self.held.append(not (before or after))
        del self.held[:-LATELY]


def _limited(logarithm: float) -> float:
    return min(max(logarithm, -FARTHEST), FARTHEST)


def _scale(logarithm: float) -> float:
    return math.exp(_limited(logarithm))


class CalibrationMemory(msgspec.Struct):
    """What one estimator's forecasts have taught, which a farm's next scheduler takes over."""

    groups: dict[str, GroupMemory] = {}
    #: forecasts by job
    given: dict[str, list[Given]] = {}


class ForecastCalibration:
    """What has become of one estimator's forecasts, and the quantiles of the next ones."""

    def __init__(self) -> None:
        self.memory = CalibrationMemory()
        #: when a waiting job has outlasted the P90 of a forecast
        self._overdue: list[tuple[float, str]] = []

    def calibrate(
        self, groups: tuple[str, ...], at: float, job: str, waits: Sequence[float]
    ) -> list[float]:
        """Remember a forecast; return its calibrated quantiles.

        Args:
            groups: those of the job, its platform first.
            at: the present instant.
            job: that waits.
            waits: the quantiles of its wait: finite, by ``LEVELS``.
        """
        self._learn_overdue(at)
        groups = (*groups, _horizon(groups[0], waits[MEDIAN]))
        found = self._scaled(groups, waits)
        known = latest(self.memory.groups, groups[0], GroupMemory()).errors
        given = Given(at, found[0], found[-1], groups, known)
        self.memory.given.setdefault(job, []).append(given)
        heapq.heappush(self._overdue, (at + given.p90 + ROUNDING, job))
        return found

    def range_of(self, groups: tuple[str, ...], waits: Sequence[float]) -> WaitRange:
        """Return between which waits a job is dispatched, without remembering a forecast.

        Args:
            groups: those of the job, its platform first.
            waits: the quantiles of its wait: finite, by ``LEVELS``.
        """
        found = self._scaled((*groups, _horizon(groups[0], waits[MEDIAN])), waits)
        known = [its for name in groups if (its := self.memory.groups.get(name)) is not None]
        proven = [its for its in known if its.errors >= PROVEN_FROM]
        # the narrowest group of which enough is known, else the widest
        basis = proven[-1] if proven else (known or [GroupMemory()])[0]
        return WaitRange(
            p10_time=found[0],
            p90_time=found[-1],
            is_proven=bool(proven),
            errors=basis.errors,
            coverage=sum(basis.held) / len(basis.held) if basis.held else None,
        )

    def _scaled(self, groups: Sequence[str], waits: Sequence[float]) -> list[float]:
        """Return quantiles, by ``LEVELS``, whose sides are scaled by what past errors say."""
        early_logarithm = late_logarithm = 0.0
        for name in groups:
            its = self.memory.groups.get(name)
            if its is not None:
                early_logarithm += its.early
                late_logarithm += its.late
        early_scale, late_scale = _scale(early_logarithm), _scale(late_logarithm)
        median = waits[MEDIAN]
        if self._is_guess(groups[0], waits):
            low, high = (median * multiple for multiple in GUESSED)
            parts = [place / MEDIAN for place in range(MEDIAN + 1)]
            before = [low + (median - low) * part for part in parts[:-1]]
            return before + [median + (high - median) * part for part in parts]
        early = _side([median - wait for wait in waits[MEDIAN::-1]])
        late = _side([wait - median for wait in waits[MEDIAN:]])
        before = [max(median - early_scale * distance, 0.0) for distance in early[:0:-1]]
        return before + [median + late_scale * distance for distance in late]

    def _is_guess(self, platform: str, waits: Sequence[float]) -> bool:
        """Return whether rollouts that hardly differ are not known to be right.

        While no run times are known these are taken as estimated, and all rollouts are alike.
        """
        if waits[-1] - waits[0] > SURE * waits[MEDIAN]:
            return False
        its = self.memory.groups.get(platform)
        return its is None or its.errors < PROVEN_FROM or sum(its.held) < TRUSTED * len(its.held)

    def calibrated(
        self,
        scheduler: Scheduler,
        jobs: Sequence[JobState],
        at: float,
        forecasts: Sequence[Forecast],
    ) -> list[Forecast]:
        """Remember forecasts for waiting jobs; return them with calibrated quantiles."""
        self._forget(scheduler)
        found = []
        for state, forecast in zip(jobs, forecasts, strict=True):
            if forecast.quantiles_at:
                waits = [instant - at for instant in forecast.quantiles_at]
                job = executing(state).job.id
                calibrated = self.calibrate(groups_of(state), at, job, waits)
                quantiles_at = tuple(wait + at for wait in calibrated)
                found.append(msgspec.structs.replace(forecast, quantiles_at=quantiles_at))
            else:
                found.append(forecast)
        return found

    def take(self, event: Event, scheduler: Scheduler) -> None:
        """Learn from the farm's next event."""
        if type(event) is JobStarted and event.job in self.memory.given:
            state = scheduler.jobs.get(event.job)
            dispatched_at = None if state is None else state.dispatched_at
            self.dispatched(event.job, event.at if dispatched_at is None else dispatched_at)

    def dispatched(self, job: str, at: float) -> None:
        """Learn the truth about a job's forecasts."""
        for given in self.memory.given.pop(job, ()):
            wait = at - given.at
            before = wait < given.p10 - ROUNDING
            self._learn(given, before=before, after=wait > given.p90 + ROUNDING)

    def _learn_overdue(self, at: float) -> None:
        """Learn of the jobs that have waited longer than their P90, and still wait."""
        overdue = self._overdue
        while overdue and overdue[0][0] < at:
            _, job = heapq.heappop(overdue)
            given = self.memory.given.pop(job, [])
            for one in given:
                if one.at + one.p90 + ROUNDING < at:
                    self._learn(one, before=False, after=True)
            if waiting := [one for one in given if one.at + one.p90 + ROUNDING >= at]:
                self.memory.given[job] = waiting

    def _learn(self, given: Given, *, before: bool, after: bool) -> None:
        groups = self.memory.groups
        platform = latest(groups, given.groups[0], GroupMemory())
        step = STEP / (1.0 + STEP * (platform.errors - given.known))
        for name in given.groups:
            its = latest(groups, name, GroupMemory())
            its.learn(step / len(given.groups), before=before, after=after)

    def _forget(self, scheduler: Scheduler) -> None:
        """Forget jobs whose start was not seen: there was none, or no scheduler was there."""
        for job in list(self.memory.given):
            state = scheduler.jobs.get(job)
            if state is None or state.started_at is not None:
                self.drop(job)

    def drop(self, job: str) -> None:
        """Forget a job: it was no long wait."""
        self.memory.given.pop(job, None)

    def dump(self) -> Mapping[str, object]:
        """Return what has been learned, for ``load``."""
        return {"groups": self.memory.groups, "given": self.memory.given}

    def load(self, state: Mapping[str, object]) -> None:
        """Take over what another one dumped, decoded; nothing if it cannot be read."""
        with suppress(msgspec.ValidationError):
            self.memory = msgspec.convert(state, CalibrationMemory)
        self._overdue = [
            (given.at + given.p90 + ROUNDING, job)
            for job, of_job in self.memory.given.items()
            for given in of_job
        ]
        heapq.heapify(self._overdue)


def groups_of(state: JobState) -> tuple[str, ...]:
    """Return the groups of a waiting job, the widest first: its platform, and party or level."""
    state = executing(state)
    party = state.path[0] if state.path else None
    return _group_names(state.job.platform, party, state.job.level)


@lru_cache(maxsize=1_000)
def _group_names(platform: Platform, party: str | None, level: int) -> tuple[str, ...]:
    own = f"at level {level}" if party is None else f"of {party}"
    return str(platform), f"{platform} {own}"


def _horizon(platform: str, wait: float) -> str:
    """Return the group of the forecasts of a platform that are about as long."""
    return _horizon_names(platform)[bisect.bisect(HORIZONS, wait)]


@lru_cache(maxsize=1_000)
def _horizon_names(platform: str) -> tuple[str, ...]:
    return tuple(f"{platform} within {place}" for place in range(len(HORIZONS) + 1))


def _side(distances: Sequence[float]) -> Sequence[float]:
    """Return distances from a median, none to all; at least as if they were evenly spread."""
    longest = distances[-1]
    if longest >= LEAST_SPREAD:
        return distances
    places = len(distances) - 1
    return [LEAST_SPREAD * place / places for place in range(places + 1)]
