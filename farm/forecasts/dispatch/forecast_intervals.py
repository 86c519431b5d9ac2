"""Intervals of dispatch estimates that hold as often as they say, by the farm's own past errors.

A forecast's own spread says which of two jobs is the less certain, but is too narrow: it does not
know what the forecast does not model, such as a rate that changes, whose errors are a share of the
wait. The geometric mean of the two is the unit of errors. How far the truth was off is known of
every job that was dispatched; the quantiles of these errors are those of the next one (split
conformal prediction: Lei and others, JASA 113, 2018). Waits that go on count as well, as longer
than they are now: short ones alone would be too early.

Farms are busy at one time and idle at another, so each level that held too often, or not often
enough, moves by a step (adaptive conformal inference: Gibbs and Candès, NeurIPS 2021), beyond the
largest error if need be. What was told while a queue grew, before any of its errors was known, has
one error in common: the more of them became known since a forecast, the less it moves.

Each platform learns from its own jobs. No interval is told, but its levels move, before ``SPANS``
waits one after the other, and ``LEAST`` in all, and for a wait that would be far longer than all
whose end is known, as when a queue grows for hours: none is better than a false one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
import numpy as np

from farm.columns import Floats
from farm.core.events import Event, JobStarted
from farm.core.scheduler import Scheduler
from farm.core.state.working_state import JobState
from farm.forecasts.dispatch.at_submission import Forecast, executing
from farm.forecasts.runtime.survival import survival

LEVELS = tuple(number / 10 for number in range(1, 10))
"""The quantiles of an estimate."""

#: errors from which there is an interval, and waits among them none of which overlaps another
LEAST, SPANS = 20, 4
#: errors from which levels move
TRIED = 8
#: errors remembered of a platform
KEPT = 200
#: by how much a level moves that held or did not, at most; and all of those together that were told
#: between two errors
STEP, TOGETHER = 0.05, 0.15
#: how far a level may move
FARTHEST = 1.0
#: the least spread: seconds by which even a sure forecast may err
LEAST_SPREAD = 2.0
#: of the middle four fifths of a normal distribution, in standard deviations
WIDTH = 2.563
#: the error that all rollouts have in common, as a share of the wait
COMMON = 0.2
#: how many times as long as the longest known wait another may be
FAR = 1.5
#: by how many times its distance from the median a quantile grows when its level grows by 1
BEYOND = 2.0
#: tolerance: a certain estimate is met exactly except for rounding
ROUNDING = 1e-6


class _Given(msgspec.Struct, frozen=True):
    """A forecast whose truth is not known yet."""

    at: float
    median: float
    #: the unit of errors, seconds
    spread: float
    #: the calibrated quantiles, as waits; none if there were too few errors
    waits: tuple[float, ...]
    #: errors that were known when it was made
    known: int

    def error(self, at: float) -> float:
        """Return by how many spreads a dispatch at this instant would be later than expected."""
        return (at - self.at - self.median) / self.spread


class PlatformMemory(msgspec.Struct):
    """The forecasts and errors of a platform, which a farm's next scheduler takes over."""

    #: forecasts by job
    open: dict[str, list[_Given]] = {}
    #: instants of the forecasts, their errors and the waits, by the instant of the dispatch
    errors: list[tuple[float, float, float]] = []
    #: by level: how far it has moved
    shifts: list[float] = msgspec.field(default_factory=lambda: [0.0] * len(LEVELS))
    #: all errors so far
    known: int = 0
    #: waits one after the other, and when the last one ended
    spans: int = 0
    span_ended_at: float = -1.0

    def learn(self, given: _Given, at: float) -> None:
        """Learn the truth about a forecast: its job was dispatched at this instant."""
        self.errors.append((given.at, given.error(at), at - given.at))
        del self.errors[:-KEPT]
        if given.at >= self.span_ended_at:
            self.spans, self.span_ended_at = self.spans + 1, at
        if given.waits:
            held = at - given.at <= np.array(given.waits) + ROUNDING
            step = min(STEP, TOGETHER / (1 + self.known - given.known))
            moved = self.shifts + step * (np.array(LEVELS) - held)
            self.shifts = np.clip(moved, -FARTHEST, FARTHEST).tolist()
        self.known += 1

    def quantiles(self, at: float) -> Floats | None:
        """Return those of the next error, by level; None: too little is known."""
        going = [given for of_job in self.open.values() for given in of_job]
        if len(self.errors) < TRIED:
            return None
        since = min(asked_at for asked_at, *_ in self.errors)
        known = np.array([error for _, error, _ in self.errors])
        bounds = np.array([given.error(at) for given in going if given.at >= since])
        return _quantiles(known, bounds, np.array(LEVELS) + self.shifts)


