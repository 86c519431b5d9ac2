"""Estimates by rollouts: at a submission the farm is forked and simulated forward.

A forecaster learns from the events of its farm what arrives and how far its estimates were off, so
that later ones have intervals that hold. It keeps that in memory: a scheduler that takes over a
farm begins anew, and tells no interval until it knows enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from farm.core.events import ArrivalsEnded, Event, JobsSubmitted, JobStarted
from farm.core.pools.algorithm import AnyAlgorithm
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import snapshot_of
from farm.core.state.working_state import JobState
from farm.forecasts.dispatch.at_submission import Forecast, executing
from farm.forecasts.dispatch.calibration import LEVELS, Calibration
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.sim.rollouts.later_arrivals import ArrivalMemory
from farm.sim.rollouts.rollout import Fork, rollouts

#: of an estimate's whole simulations: less than a second
MOST_EVENTS = 60_000


class RolloutForecaster:
    """Simulates ``count`` continuations of the farm for each submission.

    ``learns`` False: neither arrivals nor past errors are learned from, and the spread is that of
    the rollouts.
    """

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
        learns: bool = True,
    ) -> None:
        self.run_times = name
        self._pools, self._rules, self._seed = tuple(pools), rules, seed
        self._distribution = run_times
        self._algorithms = algorithms
        self._count = count
        self._truthful = truthful
        self._learns = learns
        self._memory, self._calibration = ArrivalMemory(), Calibration()

    def take(self, event: Event, scheduler: Scheduler) -> None:
        """Learn from the farm's next event what arrives, and which estimates were right."""
        if not self._learns:
            return
        if type(event) is JobsSubmitted:
            self._memory.take(event.at, event.jobs)
        elif type(event) is ArrivalsEnded:
            self._memory = ArrivalMemory()
        elif type(event) is JobStarted and self._calibration.waits_for(event.job):
            state = scheduler.jobs.get(event.job)
            dispatched_at = None if state is None else state.dispatched_at
            at = event.at if dispatched_at is None else dispatched_at
            self._calibration.dispatched(event.job, at)

    def prepare(self, scheduler: Scheduler, at: float) -> Iterator[None]:  # noqa: ARG002 - interface
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
            recent=self._memory.recent(at),
        )
        names = [state.job.id for state in jobs]
        # a deterministic rollout is like any other
        certain = self._truthful and fork.later is None
        found = rollouts(
            lambda: fork,
            count=1 if certain else self._count,
            seed=self._seed,
            jobs=names,
            processes=1,
            events=MOST_EVENTS,
        )
        waits = np.array([found.wait_quantile(level) for level in LEVELS]).T.tolist()
        means = (found.mean_wait + at).tolist()
        self._calibration.keep(scheduler.jobs.__contains__)
        made = zip(jobs, waits, means, strict=True)
        return [self._forecast(state, at, its, mean_at, certain) for state, its, mean_at in made]

    def _forecast(
        self, state: JobState, at: float, waits: list[float], mean_at: float, certain: bool
    ) -> Forecast:
        median = waits[len(waits) // 2]
        if not math.isfinite(median):
            return Forecast(None)
        if self._learns and not certain and math.isfinite(waits[-1]):
            its = executing(state).job
            waits = list(self._calibration.told(its.id, str(its.platform), at, waits))
        known = tuple(wait + at for wait in waits) if all(map(math.isfinite, waits)) else ()
        return Forecast(median + at, mean_at if math.isfinite(mean_at) else None, known)
