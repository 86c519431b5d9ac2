"""When runners came and went, as jobs that waited show: at which instants, and after how long idle.

A runner whose first job waited had just come. So where all came at one instant of a period, that is
the period of the plans, and only the boot time lies between the two. After
a first job had to wait, one comes a boot time after the next plan. A runner that ran another job
after a time without work outlived it; one that never came back was gone when a later job waited.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from farm.columns import Floats
from farm.records.attempt import Attempt

PERIODS = (5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0)
"""Seconds between two plans that are looked for."""
ENOUGH = 10
"""Runners that came for waiting jobs, from which a period shows."""
TOGETHER, AS_CLEAR = 0.75, 0.95
"""Mean resultant length of their instants in a period, from which they came together (Mardia and
Jupp, "Directional Statistics", 2000), and the share of the best one's of a longer period."""
MANY, ANY = 20, 3.0
"""Runners, and their number times the length squared, up to which they came at any instant."""
CLOCKS = 2.0
"""Seconds by which records may be off without meaning it."""
TAIL, BEYOND = 10, 4.0
"""Times without work that were outlived, and how many times their mean distance the time-out is
longer than the longest, at most (one of 50 is more, of times that are evenly spread there)."""
FALSE = 0.05
"""Share of runners that may have gone for another reason than for want of work."""


class Rhythm(msgspec.Struct, frozen=True):
    """Runners came at these instants only: ``at`` + n * ``period``, seconds from the first job."""

    #: 0: they came at any instant
    period: float
    at: float
    #: runners that show it
    runners: int


class IdleTimes(msgspec.Struct, frozen=True):
    """What the records show of how long runners stay without work, seconds."""

    #: the longest that were outlived, longest first, with how many others there, at least
    outlived: tuple[tuple[float, int], ...] = ()
    #: the shortest after which one was gone; infinite: none was, when a job came
    gone: float = math.inf

    def bounds(self, kept: int, *, leaves: bool = True) -> tuple[float, float]:
        """Return between what the idle time-out lies, if this number of runners never leaves.

        ``leaves``: nothing else stops runners. The upper one is infinite where
        no runner went, or they go for other reasons, too.
        """
        longest, most = self.likely(kept)
        if not leaves or self.gone == math.inf:
            return longest, math.inf
        return longest, min(most, self.gone) if self.gone > longest else most

    def likely(self, kept: int) -> tuple[float, float]:
        """Return the longest that was outlived, and up to what more of them would have shown.

        A longer time-out has longer ones. The latter is infinite where there are too few.
        """
        times = [time for time, others in self.outlived if others >= kept][:TAIL]
        longest = max(times, default=0.0)
        if len(times) < TAIL:
            return longest, math.inf
        return longest, longest + BEYOND * (longest - times[-1]) / (TAIL - 1)


def comings(
    by_runner: Mapping[str, Sequence[Attempt]], begins: float, pickup: float, until: float
) -> Floats:
    """Return when runners came before ``until`` for jobs that waited, ascending; from ``begins``.

    Attempts are by start, ``begins`` is the first arrival.
    """
    firsts = (some[0] for some in by_runner.values())
    found = [
        (one.started_at or 0.0) - pickup - begins
        for one in firsts
        if (one.waited or 0.0) > pickup + CLOCKS / 2 and (one.started_at or 0.0) < until
    ]
    return np.sort(found)


def rhythm_of(came: Floats) -> Rhythm | None:
    """Return the rhythm in which runners came; None: it is not seen."""
    if len(came) < ENOUGH:
        return None
    means = {period: complex(np.exp(2j * np.pi * came / period).mean()) for period in PERIODS}
    clearest = max(map(abs, means.values()))
    if clearest < TOGETHER:
        never = len(came) >= MANY and len(came) * clearest**2 <= ANY
        return Rhythm(0.0, 0.0, len(came)) if never else None
    period = max(one for one, mean in means.items() if abs(mean) >= AS_CLEAR * clearest)
    at = float(np.angle(means[period])) / (2 * math.pi) * period % period
    return Rhythm(period, at, len(came))


def provisioning_delays_of(arrived: Floats, waited: Floats, came: Floats, least: float) -> Floats:
    """Return how long after a first job had to wait the next runner came, ascending (s).

    ``least``: up to which jobs wait in any case. By arrival; only of queues that lasted until then.
    """
    long = waited > least + CLOCKS
    begins, ends = arrived[long], np.maximum.accumulate((arrived + waited)[long])
    first = begins > np.append(-np.inf, ends[:-1])
    begins, ends = begins[first], ends[np.append(first[1:], True)[: len(ends)]]
    next_one = np.append(came, np.inf)[np.searchsorted(came, begins)]
    return np.sort((next_one - begins)[next_one <= ends])


def idle_times_of(
    by_runner: Mapping[str, Sequence[Attempt]], late: Floats, begins: float, between: float
) -> IdleTimes:
    """Return what a pool's records show of it.

    Attempts are by start; ``late``: when jobs arrived that found no runner idle, ascending, from
    ``begins`` on; ``between``: what a runner takes from a job to the next in any case.
    """
    lives = np.array([(some[0].started_at, max(map(end_of, some))) for some in by_runner.values()])
    gaps = [gap for some in by_runner.values() for gap in _gaps(some)]
    comings, goings = np.sort(lives[:, 0]), np.sort(lives[:, 1])
    gaps.sort(key=lambda gap: gap[0] - gap[1])
    outlived = []
    for free_at, taken_at in gaps[: TAIL * len(lives)]:
        # each that went in that time was one fewer, at some instant
        went = np.searchsorted(goings, taken_at)
        there = int(np.searchsorted(comings, free_at, side="right") - went) - 1
        outlived.append((max(0.0, taken_at - free_at - between), max(0, there)))
    gone = []
    for some in by_runner.values():
        last = max(map(end_of, some)) - begins
        place = int(np.searchsorted(late, last + CLOCKS))
        if place < len(late) and some[-1].result != "lost":
            gone.append(float(late[place]) - last)
    gone.sort()
    return IdleTimes(tuple(outlived), gone[int(FALSE * len(gone))] if gone else math.inf)


def _gaps(attempts: Sequence[Attempt]) -> list[tuple[float, float]]:
    """Return the times in which a runner had nothing to do, before another job."""
    found, until = [], end_of(attempts[0])
    for one in attempts:
        start = one.started_at or 0.0
        if start > until:
            found.append((until, start))
        until = max(until, end_of(one))
    return found


def end_of(one: Attempt) -> float:
    """Return when it ended."""
    return one.finished_at or 0.0
