"""A scenario's runtime estimator with its options, in whole simulated runs."""

from typing import Any

import pytest

from farm.core.model import Job
from farm.scenario import load_scenario
from farm.sim.simulation import simulate
from farm.testing import small_scenario

LOAD = {
    "every": "30s",
    "service_time": "20s",
    "declared": {"factor": 3},
    "work_size": {"per_second": 1e9},
}


def estimate_after(count: int, **scheduling: Any) -> float:
    """Return a waiting job's estimate after a number of successes."""
    given = {"runtime_estimates": "boinc", **scheduling}
    wanted = small_scenario(load=LOAD | {"count": count}, scheduling=given)
    scheduler = simulate(load_scenario(wanted))
    waiting = Job(id="next", service_time=20.0, declared_time=60.0, size=2e10)
    return scheduler.estimator.estimate(waiting)


def test_waiting_jobs_with_sizes_in_flops_climb_the_ladder() -> None:
    """Declared 60 s and true 20 s: after more than 100 successes the kind is known by them."""
    assert estimate_after(100) == 60.0
    assert estimate_after(101) == pytest.approx(20.0)


def test_a_scenario_sets_the_estimators_options() -> None:
    """A small farm lowers the number of samples."""
    assert estimate_after(4) == 60.0
    assert estimate_after(4, runtime_options={"kind_samples": 3}) == pytest.approx(20.0)
