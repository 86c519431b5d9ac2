"""Simulations of a farm from its present state, with or without a change."""

from __future__ import annotations

from farm.assembly import estimator_of
from farm.core.errors import StateError
from farm.forecasts.runtime import RuntimeDistribution
from farm.live.operating.farm_image import FarmImage
from farm.scenario import Scenario
from farm.sim.rollouts.rollout import Fork, Rollouts, rollouts
from provisioner.from_scenario import algorithms_of


def roll_out(
    image: FarmImage,
    before: Scenario,
    after: Scenario,
    count: int,
    seed: int,
    *,
    arrivals: bool,
) -> Rollouts:
    """Simulate the farm on ``count`` times, under the scenario ``after``; ``before`` is its own.

    Raises StateError for statistics that cannot be taken up again.
    """
    name = after.scheduling.runtime_estimates
    run_times = RuntimeDistribution(estimator_of(after))
    if image.statistics is not None and image.statistics.get("estimator") == name:
        try:
            run_times.load(image.statistics)
        except StateError as error:
            raise StateError(f"snapshot: statistics: {error}") from None
    fork = Fork(
        snapshot=image.snapshot,
        scenario=after,
        run_times=run_times,
        algorithms=algorithms_of(after),
        rekey=after.scheduling != before.scheduling,
        arrivals=arrivals,
        truthful=name == "oracle",
    )
    return rollouts(fork, count=count, seed=seed)
