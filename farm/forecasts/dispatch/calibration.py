"""Intervals of dispatch estimates that hold as often as they say, by the farm's own past errors.

A forecast's own spread says which of two jobs is the less certain, but is too narrow: it does not
know what the forecast does not model. How far the truth was off, in spreads, is known of every job
that was dispatched; the quantiles of these errors are those of the next one (split conformal
prediction: Lei and others, JASA 113, 2018). Waits that go on count as well, as longer than they
are now: short ones alone would be too early. Each level that held too often, or not often enough,
moves by a step (Gibbs and Candès, NeurIPS 2021), since farms are busy at one time and idle at
another. For the same reason a bound moves only half as far where that narrows the interval: errors
of a quiet hour say little of the next one.

Each platform learns from its own jobs. Those that waited together have one error in common, so
before ``SPANS`` waits one after the other, and ``LEAST`` in all, there is no interval: none is
better than a false one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from farm.core.events import Event, JobStarted
from farm.core.scheduler import Scheduler
from farm.core.state.working_state import JobState
from farm.forecasts.dispatch.at_submission import Forecast, executing
from farm.forecasts.runtime.quantiles import survival

Floats = NDArray[np.float64]

LEVELS = tuple(number / 10 for number in range(1, 10))
"""The quantiles of an estimate."""

#: errors from which there is an interval, and waits among them none of which overlaps another
LEAST, SPANS = 20, 4
#: errors remembered of a platform
KEPT = 200
#: by how much an interval that held or did not moves the levels
STEP = 0.02
#: levels stay as far from 0 and 1, where few errors say anything
FARTHEST = 0.005
#: the least spread: seconds by which even a sure forecast may err
LEAST_SPREAD = 5.0


class _Told(msgspec.Struct, frozen=True):
    """A forecast whose truth is not known yet."""

    at: float
    median: float
    #: seconds: half of the middle four fifths, as a normal distribution has them
    spread: float
    #: the calibrated quantiles, as waits; none if there were too few errors
    waits: tuple[float, ...]

    def error(self, at: float) -> float:
        """Return by how many spreads a dispatch at this instant would be later than expected."""
        return (at - self.at - self.median) / self.spread


class _Platform:
    """The forecasts and errors of a platform."""

    def __init__(self) -> None:
        self.open: dict[str, list[_Told]] = {}
        #: instants of the forecasts, and their errors, by the instant of the dispatch
        self._errors: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self._shifts = np.zeros(len(LEVELS))
        self._spans, self._span_ended_at = 0, -np.inf

    def dispatched(self, told: _Told, at: float) -> None:
        self._errors.append((told.at, told.error(at)))
        if told.at >= self._span_ended_at:
            self._spans, self._span_ended_at = self._spans + 1, at
        if told.waits:
            # tolerance: a certain estimate is met exactly except for rounding
            held = at - told.at <= np.array(told.waits) + 1e-6
            self._shifts = np.clip(self._shifts + STEP * (np.array(LEVELS) - held), -0.5, 0.5)

    def quantiles(self, at: float, median: float, spread: float) -> tuple[float, ...]:
        """Return a forecast's, as waits; none while too little is known."""
        if len(self._errors) < LEAST or self._spans < SPANS:
            return ()
        since = min(asked_at for asked_at, _ in self._errors)
        going = [told for of_job in self.open.values() for told in of_job if told.at >= since]
        known = np.array([error for _, error in self._errors])
        bounds = np.array([told.error(at) for told in going])
        levels = np.clip(np.array(LEVELS) + self._shifts, FARTHEST, 1 - FARTHEST)
        waits = np.maximum(median + spread * _quantiles(known, bounds, levels), 0.0)
        return tuple(np.maximum.accumulate(waits).tolist())


class Calibration:
    """What has become of one estimator's forecasts, and the quantiles of the next ones."""

    def __init__(self) -> None:
        self._platforms: dict[str, _Platform] = {}
        self._platform_of: dict[str, _Platform] = {}

    def told(self, job: str, platform: str, at: float, waits: Sequence[float]) -> tuple[float, ...]:
        """Remember a forecast for a waiting job; return its calibrated quantiles, or none.

        Args:
            job: what will be dispatched.
            platform: its.
            at: the present instant.
            waits: the quantiles that were forecast, finite, by ``LEVELS``.
        """
        its = self._platforms.setdefault(platform, _Platform())
        median = waits[len(waits) // 2]
        spread = max((waits[-1] - waits[0]) / 2.563, LEAST_SPREAD)
        found = its.quantiles(at, median, spread)
        its.open.setdefault(job, []).append(_Told(at, median, spread, found))
        self._platform_of[job] = its
        return _careful(waits, found) if found else ()

    def calibrated(self, state: JobState, at: float, forecast: Forecast) -> Forecast:
        """Remember a forecast for a waiting job; return it with calibrated quantiles."""
        if not forecast.quantiles_at:
            return forecast
        job = executing(state).job
        waits = self.told(
            job.id, str(job.platform), at, [one - at for one in forecast.quantiles_at]
        )
        return msgspec.structs.replace(forecast, quantiles_at=tuple(wait + at for wait in waits))

    def take(self, event: Event, scheduler: Scheduler) -> None:
        """Learn from the farm's next event."""
        if type(event) is JobStarted and event.job in self._platform_of:
            state = scheduler.jobs.get(event.job)
            dispatched_at = None if state is None else state.dispatched_at
            self.dispatched(event.job, event.at if dispatched_at is None else dispatched_at)

    def dispatched(self, job: str, at: float) -> None:
        """Learn the truth about a job's forecasts."""
        if (its := self._platform_of.pop(job, None)) is not None:
            for told in its.open.pop(job):
                its.dispatched(told, at)

    def keep(self, there: Callable[[str], bool]) -> None:
        """Forget the jobs that are not there any more: they were never dispatched."""
        for job in [job for job in self._platform_of if not there(job)]:
            self._platform_of.pop(job).open.pop(job)


def _careful(forecast: Sequence[float], found: Sequence[float]) -> tuple[float, ...]:
    """Return calibrated quantiles that narrow a forecast's interval half as far."""
    middle = len(found) // 2
    low = (min(b, (a + b) / 2) for a, b in zip(forecast[:middle], found, strict=False))
    high = (
        max(b, (a + b) / 2)
        for a, b in zip(forecast[middle + 1 :], found[middle + 1 :], strict=True)
    )
    return tuple(np.maximum.accumulate([*low, found[middle], *high]).tolist())


def _quantiles(known: Floats, bounds: Floats, levels: Floats) -> Floats:
    """Return quantiles of values, of which some are only known to be larger than a bound."""
    always = np.full(len(known), -np.inf), np.full(len(bounds), -np.inf)
    weights = survival(known, always[0], bounds, always[1]).weights
    order = known.argsort(kind="stable")
    places = np.searchsorted(weights[order].cumsum(), levels - 1e-9)
    largest = max(known.max(), bounds.max(initial=-np.inf))
    return np.append(known[order], largest)[places]
