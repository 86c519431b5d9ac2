"""Simulations of a farm from its present state, with or without a change."""

from __future__ import annotations

import math
from collections.abc import Sequence

from farm.assembly import estimator_of
from farm.core.errors import StateError
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.live.operating.farm_image import FarmImage
from farm.scenario import Scenario, load_scenario
from farm.sim.rollouts.rollout import Fork, Rollouts, rollouts
from provisioner.from_scenario import algorithms_of


def roll_out(
    image: FarmImage,
    before: Scenario,
    after: Scenario,
    count: int,
    seed: int,
    *,
    arrivals: bool = False,
    jobs: Sequence[str] | None = None,
) -> Rollouts:
    """Simulate the farm on ``count`` times, under the scenario ``after``; ``before`` is its own.

    ``jobs``: those of interest; None: all that wait. Raises StateError for statistics that cannot
    be taken up again, LookupError for a job that does not wait.
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
    return rollouts(fork, count=count, seed=seed, jobs=jobs)


def dispatch_in(image: FarmImage, job: str) -> float | None:
    """Return the median time to a waiting job's dispatch, seconds; None: it is never dispatched.

    The fewer jobs wait, the more rollouts are made, up to 20: half a second of simulation in all.
    Raises LookupError for a job that does not wait, InputError for functions that are not here.
    """
    scenario = load_scenario(image.scenario)
    count = min(20, 1 + 20_000 // len(image.snapshot.waiting or (1,)))
    found = roll_out(image, scenario, scenario, count, 1, jobs=[job])
    median = float(found.wait_quantile(0.5)[0])
    return median if math.isfinite(median) else None
