"""How long attempts waited: also those that never started, and at which hour it was worst."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from functools import cached_property

import numpy as np

from farm.columns import Floats
from farm.forecasts.runtime.survival import survival
from farm.records.attempt_columns import AttemptColumns
from farm.records.foreign_columns import CALENDAR
from farm.results.descriptive_statistics import quantile

MIN_JOBS_OF_HOUR = 5
"""Known waits of an hour of the week, from which its p95 is a figure."""
MIN_SHARE_OF_BUSIEST = 10
"""An hour also needs this part of the known waits of the busiest one: a tenth."""
HOUR = 3600.0
HOURS_OF_WEEK = 168
ROUNDING_OF_SHARES = 1e-12
"""By how much a sum of shares may be off."""
ROUNDING = 0.5e-6
"""A clock shows microseconds: an instant that is less than half of one before an hour is in it."""


class Waits:
    """Waits of attempts, seconds: those that ended with a start, and those broken off before."""

    def __init__(self, ended: Floats, broken_off: Floats, unknown: int = 0) -> None:
        self.ended = ended
        self.broken_off = broken_off
        #: waits that are not known
        self.unknown = unknown

    @classmethod
    def of(cls, attempts: AttemptColumns, ends: float) -> Waits:
        """Return the waits of attempts; ``ends``: until when one without an end waits."""
        is_known = ~np.isnan(attempts.eligible_at)
        has_started = ~np.isnan(attempts.started_at)

        was_broken_off = is_known & ~has_started
        finished_at = attempts.finished_at[was_broken_off]
        until = np.where(np.isnan(finished_at), ends, finished_at)
        return cls(
            ended=attempts.waited[is_known & has_started],
            broken_off=until - attempts.eligible_at[was_broken_off],
            unknown=len(is_known) - int(is_known.sum()),
        )

    def quantile(self, p: float) -> float | None:
        """Return the p-quantile; None: too many were broken off to tell.

        Waits that were broken off are only known to be longer (``survival``). Without any it is
        the quantile of all other figures (type 7).
        """
        if not len(self.ended):
            return None
        if not len(self.broken_off):
            return quantile(self.ended, p)
        waits, started = self._curve
        passed = np.flatnonzero(started >= p - ROUNDING_OF_SHARES)
        return float(waits[passed[0]]) if len(passed) else None

    @cached_property
    def _curve(self) -> tuple[Floats, Floats]:
        """The waits in order, and the share of all that had started after each."""
        order = self.ended.argsort(kind="stable")
        # all were seen from their beginning on
        entered, unfinished_entered = (
            np.full(len(waits), -np.inf) for waits in (self.ended, self.broken_off)
        )
        curve = survival(self.ended, entered, self.broken_off, unfinished_entered)
        return self.ended[order], curve.weights[order].cumsum()


def worst_hour(attempts: AttemptColumns, zone: tzinfo | None) -> tuple[str, float | None]:
    """Return the hour of the week with the longest p95 wait, of those with some jobs."""
    waited = attempts.waited
    is_known = ~np.isnan(waited)
    waits_by_hour = list(_by_hour(attempts.eligible_at[is_known], waited[is_known], zone))
    busiest = max((len(waits) for _, waits in waits_by_hour), default=0)
    enough = max(MIN_JOBS_OF_HOUR, busiest // MIN_SHARE_OF_BUSIEST)
    worst = max(
        ((quantile(waits, 0.95), hour) for hour, waits in waits_by_hour if len(waits) >= enough),
        default=None,
    )
    if worst is None:
        return "", None
    wait, hour = worst
    return hour, wait


def _by_hour(at: Floats, waits: Floats, zone: tzinfo | None) -> Iterator[tuple[str, Floats]]:
    """Yield the name of each hour of the week, or of a trace's own time, and the waits in it."""
    is_dated = at >= CALENDAR
    own_hours = np.floor_divide(at[~is_dated], HOUR)
    for hour, own_waits in _grouped(own_hours, waits[~is_dated]):
        yield f"hour {hour:.0f}", own_waits
    hours = _local_hours(at[is_dated], zone or UTC) % HOURS_OF_WEEK
    for hour, dated_waits in _grouped(hours, waits[is_dated]):
        yield datetime.fromtimestamp(hour * HOUR, UTC).strftime("%a %H h"), dated_waits


def _local_hours(at: Floats, zone: tzinfo) -> Floats:
    """Return the hour of a zone's clock in which each instant lies, counted from 1970.

    The zone is asked for each hour of UTC, and for each instant only in the few hours in which its
    clock was changed: that takes a thousandth of asking for all.
    """
    seconds = np.floor(at + ROUNDING)
    hours, places = np.unique(np.floor_divide(seconds, HOUR), return_inverse=True)
    first, last = (
        np.array([_ahead(second, zone) for second in (HOUR * hours + within).tolist()])
        for within in (0.0, HOUR - 1.0)
    )
    ahead = first[places]
    for row in np.flatnonzero((first != last)[places]).tolist():
        ahead[row] = _ahead(float(seconds[row]), zone)
    local: Floats = np.floor_divide(seconds + ahead, HOUR)
    return local


def _ahead(at: float, zone: tzinfo) -> float:
    """Return how far a zone's clock is ahead of UTC at an instant, seconds."""
    offset = datetime.fromtimestamp(at, zone).utcoffset()
    return 0.0 if offset is None else offset.total_seconds()


def _grouped(keys: Floats, values: Floats) -> Iterator[tuple[float, Floats]]:
    """Yield each key, ascending, and the values that have it."""
    if not len(keys):
        return
    order = np.argsort(keys, kind="stable")
    distinct, firsts = np.unique(keys[order], return_index=True)
    yield from zip(distinct.tolist(), np.split(values[order], firsts[1:]), strict=True)
