"""Distributions of run times: quantiles, draws, and what is left of a running job."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.errors import StateError
from farm.core.model import Builder, Job
from farm.core.rules import EndedAttempt
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.forecasts.runtime.survival import EVENLY, Survival, survival

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


def drawn(distribution: RuntimeDistribution, job: Job, u: float, builder: Builder = ONE) -> float:
    """Return the run time that is not exceeded with probability u."""
    found = distribution.spread(job, builder)
    if found is None:
        return distribution.estimate(job, builder)
    return found.time / builder.speed * float(np.quantile(found.factors, u))


def alone(values: Sequence[float]) -> Survival:
    """Return the distribution of values that have all ended."""
    none = np.zeros(0)
    return survival(np.array(values), np.zeros(len(values)), none, none)


def still(distribution: RuntimeDistribution, u: float, elapsed: float) -> float | None:
    """Return what a job that has run so long takes on, a quantile of it; None: it outran all."""
    found = distribution.spread(job(), ONE)
    assert found is not None
    longer = alone(found.factors.tolist()).longer_than(elapsed / found.time, np.array([u]))
    return None if longer is None else float(longer[0] * found.time - elapsed)


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


@pytest.mark.parametrize("alpha", [1.161, 2.0])
def test_sums_of_heavy_tails_are_right(alpha: float) -> None:
    """What declared jobs take together, as a queue of them does: least squares say a fifth less."""
    rng = np.random.default_rng(2)
    ratios = []
    for _ in range(20):
        distribution = RuntimeDistribution(make_estimator("declared"))
        times = np.minimum(3.0 * rng.random(400) ** (-1 / alpha), 7200.0)
        declared = times * np.exp(0.7 * rng.standard_normal(400))
        for time, told in zip(times[:200], declared[:200], strict=True):
            distribution.learn(job(declared=told), ONE, time, "succeeded")
        found = [distribution.spread(job(declared=told)) for told in declared[200:]]
        told = sum(one.time * np.mean(one.factors) for one in found if one is not None)
        ratios.append(told / times[200:].sum())
    assert 0.93 < np.median(ratios) < 1.07


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
    """Having run 150 s it can only be one of the longer ones, each as likely as the other."""
    distribution = learned(*FIVE)
    assert still(distribution, 0.0, 150.0) == pytest.approx(50.0)
    assert still(distribution, 0.49, 150.0) == pytest.approx(50.0)
    assert still(distribution, 0.51, 150.0) == pytest.approx(100.0)
    assert still(distribution, 0.5, 0.0) == pytest.approx(150.0)
    assert still(distribution, 0.5, 300.0) is None


def test_work_is_learned_not_the_time_that_neighbours_cost() -> None:
    """An attempt that took twice its work tells of the work; the estimator learns its length."""
    distribution = RuntimeDistribution(make_estimator("last-3"))
    for number in range(5):
        ended = EndedAttempt(job(), ONE, 100.0 * number, 100.0 * (number + 1), "succeeded", 50.0)
        distribution.learn_attempt(ended)
    assert distribution.estimate(job()) == 100.0
    assert drawn(distribution, job(), 0.5) == pytest.approx(50.0)


def test_attempts_that_run_count_as_longer_ones() -> None:
    """Kaplan and Meier's estimate by hand: of 1, 2+, 3, 4+ S is 3/4 from 1 on, 3/8 from 3 on."""
    values = np.array([3.0, 1.0])
    found = survival(values, np.zeros(2), np.array([2.0, 4.0]), np.zeros(2))
    assert found.weights.tolist() == [3 / 8, 1 / 4]
    assert (found.beyond, found.tail.last, found.tail.exponent) == (3 / 8, 3.0, 0.0)
    assert found.tail.mean == pytest.approx(3.0 / -np.log(3 / 8))
    # half of those that have run to the end of what is known run on for a mean of ln 2
    longer = found.longer_than(3.0, np.array([0.5]))
    assert longer == pytest.approx([3.0 + found.tail.mean * np.log(2.0)])


@pytest.mark.parametrize("index", [0.0, 4.0])
def test_a_tail_is_of_the_kind_that_is_likelier(index: float) -> None:
    """Exponential or Pareto's, also where a third still runs: its index within a quarter."""
    rng = np.random.default_rng(1)
    values = rng.pareto(index, 2000) + 1.0 if index else rng.exponential(1.0, 2000)
    until = values * rng.uniform(0.5, 2.0, 2000)
    ended, runs = values[values <= until], until[values > until]
    found = survival(ended, np.zeros(len(ended)), runs, np.zeros(len(runs)))
    assert found.tail.exponent == pytest.approx(index, rel=0.25)