class ForecastCalibration:
    """What has become of one estimator's forecasts, and the quantiles of the next ones."""

    def __init__(self) -> None:
        self.platforms: dict[str, PlatformMemory] = {}
        self._platform_of: dict[str, PlatformMemory] = {}

    def calibrate(
        self, platform: str, at: float, forecasts: Sequence[tuple[str, Sequence[float]]]
    ) -> list[tuple[float, ...]]:
        """Remember forecasts; return the calibrated quantiles of each, or none.

        Args:
            platform: what the jobs wait for.
            at: the present instant.
            forecasts: each waiting job, and the quantiles of its wait: finite, by ``LEVELS``.
        """
        its = self.platforms.setdefault(platform, PlatformMemory())
        errors, found = its.quantiles(at), []
        tells = len(its.errors) >= LEAST and its.spans >= SPANS
        farthest = FAR * max((wait for *_, wait in its.errors), default=0.0)
        for job, waits in forecasts:
            median = waits[len(waits) // 2]
            own = max((waits[-1] - waits[0]) / WIDTH, LEAST_SPREAD)
            spread = max((own * COMMON * median) ** 0.5, LEAST_SPREAD)
            made: tuple[float, ...] = ()
            if errors is not None:
                made = tuple(np.maximum(median + spread * errors, 0.0).tolist())
            its.open.setdefault(job, []).append(_Given(at, median, spread, made, its.known))
            self._platform_of[job] = its
            found.append(made if tells and median <= farthest else ())
        return found

    def calibrated(
        self,
        scheduler: Scheduler,
        jobs: Sequence[JobState],
        at: float,
        forecasts: Sequence[Forecast],
    ) -> list[Forecast]:
        """Remember forecasts for waiting jobs; return them with calibrated quantiles."""
        self._forget(scheduler)
        found = list(forecasts)
        places: dict[str, list[int]] = {}
        for place, state in enumerate(jobs):
            if found[place].quantiles_at:
                places.setdefault(str(executing(state).job.platform), []).append(place)
        for platform, some in places.items():
            calibrated = self.calibrate(
                platform,
                at,
                [
                    (executing(jobs[n]).job.id, [one - at for one in found[n].quantiles_at])
                    for n in some
                ],
            )
            for n, waits in zip(some, calibrated, strict=True):
                quantiles_at = tuple(wait + at for wait in waits)
                found[n] = msgspec.structs.replace(found[n], quantiles_at=quantiles_at)
        return found

    def take(self, event: Event, scheduler: Scheduler) -> None:
        """Learn from the farm's next event."""
        if type(event) is JobStarted and event.job in self._platform_of:
            state = scheduler.jobs.get(event.job)
            dispatched_at = None if state is None else state.dispatched_at
            self.dispatched(event.job, event.at if dispatched_at is None else dispatched_at)

    def dispatched(self, job: str, at: float) -> None:
        """Learn the truth about a job's forecasts."""
        if (its := self._platform_of.pop(job, None)) is not None:
            for given in its.open.pop(job):
                its.learn(given, at)

    def _forget(self, scheduler: Scheduler) -> None:
        """Forget jobs that were never dispatched, or while no scheduler was there."""
        for job in list(self._platform_of):
            state = scheduler.jobs.get(job)
            if state is None or state.started_at is not None:
                self.drop(job)

    def drop(self, job: str) -> None:
        """Forget a job: it was no long wait."""
        self._platform_of.pop(job).open.pop(job)

    def load(self, platforms: Mapping[str, object]) -> None:
        """Take over another one's ``platforms``, decoded; nothing if they cannot be read."""
        with suppress(msgspec.ValidationError):
            self.platforms = msgspec.convert(platforms, dict[str, PlatformMemory])
        for its in self.platforms.values():
            self._platform_of.update(dict.fromkeys(its.open, its))


def _quantiles(known: Floats, bounds: Floats, levels: Floats) -> Floats:
    """Return quantiles of the next value, of which some are only known to be larger than a bound.

    Linear between two values; of n that are known the i-th is that of level i/(n + 1).
    """
    always = np.full(len(known), -np.inf), np.full(len(bounds), -np.inf)
    weights = survival(known, always[0], bounds, always[1]).weights
    order = known.argsort(kind="stable")
    values = np.append(known[order], max(known.max(), bounds.max(initial=-np.inf)))
    places = np.append(weights[order].cumsum(), 1.0) * len(known) / (len(known) + 1)
    found = np.interp(levels, places, values)
    beyond = np.maximum(levels - places[-1], np.minimum(levels - places[0], 0.0))
    found += BEYOND * np.abs(beyond) * (found - np.interp(0.5, places, values))
    return np.asarray(np.maximum.accumulate(found))
