"""Whether the fast lane plays: it covers the scenario, and it is wanted or worth it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from farm.assembly import pool_specs
from farm.core.model import Job
from farm.core.scheduler import Scheduler
from farm.scenario import Scenario
from farm.sim.fast.coverage import is_worth_it, why_not, why_not_these

if TYPE_CHECKING:
    from farm.sim.fast.play import Played


class Try(msgspec.Struct):
    """What came of it: the play, or why there is none (empty: it is not worth it)."""

    played: Played | None = None
    why: str = ""


def try_fast(
    scenario: Scenario,
    scheduler: Scheduler,
    batches: Sequence[tuple[float, tuple[Job, ...]]],
    *,
    forced: bool = False,
    noted: bool = False,
    runs: int = 1,
) -> Try:
    """Play a scenario's load by the compiled loop, if it can be and if that is worth it.

    Args:
        scenario: whose pools and phases are played.
        scheduler: whose rules and estimator are taken; it is not told of anything.
        batches: (instant, jobs submitted together).
        forced: play it though it is not worth it.
        noted: its story will be asked for.
        runs: how many runs of about this size share what the loading costs.
    """
    specs = pool_specs(scenario)
    if why := why_not(scheduler.rules, scheduler.estimator, specs):
        return Try(why=why)
    count = sum(len(together) for _, together in batches)
    if not (forced or is_worth_it(count * runs)):
        return Try()
    jobs = list(chain.from_iterable(together for _, together in batches))
    if why := why_not_these(scheduler.rules, jobs):
        return Try(why=why)

    from farm.sim.fast.load import load_of  # noqa: PLC0415 - Numba, for those who need it
    from farm.sim.fast.play import play  # noqa: PLC0415 - likewise

    rules = scheduler.rules
    load = load_of(rules.policy, scheduler.estimator, batches)
    ends_at = scenario.phases.ends_at if scenario.phases is not None else 0.0
    played = play(load, specs, rules.ranking, ends_at=ends_at, noted=noted)
    return Try(played, "" if played else "jobs that have to be given up")
