"""What would shorten the waits of a run: builders of which pool, or another policy, and how many.

Every remedy is simulated before it is named. Which jobs wait longest does not tell it: where one
pool has most of the jobs, two builders there may shorten the farm's p95 wait to a third, and two
for the jobs that wait longest by a minute. So each pool that is short is tried, with as many more
builders as halve the wait, and the policies that need none; what saves most time of waiting for
its cost comes first, and the rest is tried on top of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from farm.app.runs.simulated_run import simulated_run
from farm.core.errors import FarmError
from farm.results.recorded_run import FinishedRun
from farm.results.summary.answer import (
    FULL,
    Advice,
    Remedy,
    is_short,
    shortages_of,
)
from farm.results.summary.summary import Summary
from farm.scenario import Pool, Scenario

MAX_EVENTS: Final = 200_000
"""Events of all simulations of a search together: about what takes the run's own command again."""
MAX_SIMULATIONS: Final = 60
MIN_SIMULATIONS: Final = 4
"""A run is not searched where fewer simulations than these fit into ``MAX_EVENTS``."""
MAX_STEPS: Final = 2
"""Remedies that are named: each one on top of those before."""
HALF: Final = 0.5
HELPS: Final = 0.9
"""What leaves more than this share of the wait is no remedy."""
MAX_DEVIATION: Final = 0.2
"""A live run is searched if the simulated one waits as long as it did, up to this share."""
POLICIES: Final = ("fifo", "sjf-aging", "ljf-aging")
"""Policies under which no job waits forever; sjf is none of them."""

OnShare = Callable[[float], object]


