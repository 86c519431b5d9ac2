"""Ranges of run times: eight jobs of ten run within them, whatever is known so far."""

from __future__ import annotations

from random import Random

import pytest

from farm.core.model import Builder, Job
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.forecasts.runtime.interface import RunTimeRange
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.forecasts.runtime.run_time_range import RunningAttempt, range_of

ONE = Builder(id="one", pool="p", index=0)
FAST = Builder(id="fast", pool="p", index=1, speed=2.0)
JOB = Job(id="next", service_time=1.0, kind="unit")


def learned(*times: float) -> RuntimeDistribution:
    """Return what the last-3 estimator's distribution knows after jobs of these run times."""
    distribution = RuntimeDistribution(make_estimator("last-3"))
    for number, time in enumerate(times):
        job = Job(id=f"j{number}", service_time=time, kind="unit")
        distribution.learn(job, ONE, time, "succeeded")
    return distribution


def test_without_runs_there_is_no_range():
    """A made-up range would be believed."""
    assert range_of(learned(), JOB) is None
    assert range_of(learned(60.0, 61.0), JOB) is None


@pytest.mark.parametrize(("runs", "sigma"), [(8, 0.5), (30, 0.5), (30, 1.2), (150, 1.2)])
def test_eight_of_ten_jobs_run_within_their_range(runs: int, sigma: float):
    """By few runs as by many, with thin and heavy tails."""
    dice = Random(runs)
    held = []
    for _ in range(100):
        found = range_of(learned(*(dice.lognormvariate(5.0, sigma) for _ in range(runs))), JOB)
        assert found is not None
        held.append(found.low <= dice.lognormvariate(5.0, sigma) <= found.high)
    assert 0.7 <= sum(held) / len(held) <= 0.9


def test_a_certain_run_time_is_a_range_of_one():
    """Jobs that always take the same are told exactly that, on each builder."""
    known = learned(*[80.0] * 9)
    assert range_of(known, JOB) == RunTimeRange(80.0, 80.0)
    assert range_of(known, JOB, FAST) == RunTimeRange(40.0, 40.0)
    assert range_of(known, JOB, ONE, elapsed=30.0) == RunTimeRange(50.0, 50.0)


def test_the_rest_of_a_job_that_has_outrun_most_is_that_of_long_jobs():
    """After 8 of at most 10 minutes two are left, not the usual five."""
    known = learned(*(60.0 * n for n in range(1, 11)), *(60.0 * n for n in range(1, 11)))
    rest = range_of(known, JOB, ONE, elapsed=500.0)
    assert rest is not None
    assert 0.0 <= rest.low < 60.0
    assert rest.high <= 400.0


def test_what_still_runs_makes_the_range_longer():
    """On a young farm the short jobs have ended first: theirs alone would promise too much."""
    known = learned(*(50.0 + n for n in range(12)))
    alone = range_of(known, JOB)
    attempts = [
        RunningAttempt(Job(id=f"r{n}", service_time=1.0, kind="unit"), ONE, 0.0, 400.0)
        for n in range(6)
    ]
    beside = range_of(known, JOB, running=attempts, at=400.0)
    assert alone is not None
    assert beside is not None
    assert beside.high > 1.4 * alone.high
