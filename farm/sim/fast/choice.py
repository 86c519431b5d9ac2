"""Whether to use the compiled engine: it must cover the scenario, and be wanted or worthwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import msgspec

from farm.assembly import pool_specs
from farm.core.model import Job
from farm.core.pools.algorithm import Algorithm
from farm.core.scheduler import Scheduler
from farm.scenario import Scenario
from farm.sim.fast.coverage import is_worth_it, why_not, why_not_these
from farm.workload.alike import AlikeJobs

if TYPE_CHECKING:
    from farm.sim.fast.play import Played


Jobs = Sequence[Job] | AlikeJobs

MOST_JOBS = 3_000_000
"""Jobs held in memory at a time unless the fast engine is asked for: a load may have no end."""


class Try(msgspec.Struct):
    """The outcome: the run, or why there is none (empty: it is not worthwhile)."""

    #: the load that is left to simulate
    load: Iterable[Job]
    played: Played | None = None
    why: str = ""


def try_fast(
    scenario: Scenario,
    scheduler: Scheduler,
    load: Iterable[Job],
    algorithms: Mapping[str, Algorithm[Any]],
    *,
    forced: bool = False,
    noted: bool = False,
    runs: int = 1,
) -> Try:
    """Simulate a scenario's load by the compiled loop, if possible and worthwhile.

    Args:
        scenario: provides pools and phases.
        scheduler: provides rules and estimator; it receives no events.
        load: the jobs by arrival; they are only read as far as needed.
        algorithms: those of the provisioned pools.
        forced: also if it is not worthwhile.
        noted: its events will be needed.
        runs: the number of runs of about this size that share the cost of loading.
    """
    specs, rules = pool_specs(scenario), scheduler.rules
    if why := why_not(rules, scheduler.estimator, specs, algorithms):
        return Try(load, why=why)
    jobs, left, whole = _held(load, None if forced else MOST_JOBS)
    if not (forced or (whole and is_worth_it(len(jobs) * runs, specs))):
        return Try(left)
    if why := why_not_these(rules, jobs, specs):
        return Try(left, why=why)

    from farm.sim.fast.load import load_of  # noqa: PLC0415 - Numba, for those who need it
    from farm.sim.fast.play import play  # noqa: PLC0415 - likewise

    columns = load_of(rules.policy, scheduler.estimator, jobs)
    ends_at = scenario.ends_at
    played = play(columns, specs, rules, algorithms, ends_at=ends_at, noted=noted)
    return Try(left, played, "" if played else "jobs that have to be given up")


def _held(load: Iterable[Job], most: int | None) -> tuple[Jobs, Iterable[Job], bool]:
    """Return the first jobs, held; all jobs; and whether those are the same."""
    if isinstance(load, AlikeJobs):
        whole = load.hold(most)
        return load, load, whole
    jobs = iter(load)
    held = list(islice(jobs, most))
    return held, chain(held, jobs), most is None or len(held) < most
