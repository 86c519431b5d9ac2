"""Estimates by rollouts: at a submission the farm is forked and simulated forward.

A forecaster learns from the events of its farm what arrives and how far its estimates were off, so
that later ones have intervals that hold.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from farm.core.events import Event
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import snapshot_of
from farm.core.state.working_state import JobState
from farm.forecasts.dispatch.at_submission import Forecast, Steps
from farm.forecasts.dispatch.forecast_intervals import LEVELS, ForecastCalibration
from farm.forecasts.dispatch.recent_arrivals import ArrivalMemory
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.sim.rollouts.rollout import Fork, rollouts
from farm.sim.rollouts.wait_quantiles import Rollouts
from farm.sim.setting import Setting

#: of an estimate's whole simulations: less than a second
MOST_EVENTS = 60_000


class RolloutForecaster:
    """Simulates ``count`` continuations of the farm for each submission."""

    rules = "rollout"
    in_steps = False

    def __init__(
        self,
        farm: Setting,
        run_times: RuntimeDistribution,
        name: str,
        *,
        seed: int,
        count: int = 50,
        truthful: bool = False,
    ) -> None:
        self.run_times = name
        self._farm = farm
        self._seed = seed
        self._distribution = run_times
        self._count = count
        self._truthful = truthful
        self._memory, self._calibration = ArrivalMemory(), ForecastCalibration()

    def take(self, event: Event, scheduler: Scheduler) -> None:
        """Learn from the farm's next event what arrives, and which estimates were right."""
        self._memory.observe(event)
        self._calibration.take(event, scheduler)

    def prepare(self, *_: object) -> Steps:
        """Do nothing: each submission has its own rollouts."""
        return iter(())

    def forecast(self, scheduler: Scheduler, jobs: Sequence[JobState], at: float) -> list[Forecast]:
        """Return an estimate for each of these waiting jobs, in order."""
        fork = Fork(
            snapshot=snapshot_of(scheduler, at),
            pools=tuple(self._farm.pools),
            rules=self._farm.rules,
            run_times=self._distribution,
            estimator=scheduler.estimator,
            algorithms=self._farm.algorithms,
            truthful=self._truthful,
            recent=self._memory.recent(at),
        )
        names = [state.job.id for state in jobs]
        # a deterministic rollout is like any other
        certain = fork.is_certain
        found = rollouts(
            lambda: fork,
            count=1 if certain else self._count,
            seed=self._seed,
            jobs=names,
            processes=1,
            events=MOST_EVENTS,
        )
        made = forecasts_of(found, means=fork.tells_means)
        if certain:
            return made
        return self._calibration.calibrated(scheduler, jobs, at, made)


def forecasts_of(found: Rollouts, *, means: bool = False) -> list[Forecast]:
    """Return the estimates of the jobs of interest, in order.

    ``means``: where later arrivals overtake jobs, few wait very long, which the median leaves out;
    the mean is told, if it is between P10 and P90.
    """
    levels = [found.wait_quantile(level) + found.at for level in LEVELS]
    mean_at = found.mean_wait + found.at
    made = []
    for column in range(len(found.jobs)):
        quantiles_at = [float(level[column]) for level in levels]
        made.append(_forecast_of(float(mean_at[column]), quantiles_at, means=means))
    return made


def _forecast_of(mean_at: float, quantiles_at: list[float], *, means: bool) -> Forecast:
    median = quantiles_at[4]
    if not np.isfinite(median):
        return Forecast(None)
    if not np.isfinite(mean_at):
        known = tuple(quantiles_at) if np.isfinite(quantiles_at).all() else ()
        return Forecast(median, None, known)
    expected = min(max(mean_at, quantiles_at[0]), quantiles_at[-1]) if means else median
    return Forecast(expected, mean_at, tuple(quantiles_at))
