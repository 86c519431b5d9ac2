"""Dispatch estimates of a live farm: rollouts by another process, else the formula."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from farm.app.forecasts.rollout_service import RolloutRequest, RolloutService
from farm.core.events import Event
from farm.core.scheduler import Scheduler
from farm.core.state.working_state import JobState
from farm.forecasts.dispatch.at_submission import Forecast, Steps, executing
from farm.forecasts.dispatch.forecast_intervals import ForecastCalibration
from farm.forecasts.dispatch.formula_at_submission import FormulaForecaster


class RolloutsWithFallback:
    """Asks the service, and the formula about jobs of which it knows nothing.

    ``formula`` None: it is asked anyway, under its own name.
    """

    rules = "rollout"
    in_steps = True

    def __init__(self, service: RolloutService, formula: FormulaForecaster | None) -> None:
        self.run_times = service.run_times
        self._service = service
        self._formula = formula
        self._found: dict[str, Forecast] = {}
        self.calibration = ForecastCalibration()

    def take(self, event: Event, scheduler: Scheduler) -> None:
        """Learn what arrives, and how right the rollouts were."""
        self._service.take(event)
        self.calibration.take(event, scheduler)

    def prepare(self, scheduler: Scheduler, jobs: Sequence[JobState], at: float) -> Steps:
        """Ask about those of the jobs that still wait; return the steps up to the replies."""
        waiting = [state.job.id for state in jobs if executing(state).slot is None]
        request = self._service.ask(waiting) if waiting else None
        return self._asking(request, scheduler, jobs, at)

    def _asking(
        self,
        request: RolloutRequest | None,
        scheduler: Scheduler,
        jobs: Sequence[JobState],
        at: float,
    ) -> Steps:
        self._found = {}
        if request is not None:
            while not request.done:
                yield True
            self._found = self._calibrated(request, scheduler, jobs)
        rest = [state for state in jobs if state.job.id not in self._found]
        if rest and self._formula is not None:
            yield from self._formula.prepare(scheduler, rest, at)

    def _calibrated(
        self, request: RolloutRequest, scheduler: Scheduler, jobs: Sequence[JobState]
    ) -> dict[str, Forecast]:
        made = request.forecasts
        if request.rollouts == 1:  # the run times are known
            return made
        # of a job that has started this was heard already, and will not be again
        found = {job: msgspec.structs.replace(one, quantiles_at=()) for job, one in made.items()}
        waiting = [
            state for state in jobs if state.job.id in made and executing(state).slot is None
        ]
        names = [state.job.id for state in waiting]
        with_levels = self.calibration.calibrated(
            scheduler, waiting, request.at, [made[name] for name in names]
        )
        return found | dict(zip(names, with_levels, strict=True))

    def forecast(
        self, scheduler: Scheduler, jobs: Sequence[JobState], at: float
    ) -> list[Forecast | None]:
        """Return an estimate for each of these jobs, in order; ``prepare`` comes first."""
        return [
            self._found.get(state.job.id) or self._by_formula(scheduler, state, at)
            for state in jobs
        ]

    def _by_formula(self, scheduler: Scheduler, state: JobState, at: float) -> Forecast | None:
        if self._formula is None:
            return None
        (found,) = self._formula.forecast(scheduler, [state], at)
        return Forecast(found.dispatch_at, rules=self._formula.rules)
