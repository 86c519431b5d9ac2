"""How many servers would have kept waits short: the recorded arrivals are served again."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from farm.columns import Floats
from farm.results.descriptive_statistics import quantile

LEVEL = 0.95
"""The quantile of the waits that is compared with the objective."""
MAX_SERVERS = 2**14
"""Servers beyond which none are tried: it is told where fewer are not enough."""
MAX_JOBS_OF_GUESS = 10_000
"""Jobs at whose arrivals a first guess looks at the work that is left."""
MIN_JOBS = 2
"""Jobs that may wait, from which a number of servers is proposed."""


def servers_needed(eligible_at: Floats, held: Floats, objective: float) -> int | None:
    """Return the servers with which the p95 wait is within the objective; None: too few jobs.

    To serve all jobs again takes time, the longer the more servers there are. So the search begins
    near the answer, and goes away from there in steps that double.

    Args:
        eligible_at: when each job could start, in the order in which they are served.
        held: how long each holds a server, seconds.
        objective: of the p95 wait, seconds.
    """
    if len(eligible_at) < MIN_JOBS:
        return None
    arrivals, times = eligible_at.tolist(), held.tolist()

    def meets(servers: int) -> bool:
        return _meets(servers, arrivals, times, objective)

    too_few, enough = 0, MAX_SERVERS
    guess = _first_guess(eligible_at, held, objective)
    step = 1
    if meets(guess):
        enough = guess
        while enough - step > too_few:
            if not meets(enough - step):
                too_few = enough - step
                break
            enough -= step
            step *= 2
    else:
        too_few = guess
        while too_few + step < enough:
            if meets(too_few + step):
                enough = too_few + step
                break
            too_few += step
            step *= 2
    return bisect_left(range(enough), x=True, lo=too_few + 1, key=meets)


def _first_guess(eligible_at: Floats, held: Floats, objective: float) -> int:
    """Return about how many servers are needed: as if each could work on any part of any job.

    What is left to do then shrinks at a constant rate, and a job waits until all that came before
    it is done.
    """
    every = 1 + len(held) // MAX_JOBS_OF_GUESS
    came_before = np.append(0.0, np.cumsum(held)[:-1])[::every]
    since_first = (eligible_at - eligible_at[0])[::every]

    def meets(servers: int) -> bool:
        ahead = came_before - servers * since_first
        left = ahead - np.minimum.accumulate(ahead)
        return quantile(left, LEVEL) <= objective * servers

    return bisect_left(range(MAX_SERVERS - 1), x=True, lo=1, key=meets)


def _meets(
    servers: int, arrivals: Sequence[float], times: Sequence[float], objective: float
) -> bool:
    """Return whether the p95 wait of jobs, served as they arrive, is within the objective."""
    rank = int(LEVEL * (len(arrivals) - 1))
    may_wait_longer = len(arrivals) - 1 - rank
    free_at = [-math.inf] * servers
    waits = []
    for arrived_at, held in zip(arrivals, times, strict=True):
        first_free_at = free_at[0]
        if first_free_at <= arrived_at:
            heapq.heapreplace(free_at, arrived_at + held)
            continue
        heapq.heapreplace(free_at, first_free_at + held)
        wait = first_free_at - arrived_at
        waits.append(wait)
        if wait > objective:
            may_wait_longer -= 1
            if may_wait_longer < 0:
                return False
    if may_wait_longer:  # then the value after that rank is within it, too
        return True
    at_once = np.zeros(len(arrivals) - len(waits))
    return quantile(np.concatenate([waits, at_once]), LEVEL) <= objective
