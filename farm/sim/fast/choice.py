"""Whether the fast lane plays: it covers the scenario, and it is wanted or worth it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from farm.assembly import pool_specs
from farm.core.model import Job
from farm.core.pools.algorithm import Algorithm
from farm.core.scheduler import Scheduler
from farm.scenario import Scenario
from farm.sim.fast.coverage import is_worth_it, why_not, why_not_these

if TYPE_CHECKING:
    from farm.sim.fast.play import Played


Batches = Iterator[tuple[float, tuple[Job, ...]]]

MOST_JOBS = 3_000_000
"""Jobs held in memory at a time unless the fast engine is asked for: a load may have no end."""


class Try(msgspec.Struct):
    """What came of it: the play, or why there is none (empty: it is not worth it)."""

    #: the load that is left to be played
    load: Batches
    played: Played | None = None
    why: str = ""


def try_fast(
    scenario: Scenario,
    scheduler: Scheduler,
    load: Batches,
    algorithms: Mapping[str, Algorithm[Any]],
    *,
    forced: bool = False,
    noted: bool = False,
    runs: int = 1,
) -> Try:
    """Play a scenario's load by the compiled loop, if it can be and if that is worth it.

    Args:
        scenario: whose pools and phases are played.
        scheduler: whose rules and estimator are taken; it is not told of anything.
        load: (instant, jobs submitted together), by instant; it is only looked at as far as needed.
        algorithms: who sizes each provisioned pool.
        forced: play it though it is not worth it.
        noted: its story will be asked for.
        runs: how many runs of about this size share what the loading costs.
    """
    specs = pool_specs(scenario)
    if why := why_not(scheduler.rules, scheduler.estimator, specs, algorithms):
        return Try(load, why=why)
    batches = list(load if forced else _first(load, MOST_JOBS))
    jobs = list(chain.from_iterable(together for _, together in batches))
    whole = forced or len(jobs) < MOST_JOBS
    left = chain(batches, load)
    if not (forced or (whole and is_worth_it(len(jobs) * runs))):
        return Try(left)
    if why := why_not_these(scheduler.rules, jobs, specs):
        return Try(left, why=why)

    from farm.sim.fast.load import load_of  # noqa: PLC0415 - Numba, for those who need it
    from farm.sim.fast.play import play  # noqa: PLC0415 - likewise

    rules = scheduler.rules
    columns = load_of(rules.policy, scheduler.estimator, batches)
    ends_at = scenario.phases.ends_at if scenario.phases is not None else 0.0
    played = play(columns, specs, rules, algorithms, ends_at=ends_at, noted=noted)
    return Try(left, played, "" if played else "jobs that have to be given up")


def _first(load: Batches, count: int) -> Batches:
    """Yield batches until there are so many jobs."""
    for batch in load:
        yield batch
        count -= len(batch[1])
        if count <= 0:
            return
