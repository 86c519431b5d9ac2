"""What a few more builders would have done to a simulated run."""

from __future__ import annotations

from farm.app.runs.simulated_run import simulated_run
from farm.core.errors import FarmError
from farm.results.recorded_run import FinishedRun
from farm.results.summary.answer import FULL, MoreBuilders, is_short, shortage_of
from farm.scenario import Pool, Scenario

MOST_EVENTS = 10_000
"""A run of more events is not simulated again: it would be, some ten times."""


def more_builders(run: FinishedRun) -> MoreBuilders | None:
    """Return how many more builders at least halve the p95 wait; found by bisection.

    Of the only pool of fixed size that runs the jobs that waited most, and at most twice as many
    builders as it has. None: no such pool, no such number, or a run that is not repeated: a live
    one, a long one, or one that does not come out the same again (of your own jobs or functions).
    """
    summary = run.summary
    if summary.world != "simulated" or summary.events > MOST_EVENTS or not is_short(summary):
        return None
    try:
        scenario = run.scenario
        shortage = shortage_of(run.jobs, summary, scenario)
        if shortage is None or len(shortage.pools) != 1 or (shortage.full or 0.0) < FULL:
            return None
        pool, before = shortage.pools[0], summary.waiting_time.p95
        if before is None or _wait(scenario, pool, 0) != before:
            return None
        return _fewest(scenario, pool, before / 2)
    except FarmError:  # its trace is gone, its functions cannot be imported, …
        return None


def _fewest(scenario: Scenario, pool: Pool, limit: float) -> MoreBuilders | None:
    most, low, high = pool.builders or 0, 0, 1
    while (wait := _wait(scenario, pool, high)) is None or wait > limit:
        if high >= most:
            return None
        low, high = high, min(most, 2 * high)
    while high - low > 1:
        middle = (low + high) // 2
        tried = _wait(scenario, pool, middle)
        if tried is not None and tried <= limit:
            high, wait = middle, tried
        else:
            low = middle
    return MoreBuilders(pool.name, high, wait)


def _wait(scenario: Scenario, pool: Pool, more: int) -> float | None:
    """Return the p95 wait with that many more builders; no estimates are made, which takes time."""
    larger = pool.model_copy(update={"builders": (pool.builders or 0) + more})
    changes = {
        "pools": tuple(larger if one.name == pool.name else one for one in scenario.pools),
        "estimates": scenario.estimates.model_copy(update={"rules": None}),
    }
    return simulated_run(scenario.model_copy(update=changes)).kept.figures.waiting_time.p95