def advice_for(run: FinishedRun, on_share: OnShare = float) -> Advice | None:
    """Return what would shorten the waits of a run; ``on_share`` is given the progress, 0 to 1.

    The advice has no remedies where the search would take longer than ``MAX_EVENTS`` allow: then a
    command finds them. None: nothing is short, no pool of a fixed size is, nothing helps, or the
    run cannot be simulated as it was (of jobs or functions of the caller's).
    """
    summary = run.summary
    if not summary.events or not is_short(summary):
        return None
    simulations = min(MAX_SIMULATIONS, MAX_EVENTS // summary.events)
    if simulations < MIN_SIMULATIONS:
        return Advice((), str(run.path / "scenario.yaml") if run.path else None)
    try:
        search = _Search(run.scenario, simulations, on_share)
        pools = _short_pools(run)
        if not pools or not _is_repeated(summary, search.base):
            return None
        return search.advice(pools)
    except _OutOfSimulationsError:
        return Advice((), str(run.path / "scenario.yaml") if run.path else None)
    except FarmError:  # its trace is gone, its functions cannot be imported, …
        return None


def _short_pools(run: FinishedRun) -> list[Pool]:
    """Return the pools of a fixed size whose slots are busy while jobs for them wait."""
    pools: dict[str, Pool] = {}
    for shortage in shortages_of(run.jobs, run.summary, run.scenario):
        is_busy = shortage.full is not None and shortage.full >= FULL
        if is_busy and len(shortage.pools) == 1:
            [pool] = shortage.pools
            pools[pool.name] = pool
    return list(pools.values())


def _is_repeated(summary: Summary, simulated: Summary) -> bool:
    """Return whether a simulation waits as the run did: else nothing follows for it."""
    wait = summary.waiting_time.p95
    simulated_wait = simulated.waiting_time.p95
    if wait is None or simulated_wait is None:
        return False
    if summary.world == "simulated":
        return wait == simulated_wait
    return abs(simulated_wait - wait) <= MAX_DEVIATION * wait


class _OutOfSimulationsError(Exception):
    """The search has used all simulations that it may."""


class _Trial(NamedTuple):
    """A change of the farm, and the farm with it."""

    scenario: Scenario
    summary: Summary
    #: the pool with more builders, and how many; a policy: no pool
    pool: str | None
    builders: int
    policy: str | None = None


class _Search:
    """Tries changes of a scenario, at most a number of them.

    Args:
        scenario: of the run.
        simulations: at most as many are made; then ``_OutOfSimulationsError`` is raised.
        on_share: given the share of them that were made.
    """

    def __init__(self, scenario: Scenario, simulations: int, on_share: OnShare) -> None:
        self._simulations = simulations
        self._made = 0
        self._on_share = on_share
        # estimates take long and change nothing
        estimates = scenario.estimates.model_copy(update={"rules": None})
        self._scenario = scenario.model_copy(update={"estimates": estimates})
        self.base = self._simulated(self._scenario)

    def advice(self, pools: list[Pool]) -> Advice | None:
        """Return the best change, and the best one on top of it; None if nothing helps."""
        scenario = self._scenario
        summary = self.base
        left = list(pools)
        remedies: list[Remedy] = []
        while len(remedies) < MAX_STEPS and is_short(summary):
            try:
                trials = [*self._trials_of_pools(left, scenario, summary)]
                if not remedies:
                    trials += self._trials_of_policies(scenario, summary)
            except _OutOfSimulationsError:
                if not remedies:
                    raise
                break
            if not trials:
                break
            before = summary
            best = max(trials, key=lambda trial: _saved_per_cost(before, trial))
            remedies.append(_remedy(before, best))
            scenario = best.scenario
            summary = best.summary
            left = [pool for pool in left if pool.name != best.pool]
        return Advice(tuple(remedies)) if remedies else None

    def _trials_of_pools(
        self, pools: list[Pool], scenario: Scenario, summary: Summary
    ) -> Iterator[_Trial]:
        """Yield for each pool the fewest more builders that halve the p95 wait, if it can be done.

        The farm's wait, or else that of the pool's own jobs; at most twice as many builders.
        """
        for pool in pools:
            most = max(1, pool.builders or 0)
            with_more = _WithMore(self, scenario, pool)
            trial = _fewest(with_more, most, None, HALF * _wait(summary))
            if trial is None:
                trial = _fewest(with_more, most, pool.name, HALF * _wait(summary, pool.name))
            if trial is None:
                trial = with_more(most)
            if _helps(summary, trial.summary, pool.name):
                yield trial

    def _trials_of_policies(self, scenario: Scenario, summary: Summary) -> Iterator[_Trial]:
        """Yield the policies that halve the farm's p95 wait, and make no other wait longer."""
        present = scenario.scheduling.policy
        if scenario.scheduling.fair_share or present not in (*POLICIES, "sjf", "ljf", "random"):
            return
        for policy in POLICIES:
            if policy == present:
                continue
            scheduling = scenario.scheduling.model_copy(update={"policy": policy})
            changed = scenario.model_copy(update={"scheduling": scheduling})
            result = self._simulated(changed)
            is_half = _wait(result) <= HALF * _wait(summary)
            if (
                is_half
                and _longest(result) <= _longest(summary)
                and _mean(result) <= _mean(summary)
            ):
                yield _Trial(changed, result, None, 0, policy)

    def with_builders(self, scenario: Scenario, pool: Pool, builders: int) -> _Trial:
        """Return the farm with as many more builders of a pool."""
        larger = pool.model_copy(update={"builders": (pool.builders or 0) + builders})
        pools = tuple(larger if other.name == pool.name else other for other in scenario.pools)
        changed = scenario.model_copy(update={"pools": pools})
        return _Trial(changed, self._simulated(changed), pool.name, builders)

    def _simulated(self, scenario: Scenario) -> Summary:
        if self._made == self._simulations:
            raise _OutOfSimulationsError
        self._made += 1
        self._on_share(self._made / self._simulations)
        return simulated_run(scenario).kept.summary


class _WithMore:
    """The farm with more builders of a pool, each number of them simulated once."""

    def __init__(self, search: _Search, scenario: Scenario, pool: Pool) -> None:
        self._search = search
        self._scenario = scenario
        self._pool = pool
        self._tried: dict[int, _Trial] = {}

    def __call__(self, builders: int) -> _Trial:
        """Return the farm with as many more builders; raises ``_OutOfSimulationsError``."""
        if builders not in self._tried:
            trial = self._search.with_builders(self._scenario, self._pool, builders)
            self._tried[builders] = trial
        return self._tried[builders]


def _fewest(
    with_more: Callable[[int], _Trial], most: int, pool: str | None, limit: float
) -> _Trial | None:
    """Return the trial with the fewest more builders that brings a wait down to the limit.

    By doubling, then bisection. None: ``most`` builders do not.
    """
    too_few = 0
    enough = 1
    while _wait(with_more(enough).summary, pool) > limit:
        if enough >= most:
            return None
        too_few = enough
        enough = min(most, 2 * enough)
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        if _wait(with_more(middle).summary, pool) <= limit:
            enough = middle
        else:
            too_few = middle
    return with_more(enough)


def _wait(summary: Summary, pool: str | None = None) -> float:
    """Return the p95 wait of the farm or of a pool's jobs (s); 0 if none started."""
    spread = summary.waiting_time if pool is None else summary.pools[pool].waiting_time
    return spread.p95 or 0.0


def _mean(summary: Summary) -> float:
    return summary.waiting_time.mean or 0.0


def _longest(summary: Summary) -> float:
    return summary.waiting_time.max or 0.0


def _helps(before: Summary, after: Summary, pool: str) -> bool:
    """Return whether a change shortens the p95 wait of the farm or of the pool's jobs."""
    return any(_wait(after, name) <= HELPS * _wait(before, name) for name in (None, pool))


def _saved_per_cost(before: Summary, trial: _Trial) -> float:
    """Return the mean time of waiting that a change saves (s), for what it costs more.

    Another policy costs nothing, even if the last job ends later by it.
    """
    after = trial.summary
    saved = _mean(before) - _mean(after)
    more_cost = 0.0 if trial.pool is None else after.cost - before.cost
    if more_cost <= 0.0:
        return float("inf") if saved > 0.0 else saved
    return saved / more_cost


def _remedy(before: Summary, trial: _Trial) -> Remedy:
    return Remedy(
        pool=trial.pool,
        builders=trial.builders,
        policy=trial.policy,
        wait_before=_wait(before),
        wait=_wait(trial.summary),
        builder_time=trial.summary.builder_time - before.builder_time,
    )
