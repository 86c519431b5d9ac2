"""Jobs that other jobs release: they come when another one ends."""

from __future__ import annotations

from typing import Final

import numpy as np

from farm.columns import Floats

RELEASE_TIME: Final = 2.0
"""Seconds within which a job comes after the end of one that released it."""
OTHER_TIMES: Final = tuple(60.0 * sign * minutes for minutes in range(1, 11) for sign in (-1, 1))
"""Shifts of all arrivals (s): the one after which most follow an end shows what chance does."""
RELEASED_SHARE: Final = 0.2
"""Share of the jobs that came so, beyond chance, from which more builders would change arrivals."""
MAX_ARRIVALS: Final = 20_000
"""Arrivals that are looked at: of more, evenly chosen ones."""


def released_share(arrived_at: Floats, finished_at: Floats) -> float:
    """Return the share of the jobs that came right after another's end, less what chance explains.

    Chance is what the same arrivals show at most some whole minutes earlier or later, so that
    neither rounded instants nor jobs at fixed intervals look like releases.

    Args:
        arrived_at: when each job could start, seconds.
        finished_at: when each ended; nan: it did not.
    """
    arrivals = np.sort(arrived_at)[:: 1 + len(arrived_at) // MAX_ARRIVALS]
    ends = np.sort(finished_at[~np.isnan(finished_at)])
    if not len(ends) or not len(arrivals):
        return 0.0

    def share_after_an_end(shift: float) -> float:
        at = arrivals + shift
        # an end at the very instant counts
        ended = np.searchsorted(ends, at, side="right")
        return float(np.mean(ended > np.searchsorted(ends, at - RELEASE_TIME, side="left")))

    by_chance = max(share_after_an_end(shift) for shift in OTHER_TIMES)
    if by_chance >= 1.0:
        return 0.0
    return max(0.0, float((share_after_an_end(0.0) - by_chance) / (1.0 - by_chance)))
