"""Dispatch estimates for submitted jobs by Launchpad's formula."""

from __future__ import annotations

from collections.abc import Sequence

from farm.core.events import Event
from farm.core.scheduler import Scheduler
from farm.core.state.working_state import JobState
from farm.forecasts.dispatch.at_submission import Forecast, Steps, executing
from farm.forecasts.dispatch.in_steps import QueueSweep, SweepRunTimes
from farm.forecasts.runtime.interface import RuntimeEstimator
from farm.upstream.launchpad import Rules


class FormulaForecaster:
    """Launchpad's formula under one rule set.

    The queue is swept again at each submission while it is short (``swept_at_most`` jobs) and at
    most every ``refresh`` seconds of farm time when it is long; in between a job's estimate is that
    of a new job behind all jobs that were waiting at the last sweep, which costs a few microseconds
    (and is too late for a job that the policy puts further ahead).
    ``estimator``: the source of run times; None: those that the scheduler sorted by, and for jobs
    on a builder the scheduler's estimates there.
    """

    in_steps = True

    def __init__(
        self,
        rules: Rules,
        run_times: str,
        estimator: RuntimeEstimator | None = None,
        *,
        refresh: float = 5.0,
        swept_at_most: int = 1000,
    ) -> None:
        self.rules = rules.name
        self.run_times = run_times
        self._rules = rules
        self._estimator = estimator
        self._refresh = refresh
        self._swept_at_most = swept_at_most
        self._sweep: QueueSweep | None = None

    @property
    def swept_at(self) -> float:
        """When the queue was last swept, farm time."""
        return -float("inf") if self._sweep is None else self._sweep.at

    def take(self, event: Event, scheduler: Scheduler) -> None:
        """Learn nothing: the formula counts what is there."""

    def prepare(self, scheduler: Scheduler, _: Sequence[JobState], at: float) -> Steps:
        """Sweep the queue in its present state, if it is due, in the steps of the iterator."""
        matching = scheduler.dispatcher.matching
        if matching.waiting() > self._swept_at_most and at < self.swept_at + self._refresh:
            return iter(())
        builders, run_times = scheduler.builders.values(), self._run_times_of(scheduler)
        # each job is estimated once, soon after its submission
        since = 0 if self._sweep is None else self._sweep.newest
        lanes = matching.with_jobs()
        return self._sweeping(QueueSweep(lanes, builders, at, self._rules, run_times, since=since))

    def _sweeping(self, sweep: QueueSweep) -> Steps:
        while sweep.step():
            yield False
        self._sweep = sweep

    def _run_times_of(self, scheduler: Scheduler) -> SweepRunTimes:
        other = self._estimator
        if other is None:
            return SweepRunTimes(held=scheduler.estimator.estimate)
        estimate = other.estimate
        return SweepRunTimes(waiting=lambda state: estimate(state.job), held=estimate)

    def forecast(self, _: Scheduler, jobs: Sequence[JobState], at: float) -> list[Forecast]:
        """Return an estimate for each of these waiting jobs, in order; ``prepare`` comes first."""
        if self._sweep is None:
            raise RuntimeError("estimates are requested before a sweep")
        estimates = (self._sweep.estimate_of(executing(state)) for state in jobs)
        return [Forecast(None if found is None else at + found) for found in estimates]
