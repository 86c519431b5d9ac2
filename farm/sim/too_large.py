"""Scenarios that are too large to simulate: refused before the run, with the key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from farm.core.errors import RunError, ScenarioError
from farm.scenario.distributions import Quantile
from farm.scenario.model import Scenario
from farm.scenario.people import Users
from farm.scenario.pools import Pool
from farm.scenario.times_of_week import WEEK_MINUTES
from farm.scenario.workload import Matrices, Releases, Source
from farm.units import format_roughly

#: builders and slots of a simulation, and jobs of one that holds them all
MOST = 100_000_000
#: jobs of a simulation that only holds those that are open: it then takes minutes
MOST_STREAMED = 1_000_000_000
#: plans of a pool's provisioner
MOST_PLANS = 10_000_000
#: builders of one instant, for each of those that ever existed together, plus a margin: beyond
#: that they come and go forever
LIVES_AT_ONCE, LIVES_ALLOWED = 10, 1000
#: quantiles that a mean is roughly taken from
QUANTILES = 20


def refuse_too_large(scenario: Scenario, held: str = "those that are looked at") -> None:
    """Raise ScenarioError if the scenario makes more than a simulation can hold, or never ends.

    ``held``: why all jobs are held; empty: only those that are open are.
    """
    horizon = scenario.ends_at
    for pool in scenario.pools:
        _check_pool(pool, horizon, scenario.time_of_week)
    most, allowed = MOST_STREAMED, f"{MOST_STREAMED:,}"
    if held:
        most, allowed = MOST, f"{MOST:,} where all jobs are held ({held}), else {MOST_STREAMED:,}"
    total = 0.0
    for index, source in enumerate(scenario.workload):
        jobs = _jobs_made(source, horizon)
        _check(jobs, "jobs", f"workload.{index}.{source.sort}", most, allowed)
        total += jobs
    _check(total, "jobs", "workload", most, allowed)
    _check_ephemeral(scenario.pools, total)


def _check_pool(pool: Pool, horizon: float, starts: float) -> None:
    where = f"pools.{pool.name}"
    lives = (pool.idle_timeout, pool.boot_time, pool.shutdown_time)
    if pool.builders is not None and lives == (0.0, 0.0, 0.0):
        raise ScenarioError(
            f"{where}.idle_timeout: found 0s for a pool of fixed size with boot_time 0s: its "
            "builders would be replaced forever at one instant; allowed: a longer one, or none"
        )
    rule = pool.provisioner
    initial = pool.builders or (rule.min_at_start(starts) if rule else 0)
    _check(initial * pool.slots, "slots", where)
    if rule is not None:
        plans = horizon / (rule.interval or 1.0)
        _check(plans, "plans", f"{where}.provisioner.interval", MOST_PLANS)


def _check_ephemeral(pools: Sequence[Pool], jobs: float) -> None:
    """Refuse too many builders that each take some jobs only: a run's records have them all."""
    most_uses = max((pool.uses or math.inf for pool in pools), default=math.inf)
    for pool in pools:
        if pool.uses == most_uses:
            _check(jobs / most_uses, "builders", f"pools.{pool.name}.uses")


def _check(found: float, what: str, where: str, most: int = MOST, allowed: str = "") -> None:
    if found > most:
        raise ScenarioError(
            f"{where}: found about {found:,.0f} {what} in the whole run; allowed in a simulation: "
            f"{allowed or f'{most:,}'} (shorten the run, for example with --set phases.run=1d)"
        )


def expected_jobs(scenario: Scenario) -> float:
    """Return about how many jobs arrive; infinite: a file has them, or the user's code."""
    made = [
        _jobs_made(source, scenario.ends_at) if isinstance(source.options, Releases) else math.inf
        for source in scenario.workload
    ]
    return sum(made)


def _jobs_made(source: Source, horizon: float) -> float:
    """Return about how many jobs a source makes; 0 for a trace, which is finite."""
    made = source.options
    if not isinstance(made, Releases):
        return 0.0
    end = horizon - made.start if made.duration is None else made.duration
    if made.users is not None:
        rate = _pushes_rate(made, made.users)
    else:
        rate = made.poisson.rate if made.poisson else 1.0 / made.every if made.every else math.inf
    share = sum(made.cycle) / len(made.cycle) if made.cycle else 1.0
    releases = min(max(end, 0.0) * rate * share if end else math.inf, made.count or math.inf)
    sizes = made.sizes if isinstance(made, Matrices) else {1: 1.0}
    return releases * sum(n * w for n, w in sizes.items()) / sum(sizes.values())


def _pushes_rate(made: Releases, users: Users) -> float:
    """Return about how often users push where no job waits."""
    kinds = made.service_time.quantiles_by_kind(list(made.kinds)).values()
    cycle = _mean(users.think_time.quantile_function()) + min(map(_mean, kinds), default=0.0)
    minutes = users.presence.minutes
    share = 1.0 if minutes is None else len(minutes) / WEEK_MINUTES
    return users.count * share / cycle if cycle else math.inf


def _mean(quantile: Quantile) -> float:
    """Return about the mean of a distribution."""
    return fmean(quantile((number + 0.5) / QUANTILES) for number in range(QUANTILES))


class LivesAtOneInstant:
    """Counts builders that come and go at one instant, to ensure that a run advances."""

    def __init__(self) -> None:
        self._now, self._gone, self._most = (-1.0, 0), 0, 0

    def gone(self, at: float, there: int, jobs: int) -> None:
        """Count a builder that has gone; RunError when there were too many at this instant.

        ``jobs``: those that have not ended. While they become fewer, the run advances.
        """
        if (at, jobs) != self._now:
            self._now, self._gone = (at, jobs), 0
        self._gone += 1
        self._most = max(self._most, there)
        if self._gone > LIVES_ALLOWED + LIVES_AT_ONCE * self._most:
            raise RunError(
                f"at {format_roughly(at)} {self._gone:,} builders went at one instant, and time "
                "does not advance: give the pool an idle_timeout or a boot_time above 0"
            )
