"""The estimators and forecasters of a run, by the scenario's ``estimates``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from farm.app.runs.learning import seed_estimator
from farm.app.runs.own_parts import NONE, OwnParts
from farm.assembly import (
    estimator_named,
    estimator_of,
    laws_of,
    make_rules,
    make_scheduler,
    pool_specs,
)
from farm.core.driver import World
from farm.core.errors import InputError
from farm.core.pools.algorithm import AnyAlgorithm
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
        self._again = again
        self._functions = own.functions
        self._every = estimates.every
        self._methods = methods
        self._uses_other_process = live and not has_own_parts

        self.estimator: RuntimeEstimator = own.estimator or estimator_of(scenario)
        if live or (makes_rollouts and scheduler_source in sources):
            self.estimator = RuntimeDistribution(self.estimator)
        seed_estimator(self.estimator, estimates.learn_from, again)

        self._algorithms: Mapping[str, AnyAlgorithm] = {}
        if makes_rollouts and not self._uses_other_process:
            self._algorithms = algorithms_of(scenario, own.algorithms)

        #: processes that make rollouts for a live farm
        self.services: list[RolloutService] = []
        #: of the services' forecasts, by source of run times
        self.calibrations: dict[str, ForecastCalibration] = {}
        self._learners: list[Learner] = []
        self._forecasters: list[Forecaster] = []
        for source in sources:
            estimator = None if source == scheduler_source else self._add_estimator(source)
            for method in methods:
                self._forecasters.append(self._forecaster(method, source, estimator))

    def _forecaster(
        self, method: RuleSet, source: str, estimator: RuntimeDistribution | None
    ) -> Forecaster:
        """Return one forecaster; ``estimator``: None for the scheduler's own."""
        if method != "rollout":
            return self._formula(RULES[method], source, estimator)
        if self._uses_other_process:
            return self._remote_rollouts(source, estimator)
        return self._local_rollouts(source, estimator)

    def _formula(
        self, rules: Rules, source: str, estimator: RuntimeDistribution | None
    ) -> FormulaForecaster:
        return FormulaForecaster(rules, source, estimator, refresh=self._scenario.estimates.refresh)

    def _local_rollouts(self, source: str, estimator: RuntimeDistribution | None) -> Forecaster:
        from farm.sim.rollouts.rollout_forecaster import RolloutForecaster  # noqa: PLC0415 - slow

        scenario = self._scenario
        return RolloutForecaster(
            pool_specs(scenario),
            make_rules(scenario),
            _distribution(estimator or self.estimator),
            source,
            algorithms=self._algorithms,
            seed=scenario.seed,
            count=scenario.estimates.rollouts,
            truthful=source == "oracle",
        )

    def _remote_rollouts(self, source: str, estimator: RuntimeDistribution | None) -> Forecaster:
        """Return rollouts by another process; the formula replaces those that cost too much."""
        # for live farms only
        from farm.app.forecasts.rollout_service import RolloutService  # noqa: PLC0415
        from farm.app.forecasts.rollouts_with_fallback import RolloutsWithFallback  # noqa: PLC0415

        run_times = _distribution(estimator or self.estimator)
        service = RolloutService(self._scenario, run_times, source)
        self.services.append(service)
        fallback = None
        if LAUNCHPAD.name not in self._methods:  # else it is a forecaster anyway
            fallback = self._formula(LAUNCHPAD, source, estimator)
        forecaster = RolloutsWithFallback(service, fallback)
        self.calibrations[source] = forecaster.calibration
        return forecaster

    def _add_estimator(self, source: str) -> RuntimeDistribution:
        """Return a second estimator; it learns from the run's events, beside the scheduler's."""
        try:
            estimator = RuntimeDistribution(estimator_named(source, self._scenario))
        except InputError as error:
            raise InputError(f"estimates.run_times: {error}") from None
        seed_estimator(estimator, self._scenario.estimates.learn_from, self._again)
        if estimator.estimator.learns or source == "declared":
            self._learners.append(Learner(estimator, laws_of(self._scenario)))
        return estimator

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
            every=self._every,
            learners=self._learners,
            add_event=add_event,
            pause=lambda: time.sleep(PAUSE),
        )


def _default_methods(*, live: bool, has_own_parts: bool) -> tuple[RuleSet, ...]:
    """Return the methods of a scenario that names none; a simulation makes no estimates."""
    if not live:
        return ()
    return ("launchpad",) if has_own_parts else ("rollout",)


def _distribution(estimator: RuntimeEstimator) -> RuntimeDistribution:
    if isinstance(estimator, RuntimeDistribution):
        return estimator
    return RuntimeDistribution(estimator)
