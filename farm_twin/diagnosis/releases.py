"""Jobs that other jobs release: they come when another one has ended.

On a larger farm such jobs come sooner, and the records do not say when. Which job released which is
in few records, so it is asked whether more jobs than by chance come

- right after some job's end;
- at one time after some job's end, as where a service starts the next stage;
- within two minutes after the end of another job of their own run, however long that takes.

Chance is what the same arrivals show when they are shifted, or held against other runs. Not seen
are releases after times that vary, in records that name no runs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from farm.columns import Array, Floats
from farm.records.attempt_columns import AttemptColumns

RELEASE_TIME: Final = 2.0
"""Seconds within which a job comes after the end of one that released it."""
LONGEST_DELAY: Final = 58
"""Seconds of a fixed delay between that end and the arrival, at most: at a minute the comparison
with other minutes would hide it."""
RELEASE_TIME_IN_RUN: Final = 120.0
"""Seconds within which a job comes after another one of its run."""
MIN_RUNS: Final = 20
"""Runs from which on others like a job's own show what chance does."""
NEIGHBOURS: Final = tuple(sign * count for count in range(1, 6) for sign in (-1, 1))
"""Runs before and after a job's own, by when they began, of which the one with whose ends most jobs
come shows what chance does."""
MINUTES: Final = np.array([60.0 * sign * count for count in range(1, 11) for sign in (-1, 1)])
"""Shifts of all arrivals (s): the one after which most follow an end shows what chance does. Whole
minutes, so that rounded instants do not look like releases."""
GAPS: Final = np.arange(1.0, 6.0)
"""Shifts of jobs at fixed intervals, in these: so they do not look like releases either."""
MAX_SPREAD_OF_INTERVALS: Final = 0.1
"""Standard deviation of the times between arrivals, as a share of their mean, up to which they are
fixed intervals."""
RELEASED_SHARE: Final = 0.2
"""Share of the jobs that came so, beyond chance, from which more builders would change arrivals.
(A twin plays needs that it has found from a smaller share on: ``RELEASED`` of ``closing.py``.)"""
MAX_ARRIVALS: Final = 5_000
"""Arrivals that are looked at: of more, evenly chosen ones."""


class Releases(NamedTuple):
    """How many jobs others seem to have released, and by which sign."""

    share: float
    #: when they came, for people
    when: str

    @property
    def matter(self) -> bool:
        """Whether a farm of another size would have other arrivals."""
        return self.share >= RELEASED_SHARE

    @property
    def text(self) -> str:
        """What was seen, for people."""
        return f"{self.share:.0%} of the jobs, more than by chance, came {self.when}"


def releases_in(attempts: AttemptColumns) -> Releases:
    """Return how many of the jobs were released by others, by the sign that shows most."""
    signs = [_after_any_end(attempts.arrived_at, attempts.finished_at)]
    runs = attempts.matrix
    if len(runs.values) >= MIN_RUNS:
        named = np.array([bool(name) for name in runs.values])[runs.codes]
        signs.append(
            _in_runs(attempts.arrived_at[named], attempts.finished_at[named], runs.codes[named])
        )
    return max(signs, key=lambda releases: releases.share)


def _after_any_end(arrived_at: Floats, finished_at: Floats) -> Releases:
    """Return the share of jobs that came at one time after some job's end."""
    arrivals, ends = _chosen(arrived_at), _ends(finished_at)
    delays = range(LONGEST_DELAY + 1)
    shares = [_share(arrivals - delay, ends, RELEASE_TIME) for delay in delays]
    # the shortest of those that show as much
    delay = int(np.argmax(np.round(shares, 2)))
    # chance at the same delay: instants that are rounded alike are so at all shifts
    shifts = np.concatenate([MINUTES, _fixed_intervals(arrived_at)]) - delay
    by_chance = max(_share(arrivals + shift, ends, RELEASE_TIME) for shift in shifts)
    when = f"within {RELEASE_TIME:g}s of another's end"
    if delay:
        when = f"{delay} to {delay + RELEASE_TIME:g}s after another's end"
    return Releases(_beyond_chance(shares[delay], by_chance), when)


def _in_runs(arrived_at: Floats, finished_at: Floats, run: Array) -> Releases:
    """Return the share of jobs that came soon after the end of another job of their run.

    By chance as many come so after an end of another run that began about then.
    """
    when = f"within {RELEASE_TIME_IN_RUN / 60:g}m of the end of another job of their run"
    if not len(arrived_at):
        return Releases(0.0, when)
    by_arrival = np.argsort(arrived_at, kind="stable")
    _, first_rows, run = np.unique(run[by_arrival], return_index=True, return_inverse=True)
    # runs are numbered as they began
    number = np.argsort(np.argsort(first_rows))[run]
    arrived_at, finished_at = arrived_at[by_arrival], finished_at[by_arrival]
    # instants of different runs are so far apart that none is near another's
    first = float(arrived_at[0])
    last = max(float(arrived_at[-1]), float(np.nanmax(finished_at, initial=first)))
    apart = last - first + 2.0 * RELEASE_TIME_IN_RUN
    ends = _ends(finished_at - first + apart * number)
    chosen = slice(None, None, 1 + len(arrived_at) // MAX_ARRIVALS)
    arrivals, number = (arrived_at - first)[chosen], number[chosen]

    def share_after_ends_of(neighbour: int) -> float:
        """Return it for the run that began this number of runs later."""
        return _share(arrivals + apart * (number + neighbour), ends, RELEASE_TIME_IN_RUN)

    by_chance = max(share_after_ends_of(neighbour) for neighbour in NEIGHBOURS)
    return Releases(_beyond_chance(share_after_ends_of(0), by_chance), when)


def _chosen(arrived_at: Floats) -> Floats:
    return np.sort(arrived_at)[:: 1 + len(arrived_at) // MAX_ARRIVALS]


def _ends(finished_at: Floats) -> Floats:
    return np.sort(finished_at[~np.isnan(finished_at)])


def _fixed_intervals(arrived_at: Floats) -> Floats:
    """Return multiples of the time between two arrivals, if that is always the same."""
    gaps = np.diff(np.sort(arrived_at))
    gaps = gaps[gaps > 0.0]
    if not len(gaps) or np.std(gaps) > MAX_SPREAD_OF_INTERVALS * np.mean(gaps):
        return np.empty(0)
    return GAPS * np.median(gaps)


def _share(at: Floats, ends: Floats, within: float) -> float:
    """Return the share of instants with an end at most so long (s) before them, or just then."""
    if not len(at):
        return 0.0
    ended = np.searchsorted(ends, at, side="right")
    return float(np.mean(ended > np.searchsorted(ends, at - within, side="left")))


def _beyond_chance(share: float, by_chance: float) -> float:
    if by_chance >= 1.0:
        return 0.0
    return max(0.0, (share - by_chance) / (1.0 - by_chance))
