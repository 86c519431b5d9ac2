"""The estimators and forecasters of a run, by the scenario's ``estimates``, and their scores."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

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
from farm.core.errors import InputError, file_access
from farm.core.scheduler import Scheduler
from farm.forecasts.dispatch.at_submission import AddEvent, EstimatingWorld, Forecaster
from farm.forecasts.dispatch.calibration import ForecastCalibration
from farm.forecasts.dispatch.formula_at_submission import FormulaForecaster
from farm.forecasts.dispatch.launchpad_formula import RULES
from farm.forecasts.runtime.interface import RuntimeEstimator
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.forecasts.runtime.training import Learner, learn_from
from farm.results.estimate_scores import Score, score
from farm.results.run_directory import load_run
from farm.scenario import Scenario
from farm.upstream.launchpad import LAUNCHPAD, Rules
from farm.whole_files import read_whole
from provisioner.from_scenario import algorithms_of

if TYPE_CHECKING:
    from farm.app.forecasts.rollout_service import RolloutService

#: real seconds between looks at whether the last estimates are there
PAUSE = 0.002


class Estimating:
    """The runtime estimator of a run's scheduler, and the forecasters of dispatch estimates.

    ``estimator`` goes into the scheduler, ``around`` before its world. Raises InputError for a
    runtime estimator that does not exist, and for statistics that cannot be learned from. ``own``:
    the caller's parts, in the place of the scenario's.
    """

    def __init__(self, scenario: Scenario, own: OwnParts = NONE, *, live: bool) -> None:
        words = scenario.estimates
        # another process, which makes a live farm's rollouts, does not have the caller's parts
        apart = live and not (own.functions or own.estimator or own.algorithms)
        usually = () if not live else ("rollout",) if apart else (LAUNCHPAD.name,)
        rules = words.rules if words.rules is not None else usually
        usual = scenario.scheduling.runtime_estimates
        names = words.run_times or (usual,)
        self.estimator: RuntimeEstimator = own.estimator or estimator_of(scenario)
        if live or ("rollout" in rules and usual in names):
            self.estimator = RuntimeDistribution(self.estimator)
        seed_estimator(self.estimator, words.learn_from)
        self._every = words.every
        self._learners: list[Learner] = []
        self._forecasters: list[Forecaster] = []
        #: of a live farm, whose scheduler must not wait for rollouts
        self.services: list[RolloutService] = []
        #: of theirs, by the source of run times
        self.calibrations: dict[str, ForecastCalibration] = {}
        self._scenario, self._functions = scenario, own.functions
        # rollouts size provisioned pools too
        alone = "rollout" in rules and not apart
        self._sizing = algorithms_of(scenario, own.algorithms) if alone else {}
        for name in names:
            other = None if name == usual else self._other(name, words.learn_from)
            for rule in rules:
                if rule != "rollout":
                    self._forecasters.append(self._formula(RULES[rule], name, other))
                elif apart:
                    formula = LAUNCHPAD.name not in rules
                    self._forecasters.append(self._apart(name, other, formula=formula))
                else:
                    self._forecasters.append(self._here(name, other))

    def _formula(
        self, rules: Rules, name: str, other: RuntimeDistribution | None
    ) -> FormulaForecaster:
        return FormulaForecaster(rules, name, other, refresh=self._scenario.estimates.refresh)

    def _here(self, name: str, other: RuntimeDistribution | None) -> Forecaster:
        from farm.sim.rollouts.at_submission import RolloutForecaster  # noqa: PLC0415 - for those who ask

        scenario = self._scenario
        return RolloutForecaster(
            pool_specs(scenario),
            make_rules(scenario),
            _distribution(other or self.estimator),
            name,
            algorithms=self._sizing,
            seed=scenario.seed,
            count=scenario.estimates.rollouts,
            truthful=name == "oracle",
        )

    def _apart(self, name: str, other: RuntimeDistribution | None, *, formula: bool) -> Forecaster:
        """Return rollouts by another process, with the formula where they are too dear."""
        from farm.app.forecasts import rollout_service as live  # noqa: PLC0415 - live farms only

        run_times = _distribution(other or self.estimator)
        service = live.RolloutService(self._scenario, run_times, name)
        self.services.append(service)
        known = self._formula(LAUNCHPAD, name, other) if formula else None
        made = live.AffordableRollouts(service, known)
        self.calibrations[name] = made.calibration
        return made

    def _other(self, name: str, source: str | None) -> RuntimeDistribution:
        try:
            made = RuntimeDistribution(estimator_named(name, self._scenario))
        except InputError as error:
            raise InputError(f"estimates.run_times: {error}") from None
        seed_estimator(made, source)
        if made.estimator.learns or name == "declared":
            self._learners.append(Learner(made, laws_of(self._scenario)))
        return made

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


def _distribution(own: RuntimeEstimator) -> RuntimeDistribution:
    return own if isinstance(own, RuntimeDistribution) else RuntimeDistribution(own)


def seeded_estimator(scenario: Scenario) -> RuntimeEstimator:
    """Return the scenario's estimator with what it learns before a run.

    Raises InputError for statistics that cannot be learned from.
    """
    estimator = estimator_of(scenario)
    seed_estimator(estimator, scenario.estimates.learn_from)
    return estimator


def scores_of(run: Path) -> list[Score]:
    """Return how right the dispatch estimates of a run were; raises InputError if it has none."""
    found = score(load_run(run, unfinished=True).entries())
    if not found:
        raise InputError(
            f"{run}: no estimates were made in this run; enable them, for example with "
            "--set 'estimates.rules=[launchpad, rollout]'"
        )
    return found


def seed_estimator(estimator: RuntimeEstimator, path: str | None) -> None:
    """Let an estimator learn from a finished run (a directory) or from dumped statistics (a file).

    ``path`` None: from nothing. Raises InputError for what is neither, and for statistics of
    another estimator.
    """
    if path is None:
        return
    source = Path(path)
    if source.is_dir():
        run = load_run(source, unfinished=True)
        events = (entry.event for entry in run.entries() if not entry.ignored)
        learn_from(estimator, events, laws_of(run.scenario))
        if isinstance(estimator, RuntimeDistribution):
            estimator.forget_times()
        return
    try:
        with file_access(f"learn_from: {source}", "be read"):
            state = msgspec.json.decode(read_whole(source))
    except msgspec.DecodeError as error:
        raise InputError(f"learn_from: {source}: not JSON: {error}") from None
    if isinstance(state, dict) and "snapshot" in state:
        state = state.get("statistics")
    # it reads its own dumps, such as a live farm's, and those of the estimator alone
    if not isinstance(estimator, RuntimeDistribution):
        estimator = RuntimeDistribution(estimator)
    try:
        estimator.load(state)
    except InputError as error:
        raise InputError(f"learn_from: {source}: {error}") from None
    estimator.forget_times()
