"""The number of runners where it was changed by hand, or goes by the hour of the day or week.

While jobs wait all that are there are busy: so an hour's number is that of the busy ones for most
of the time in which jobs waited. Where two numbers, before an instant and after it, or one for each
hour of the day (and of the weekend) explain these, nothing follows the queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from operator import itemgetter

import msgspec
import numpy as np
import numpy.typing as npt

from farm.columns import Floats
from farm.records.attempt import grouped
from farm.records.foreign_columns import CALENDAR
from farm.scenario.times_of_week import format_time_of_week
from farm_twin.diagnosis.occupancy import counts_at

Places = npt.NDArray[np.intp]

HOUR = 3600.0
MONDAY = 3 * 24 * HOUR
"""From a Monday to 1970-01-01, seconds."""
WEEK = 7 * 24 * HOUR
WAITED = 300.0
"""Seconds of waiting in an hour from which its number is known."""
CONSTANT = 0.02
"""Share of the waiting time in hours of another number, up to which there is one for all."""
EXPLAINED = 0.1
"""Share of the waiting time in hours of another number, at most."""
BETTER = 0.5
"""Share of that with one number for all, at most."""
DAYS = 1.5
"""Times that an hour of the day was seen, on average, from which it is a timetable."""


class _Hours(msgspec.Struct, frozen=True):
    """Hours in which jobs waited: by the clock (seconds), busy runners, and for how long."""

    at: Floats
    number: Floats
    waited: Floats

    def amiss(self, number: Floats) -> float:
        """Return the share of the waiting time in which another number was there."""
        return float(self.waited[self.number != number].sum() / self.waited.sum())

    def usual(self, some: Places) -> float:
        """Return the median number of some hours, by time."""
        order = np.argsort(self.number[some], kind="stable")
        sums = np.cumsum(self.waited[some][order])
        return float(self.number[some][order][np.searchsorted(sums, sums[-1] / 2)])


def start_of(begins: float, ahead: float) -> str:
    """Return a scenario's key ``starts`` for an instant of a clock ``ahead`` of UTC (s).

    Records of a time of their own, which begin in 1970, have no date.
    """
    at = begins + ahead
    return format_time_of_week(at + MONDAY - WEEK if at >= CALENDAR else seconds_of_week(at))


def seconds_of_week(at: float) -> float:
    """Return the seconds since Monday 00:00 of an instant (seconds since 1970 on any clock)."""
    return (at + MONDAY) % WEEK


def changes_of_number(spans: Floats, slots: int) -> Mapping[str, object] | None:
    """Return the options of a provisioner by hand, or None where one number explains the records.

    ``spans``: when jobs could start, did, and ended, seconds since 1970 on the clock that the hours
    are of; ``start`` of the options counts from the first arrival.
    """
    eligible, started, ended = spans
    at = np.unique(spans)
    waiting, busy = counts_at(at, eligible, started), counts_at(at, started, ended)
    hours = _hours(at, waiting, -(-busy // slots))
    if not len(hours.at):
        return None
    most = hours.amiss(np.full(len(hours.at), hours.usual(np.arange(len(hours.at)))))
    if most <= CONSTANT:
        return None
    enough = min(EXPLAINED, BETTER * most)
    return _change(hours, at, busy, slots, float(eligible.min()), enough) or _timetable(
        hours, enough
    )


def _hours(at: Floats, waiting: Floats, runners: Floats) -> _Hours:
    edges = np.arange(at[0] // HOUR * HOUR, at[-1], HOUR)
    cut = np.unique(np.concatenate([at, edges]))
    place = np.clip(np.searchsorted(at, cut, side="right") - 1, 0, None)
    lasts = np.append(np.diff(cut), 0.0) * (waiting[place] > 0) * (cut >= at[0])
    of: dict[float, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    some = lasts > 0
    columns = cut[some] // HOUR * HOUR, runners[place][some], lasts[some]
    for hour, number, last in np.transpose(columns).tolist():
        of[hour][number] += last
    found = [
        (hour, max(numbers.items(), key=itemgetter(1))[0], sum(numbers.values()))
        for hour, numbers in sorted(of.items())
        if sum(numbers.values()) >= WAITED
    ]
    return _Hours(*(np.array(found).T if found else np.empty((3, 0))))


def _change(
    hours: _Hours, at: Floats, busy: Floats, slots: int, begins: float, enough: float
) -> Mapping[str, object] | None:
    best: tuple[float, float, float, float] | None = None
    places = np.arange(len(hours.at))
    for split in range(1, len(places)):
        first, then = hours.usual(places[:split]), hours.usual(places[split:])
        amiss = hours.amiss(np.where(places < split, first, then))
        if first != then and (best is None or amiss < best[0]):
            best = amiss, first, then, float(hours.at[split])
    if best is None or best[0] > enough:
        return None
    _, first, then, changed_at = best
    # the more of them show in the first, or the last, instant at which more were busy
    more = at[(busy > min(first, then) * slots) & (abs(at - changed_at) <= 2 * HOUR)]
    if len(more):
        changed_at = float(more[0] if then > first else more[-1])
    if not first and changed_at - begins < HOUR:
        return None  # the first runners of a farm that had none yet
    change = {"start": round(changed_at - begins), "capacity": int(then)}
    return {"capacity": int(first), "max": int(max(first, then)), "by_time": [change]}


def _timetable(hours: _Hours, enough: float) -> Mapping[str, object] | None:
    week = (hours.at + MONDAY) % WEEK // HOUR
    of_day = week % 24
    at_weekend = week >= 5 * 24
    if len(hours.at) < DAYS * len(set(of_day.tolist())):
        return None
    everyday = _by(hours, of_day, lambda place: of_day[place])
    apart = _by(hours, of_day, lambda place: (of_day[place], at_weekend[place]))
    if hours.amiss(everyday) <= enough:
        table = _table(of_day, everyday)
        return {"capacity": table, "max": max(table.values())}
    if hours.amiss(apart) > enough or at_weekend.all() or not at_weekend.any():
        return None
    table = _table(of_day[~at_weekend], apart[~at_weekend])
    free = _table(of_day[at_weekend], apart[at_weekend])
    return {
        "capacity": table,
        "max": max(*table.values(), *free.values()),
        "by_time": [{"when": "sat-sun", "capacity": free}],
    }


def _by(hours: _Hours, of_day: Floats, key: Callable[[int], Hashable]) -> Floats:
    """Return the usual number of the hours that are alike, for each hour."""
    alike = grouped(range(len(of_day)), key)
    usual = {name: hours.usual(np.array(places)) for name, places in alike.items()}
    return np.array([usual[key(place)] for place in range(len(of_day))])


def _table(of_day: Floats, number: Floats) -> dict[int, int]:
    """Return the number from each hour at which it changes."""
    known = sorted({int(hour): int(one) for hour, one in zip(of_day, number, strict=True)}.items())
    table: dict[int, int] = {}
    before = known[-1][1]
    for hour, one in known:
        if one != before or not table:
            table[hour] = one
        before = one
    if len(table) > 1 and table[known[0][0]] == known[-1][1]:
        del table[known[0][0]]
    return table