def test_estimates_from_past_runs_are_trusted_more_than_others() -> None:
    """First jobs of a kind are declared twice or half as long; after that the kind is known.

    So a job of a kind with one run is drawn near it, and one of a new kind from far around.
    """
    distribution = RuntimeDistribution(make_estimator("last-3"))
    for kind in range(40):
        took = 100.0 * 4.0 ** (kind % 3)
        one = job(f"k{kind}", took * (2.0 if kind % 2 else 0.5))
        for _ in range(2):
            distribution.learn(one, ONE, took, "succeeded")
    low, high = (drawn(distribution, job("k1"), u) for u in (0.1, 0.9))
    assert (low, high) == pytest.approx((400.0, 400.0), rel=0.01)
    low, high = (drawn(distribution, job("new", 400.0), u) for u in (0.1, 0.9))
    assert high > 2 * low


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))]
)
def test_a_window_of_time_has_neither_too_many_long_attempts_nor_too_few(seed: int) -> None:
    """Exponential attempts, of which only those are known that ended in a window, or still run.

    The mean of those that ended before its end, when it is the farm's beginning, is too low.
    """
    rng = np.random.default_rng(seed)
    began = rng.uniform(0.0, 1000.0, 20_000)
    times = rng.exponential(200.0, 20_000)
    for since, at in ((0.0, 300.0), (600.0, 1000.0)):
        ended = (began + times <= at) & (began + times >= since)
        runs = (began <= at) & (began + times > at)
        spans = [times[ended], at - began[runs]]
        entries = [np.maximum(since - began[one], 0.0) for one in (ended, runs)]
        found = survival(spans[0], entries[0], spans[1], entries[1])
        assert found.mean_beyond(0.0) == pytest.approx(200.0, rel=0.1)
    assert times[began + times <= 300.0].mean() < 130.0


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


@given(st.lists(positive, min_size=1, max_size=30), st.lists(st.floats(0, 1), min_size=2))
def test_quantiles_do_not_fall(values: list[float], us: list[float]) -> None:
    """An inverse distribution function rises, so common random numbers keep their order."""
    found = alone(values).longer_than(0.0, np.array(sorted(us)))
    assert found is not None
    assert found.tolist() == sorted(found)


@given(st.lists(positive, min_size=1, max_size=20), st.lists(positive, max_size=20))
def test_those_that_are_larger_are_larger(values: list[float], bounds: list[float]) -> None:
    """What is drawn for one that has not ended is never smaller than that."""
    none = np.zeros(len(values)), np.zeros(len(bounds))
    found = survival(np.array(values), none[0], np.array(bounds), none[1])
    assert found.weights.sum() + found.beyond == pytest.approx(1.0)
    for bound in bounds:
        longer = found.longer_than(bound, EVENLY)
        assert longer is None or (longer >= bound).all()


def test_the_tail_of_values_that_are_infinite() -> None:
    """A ratio to an estimate of next to nothing: it was seen, and from where on, as infinite."""
    values = np.array([*np.geomspace(1.0, 9.0, 40), np.inf])
    for entered in (np.zeros(41), np.where(np.isinf(values), np.inf, 0.0)):
        found = survival(values, entered, np.zeros(0), np.zeros(0))
        assert np.isfinite(found.weights).all()


@pytest.mark.slow
def test_declared_times_count_from_the_first_run_on() -> None:
    """Once they are believed: estimates made without them say nothing of what they are worth.

    Lines through estimates of both sorts had a slope of 0.2 to 0.9, and sums were a tenth too long.
    """
    rng, slopes, sums = np.random.default_rng(4), [], []
    for _ in range(20):
        distribution = RuntimeDistribution(make_estimator("learned"))
        times = np.minimum(240.0 * rng.random(300) ** (-1 / 1.3), 7200.0)
        declared = times * np.exp(0.4 * rng.standard_normal(300))
        jobs = [
            Job(id=str(n), kind="k", service_time=1.0, declared_time=told)
            for n, told in enumerate(declared)
        ]
        for one, time in zip(jobs[:60], times[:60], strict=True):
            distribution.estimate(one)
            distribution.learn(one, ONE, time, "succeeded")
        if not distribution.basis(jobs[60]).declared:
            continue
        found = [one for job in jobs[60:] if (one := distribution.spread(job)) is not None]
        logarithms = np.log(declared[60:]), np.log([one.time for one in found])
        slopes.append(np.polyfit(*logarithms, 1)[0])
        sums.append(sum(one.time * one.factors.mean() for one in found) / times[60:].sum())
    assert len(slopes) > 5
    assert min(slopes) > 0.75
    assert np.mean(sums) == pytest.approx(1.0, abs=0.06)
