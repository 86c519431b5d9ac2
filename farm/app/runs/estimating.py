"""The estimators and forecasters of a run, by the scenario's ``estimates``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from farm.app.runs.learning import seed_estimator
from farm.app.runs.own_parts import NONE, OwnParts
from farm.assembly import (
    estimator_named,
    estimator_of,
    laws_of,
    make_rules,
    make_scheduler,
)
from farm.core.driver import World
from farm.core.errors import InputError
from farm.core.scheduler import Scheduler
from farm.forecasts.dispatch.at_submission import AddEvent, EstimatingWorld, Forecaster
from farm.forecasts.dispatch.forecast_intervals import ForecastCalibration
from farm.forecasts.dispatch.formula_at_submission import FormulaForecaster
from farm.forecasts.dispatch.launchpad_formula import RULES
from farm.forecasts.runtime.interface import RuntimeEstimator
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.forecasts.runtime.training import Learner
from farm.results.run_directory import PlayAgain
from farm.scenario import Scenario
from farm.scenario.scheduling import RuleSet
from farm.sim.setting import Setting
from farm.upstream.launchpad import LAUNCHPAD, Rules
from provisioner.from_scenario import algorithms_of

if TYPE_CHECKING:
    from farm.app.forecasts.rollout_service import RolloutService

#: real seconds between looks at whether the last estimates are there
PAUSE = 0.002


class Estimating:
    """The runtime estimator of a run's scheduler, and the forecasters of its dispatch estimates.

    A scenario asks for methods (``estimates.rules``) and for sources of run times
    (``estimates.run_times``); each pair of them is a forecaster. The source that the scheduler
    itself uses is shared with it. Every other one gets an estimator of its own, which learns from
    the same events.

    Rollouts take longer than the scheduler of a live farm may pause, so another process makes them.
    It knows nothing but the scenario. With functions of the caller, rollouts are made in this
    process, and only if the scenario asks for them.

    Args:
        scenario: what is run.
        own: parts of the caller's, in place of those that the scenario names.
        live: the run is a live farm.
        again: plays a run that is learned from, and is kept as its inputs.

    Raises InputError for an unknown runtime estimator, and for statistics that cannot be read.
    """

    def __init__(
        self, scenario: Scenario, own: OwnParts = NONE, *, live: bool, again: PlayAgain
    ) -> None:
        estimates = scenario.estimates
        has_own_parts = bool(own.functions or own.estimator or own.algorithms)
        methods = estimates.rules
        if methods is None:
            methods = _default_methods(live=live, has_own_parts=has_own_parts)
        makes_rollouts = "rollout" in methods
        scheduler_source = scenario.scheduling.runtime_estimates
        sources = estimates.run_times or (scheduler_source,)

        self._scenario = scenario
        self._functions = own.functions
        self._methods = methods
        self._uses_other_process = live and not has_own_parts

        others = {
            source: _second_estimator(source, scenario)
            for source in sources
            if source != scheduler_source
        }
        #: the distributions that rollouts draw from, by source
        self._run_times = dict(others)
        laws = laws_of(scenario)
        self.estimator: RuntimeEstimator = own.estimator or estimator_of(scenario)
        if live or (makes_rollouts and scheduler_source in sources):
            self.estimator = RuntimeDistribution(self.estimator)
            self._run_times[scheduler_source] = self.estimator
        for estimator in (self.estimator, *others.values()):
            seed_estimator(estimator, estimates.learn_from, again)
        self._learners = [
            Learner(estimator, laws)
            for source, estimator in others.items()
            if estimator.estimator.learns or source == "declared"
        ]

        #: what rollouts in this process are of
        self._farm: Setting | None = None
        if makes_rollouts and not self._uses_other_process:
            algorithms = algorithms_of(scenario, own.algorithms)
            self._farm = Setting.of(scenario, make_rules(scenario), algorithms)

        #: processes that make rollouts for a live farm
        self.services: list[RolloutService] = []
        #: of the services' forecasts, by source of run times
        self.calibrations: dict[str, ForecastCalibration] = {}
        self._forecasters = [
            self._forecaster(method, source) for source in sources for method in methods
        ]

    def _forecaster(self, method: RuleSet, source: str) -> Forecaster:
        """Return the forecaster of a pair.

        Where another process makes rollouts, the formula replaces those that cost too much.
        """
        if method != "rollout":
            return self._formula(RULES[method], source)
        run_times = self._run_times[source]
        if self._farm is not None:
            # few simulations make any
            from farm.sim.rollouts.rollout_forecaster import RolloutForecaster  # noqa: PLC0415

            return RolloutForecaster(
                self._farm,
                run_times,
                source,
                seed=self._scenario.seed,
                count=self._scenario.estimates.rollouts,
                truthful=source == "oracle",
            )
        # for live farms only
        from farm.app.forecasts.rollout_service import RolloutService  # noqa: PLC0415
        from farm.app.forecasts.rollouts_with_fallback import RolloutsWithFallback  # noqa: PLC0415

        service = RolloutService(self._scenario, run_times, source)
        self.services.append(service)
        fallback = None
        if LAUNCHPAD.name not in self._methods:  # else it is a forecaster anyway
            fallback = self._formula(LAUNCHPAD, source)
        forecaster = RolloutsWithFallback(service, fallback)
        self.calibrations[source] = forecaster.calibration
        return forecaster

    def _formula(self, rules: Rules, source: str) -> FormulaForecaster:
        """Return the formula; with the scheduler's own source it asks the scheduler's estimator."""
        is_own = source == self._scenario.scheduling.runtime_estimates
        estimator = None if is_own else self._run_times[source]
        refresh = self._scenario.estimates.refresh
        return FormulaForecaster(rules, source, estimator, refresh=refresh)

    def scheduler(self, explain_last: int = 0) -> Scheduler:
        """Return the run's scheduler, in its initial state; raises as ``make_scheduler`` does."""
        return make_scheduler(
            self._scenario, explain_last=explain_last, estimator=self.estimator, own=self._functions
        )

    @property
    def gives(self) -> bool:
        """Whether any dispatch estimates are made."""
        return bool(self._forecasters)

    def around(
        self, world: World, scheduler: Scheduler, add_event: AddEvent | None = None
    ) -> World:
        """Return the world with estimates after each submission.

        ``add_event`` inserts them into a live world; they are then made in steps.
        """
        if not self._forecasters:
            return world
        return EstimatingWorld(
            world,
            scheduler,
            self._forecasters,
            every=self._scenario.estimates.every,
            learners=self._learners,
            add_event=add_event,
            pause=lambda: time.sleep(PAUSE),
        )


def _default_methods(*, live: bool, has_own_parts: bool) -> tuple[RuleSet, ...]:
    """Return the methods of a scenario that names none; a simulation makes no estimates."""
    if not live:
        return ()
    return ("launchpad",) if has_own_parts else ("rollout",)


def _second_estimator(source: str, scenario: Scenario) -> RuntimeDistribution:
    """Return an estimator that learns from the run's events beside the scheduler's."""
    try:
        return RuntimeDistribution(estimator_named(source, scenario))
    except InputError as error:
        raise InputError(f"estimates.run_times: {error}") from None
