"""What a few more builders would have done to a simulated run."""

from __future__ import annotations

from collections.abc import Callable

from farm.app.runs.simulated_run import simulated_run
from farm.core.errors import FarmError
from farm.results.recorded_run import FinishedRun
from farm.results.summary.answer import FULL, MoreBuilders, is_short, shortage_of
from farm.scenario import Pool, Scenario

MOST_EVENTS = 10_000
"""A run of more events is not simulated again: it would be, some ten times."""
HELPS = 0.9
"""Builders that leave more than this share of the wait are no help."""


def more_builders(
    run: FinishedRun, on_share: Callable[[float], object] = float
) -> MoreBuilders | None:
    """Return how many more builders at least halve the p95 wait; found by bisection.

    Of the only pool of fixed size that runs the jobs that wait longest, and of their wait. At most
    twice as many builders as it has: where these do not halve it, they are told if they help.
    None: no such pool, no help, or a run that is not repeated: a live one, a long one, or one that
    does not come out the same again (of your own jobs or functions). ``on_share`` is given how much
    of the simulating is done, 0 to 1.
    """
    summary = run.summary
    if summary.world != "simulated" or summary.events > MOST_EVENTS or not is_short(summary):
        return None
    try:
        scenario = run.scenario
        shortage = shortage_of(run.jobs, summary, scenario)
        if shortage is None or len(shortage.pools) != 1 or (shortage.full or 0.0) < FULL:
            return None
        pool, before = shortage.pools[0], shortage.wait

        tried = 0
        #: itself, doubling, and halving what lies between
        most = 2 * max(1, pool.builders or 0).bit_length() + 1

        def wait(more: int) -> float | None:
            nonlocal tried
            found = _wait(scenario, pool, shortage.platform, more)
            tried += 1
            on_share(min(1.0, tried / most))
            return found

        return None if before is None or wait(0) != before else _fewest(wait, pool, before)
    except FarmError:  # its trace is gone, its functions cannot be imported, …
        return None


def _fewest(
    wait_with: Callable[[int], float | None], pool: Pool, before: float
) -> MoreBuilders | None:
    most, low, high, limit = pool.builders or 0, 0, 1, before / 2
    while (wait := wait_with(high)) is None or wait > limit:
        if high >= most:
            helps = wait is not None and wait <= HELPS * before
            return MoreBuilders(pool.name, high, wait or 0.0) if helps else None
        low, high = high, min(most, 2 * high)
    while high - low > 1:
        middle = (low + high) // 2
        tried = wait_with(middle)
        if tried is not None and tried <= limit:
            high, wait = middle, tried
        else:
            low = middle
    return MoreBuilders(pool.name, high, wait)


def _wait(scenario: Scenario, pool: Pool, platform: str, more: int) -> float | None:
    """Return a platform's p95 wait with that many more builders; estimates would take long."""
    larger = pool.model_copy(update={"builders": (pool.builders or 0) + more})
    changes = {
        "pools": tuple(larger if one.name == pool.name else one for one in scenario.pools),
        "estimates": scenario.estimates.model_copy(update={"rules": None}),
    }
    parts = simulated_run(scenario.model_copy(update=changes)).kept.summary.platforms
    return parts[platform].waiting_time.p95 if platform in parts else None
