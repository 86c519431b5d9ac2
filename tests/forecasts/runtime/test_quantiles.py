"""Distributions of run times: quantiles, draws, and what is left of a running job."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.errors import StateError
from farm.core.model import Builder, Job
from farm.forecasts.runtime import make_estimator
from farm.forecasts.runtime.quantiles import Quantiles, RuntimeDistribution

ONE = Builder(id="one", pool="p", index=0)
FAST = Builder(id="fast", pool="p", index=1, speed=2.0)


def job(kind: str = "unit", declared: float = 100.0) -> Job:
    """A job of a kind with a declared time."""
    return Job(id="j", service_time=1.0, kind=kind, declared_time=declared)


def learned(*times: float) -> RuntimeDistribution:
    """Return the distribution of declared times after these run times of jobs declared as 100 s."""
    distribution = RuntimeDistribution(make_estimator("declared"))
    for time in times:
        distribution.learn(job(), ONE, time, "succeeded")
    return distribution


def drawn(
    distribution: RuntimeDistribution, job: Job, u: float, builder: Builder | None = None
) -> float:
    """Return the run time that is not exceeded with probability u."""
    if builder is not None:
        return float(distribution.draw_remaining(job, np.array([u]), builder, 0.0)[0])
    time, factors = distribution.spread(job)
    return time * float(np.quantile(factors or [1.0], u))


FIVE = (50.0, 100.0, 150.0, 200.0, 250.0)


@pytest.mark.parametrize(
    ("u", "value"), [(0.0, 50.0), (0.25, 100.0), (0.5, 150.0), (0.6, 170.0), (1.0, 250.0)]
)
def test_draws_are_quantiles_of_the_history(u: float, value: float) -> None:
    """Linear between the sorted values, minimum and maximum at the ends."""
    assert drawn(learned(*FIVE), job(), u) == pytest.approx(value)


def test_draws_scale_with_the_estimate_and_the_builder() -> None:
    """The history holds the errors of the estimates, not the run times."""
    distribution = learned(*FIVE)
    assert drawn(distribution, job(declared=10.0), 0.5) == pytest.approx(15.0)
    assert drawn(distribution, job(), 0.5, FAST) == pytest.approx(75.0)


def test_an_estimate_that_explains_nothing_is_not_drawn_around() -> None:
    """Where a mean of three is less precise than the kind itself, past run times are drawn."""
    distribution = RuntimeDistribution(make_estimator("last-3"))
    for time in (10.0, 90.0, 30.0, 70.0, 50.0, 20.0, 80.0, 40.0, 60.0) * 3:
        distribution.learn(job(declared=50.0), ONE, time, "succeeded")
    assert drawn(distribution, job(), 0.5) == pytest.approx(50.0)
    assert drawn(distribution, job(), 1.0, FAST) == pytest.approx(45.0)


def test_without_enough_history_the_estimate_is_certain() -> None:
    """Four values are no distribution; failures do not count."""
    distribution = learned(*FIVE[:4])
    for _ in range(9):
        distribution.learn(job(), ONE, 1.0, "failed")
    assert [drawn(distribution, job(), u) for u in (0.0, 0.5, 1.0)] == [100.0] * 3


def test_an_unknown_kind_is_drawn_from_all() -> None:
    """The farm's error is better than none."""
    assert drawn(learned(*FIVE), job("new"), 0.5) == pytest.approx(150.0)


def test_the_oracle_is_certain() -> None:
    """Its error is zero, so every draw is the truth."""
    distribution = RuntimeDistribution(make_estimator("oracle"))
    for _ in range(9):
        distribution.learn(job(), ONE, 1.0, "succeeded")
    assert {drawn(distribution, job(), u / 10) for u in range(11)} == {1.0}


def test_a_running_job_is_drawn_from_what_is_left() -> None:
    """Having run 150 s it can only be one of the longer ones; past all of them, the estimator."""
    distribution = learned(*FIVE)
    assert distribution.draw_remaining(job(), np.array([0.0]), ONE, 150.0) == pytest.approx([0.0])
    assert distribution.draw_remaining(job(), np.array([0.5]), ONE, 150.0) == pytest.approx([50.0])
    assert distribution.draw_remaining(job(), np.array([1.0]), ONE, 150.0) == pytest.approx([100.0])
    assert distribution.draw_remaining(job(), np.array([0.5]), ONE, 0.0) == pytest.approx([150.0])
    assert distribution.draw_remaining(job(), np.array([0.5]), ONE, 300.0) == [120.0]


def test_statistics_survive_a_restart() -> None:
    """Ratios and the wrapped estimator's statistics both."""
    distribution = RuntimeDistribution(make_estimator("last-3"))
    for time in FIVE:
        distribution.learn(job(), ONE, time, "succeeded")
    again = RuntimeDistribution(make_estimator("last-3"))
    again.load(json.loads(json.dumps(distribution.dump())))
    assert again.dump() == distribution.dump()
    assert drawn(again, job(), 0.3) == drawn(distribution, job(), 0.3)
    again.load(distribution.estimator.dump())
    assert again.estimate(job()) == distribution.estimate(job())
    assert drawn(again, job(), 0.3) == again.estimate(job()), "no ratios came with it"
    with pytest.raises(StateError):
        again.load({"estimator": "last-3", "statistics": {"estimator": "last-3"}, "ratios": "x"})


positive = st.floats(1e-6, 1e6)


@given(st.lists(positive, min_size=1, max_size=30), st.integers(1, 10))
def test_old_values_are_forgotten(values: list[float], keep: int) -> None:
    """The quantiles are those of the newest values, in whatever order they came."""
    stream = Quantiles(keep)
    for value in values:
        stream.add(value)
    assert stream.values() == values[-keep:]
    assert stream.ends() == (min(values[-keep:]), max(values[-keep:]))


@given(st.lists(positive, min_size=1, max_size=30), st.lists(st.floats(0, 1), min_size=2))
def test_quantiles_do_not_fall(values: list[float], us: list[float]) -> None:
    """An inverse distribution function rises, so common random numbers keep their order."""
    stream = Quantiles(100, values)
    found = stream.at(np.array(sorted(us))).tolist()
    assert found == sorted(found)


@given(st.lists(positive, min_size=2, max_size=30, unique=True), st.floats(0.0, 1.0))
def test_the_share_is_the_inverse(values: list[float], u: float) -> None:
    """share_up_to undoes at."""
    stream = Quantiles(100, values)
    (value,) = stream.at(np.array([u]))
    (again,) = stream.at(np.array([stream.share_up_to(value)]))
    assert again == pytest.approx(value)
