"""Estimates by rollouts: at a submission the farm is forked and simulated forward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from farm.core.pools.algorithm import AnyAlgorithm
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import snapshot_of
from farm.core.state.working_state import JobState
from farm.forecasts.dispatch.at_submission import Forecast, Steps
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.sim.rollouts.rollout import Fork, rollouts
from farm.sim.rollouts.wait_quantiles import Rollouts

LEVELS = tuple(number / 10 for number in range(1, 10))
"""The quantiles of an estimate."""


class RolloutForecaster:
    """Simulates ``count`` continuations of the farm for each submission."""

    rules = "rollout"
    in_steps = False

    def __init__(
        self,
        pools: Sequence[PoolSpec],
        rules: SchedulingRules,
        run_times: RuntimeDistribution,
        name: str,
        *,
        algorithms: Mapping[str, AnyAlgorithm],
        seed: int,
        count: int = 50,
        truthful: bool = False,
    ) -> None:
        self.run_times = name
        self._pools, self._rules, self._seed = tuple(pools), rules, seed
        self._distribution = run_times
        self._algorithms = algorithms
        self._count = count
        self._truthful = truthful

    def prepare(self, scheduler: Scheduler, jobs: Sequence[JobState], at: float) -> Steps:  # noqa: ARG002 - interface
        """Do nothing: each submission has its own rollouts."""
        return iter(())

    def forecast(self, scheduler: Scheduler, jobs: Sequence[JobState], at: float) -> list[Forecast]:
        """Return an estimate for each of these waiting jobs, in order."""
        fork = Fork(
            snapshot=snapshot_of(scheduler, at),
            pools=self._pools,
            rules=self._rules,
            run_times=self._distribution,
            algorithms=self._algorithms,
            truthful=self._truthful,
        )
        names = [state.job.id for state in jobs]
        # a deterministic rollout is like any other
        count = 1 if self._truthful else self._count
        found = rollouts(lambda: fork, count=count, seed=self._seed, jobs=names, processes=1)
        return forecasts_of(found)


def forecasts_of(found: Rollouts) -> list[Forecast]:
    """Return the estimates of the jobs of interest, in order."""
    levels = [found.wait_quantile(level) + found.at for level in LEVELS]
    means = found.mean_wait + found.at
    return [
        _forecast_of(float(means[column]), [float(level[column]) for level in levels])
        for column in range(len(found.jobs))
    ]


def _forecast_of(mean_at: float, quantiles_at: list[float]) -> Forecast:
    median = quantiles_at[4]
    if not np.isfinite(median):
        return Forecast(None)
    known = tuple(quantiles_at) if np.isfinite(quantiles_at).all() else ()
    return Forecast(median, mean_at if np.isfinite(mean_at) else None, known)
