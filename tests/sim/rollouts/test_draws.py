"""Drawn run times add up to what jobs take: those that wait, and the rests of those that run."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.model import Builder, Job
from farm.core.rules import EndedAttempt
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.sim.rollouts.draws import RunningJob, RunTimes, ServiceTimes, _equally_likely

Times = Callable[[np.random.Generator], float]

SLOTS, RUNS = 20, 40
ONE = Builder(id="one", pool="p", index=0)


def uniform(rng: np.random.Generator) -> float:
    """Between 2 and 18 minutes."""
    return float(rng.uniform(120.0, 1080.0))


def heavy(rng: np.random.Generator) -> float:
    """Pareto's: most take minutes, a few up to two hours."""
    return float(min(180.0 * rng.random() ** (-1 / 1.3), 7200.0))


def told_and_true(
    name: str, times: Times, minutes: float, *, declared: bool = True
) -> tuple[float, float]:
    """Keep slots busy so long; return the told sums of waiting times and of rests, by the true."""
    sums = np.zeros((2, 2))
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)

        def submitted(number: int, rng: np.random.Generator = rng) -> Job:
            took = times(rng)
            said = took * np.exp(0.7 * rng.standard_normal()) if declared else None
            return Job(id=str(number), kind="k", service_time=took, declared_time=said)

        learned, at = RuntimeDistribution(make_estimator(name)), 60.0 * minutes
        running = [(job.service_time, 0.0, n, job) for n in range(SLOTS) if (job := submitted(n))]
        heapq.heapify(running)
        serial = SLOTS
        while running[0][0] <= at:
            end, began, _, job = running[0]
            learned.learn_attempt(EndedAttempt(job, ONE, began, end, "succeeded", None))
            job, serial = submitted(serial), serial + 1
            heapq.heapreplace(running, (end + job.service_time, end, serial, job))
        going = [RunningJob(job, ONE, began, began) for _, began, _, job in running]
        waiting = [submitted(serial + n) for n in range(200)]
        drawn = RunTimes(learned, going, at, seed, 20)
        service = ServiceTimes(drawn, waiting, seed, 20)
        sums[0] += np.mean([service.of(n).sum() for n in range(20)]), (drawn.ends - at).sum() / 20
        sums[1] += sum(job.service_time for job in waiting), sum(one[0] - at for one in running)
    waits, rests = sums[0] / sums[1]
    return float(waits), float(rests)


@pytest.mark.slow
def test_a_young_farm_does_not_count_its_long_attempts_twice() -> None:
    """Estimates of past runs grow as long attempts end: that says nothing of what waits."""
    waits, rests = told_and_true("learned", uniform, 40.0, declared=False)
    assert waits == pytest.approx(1.0, abs=0.05)
    assert rests == pytest.approx(1.0, abs=0.1)


def test_what_runs_tells_how_long_declared_jobs_are() -> None:
    """The longest have not ended: by what has, a line through declared times is too flat."""
    waits, rests = told_and_true("declared", heavy, 80.0)
    assert waits == pytest.approx(1.0, abs=0.1)
    assert 0.65 < rests < 1.1


def test_rollouts_of_a_young_farm_differ_as_much_as_little_is_known() -> None:
    """Kinds of one run each: the sum of many jobs is as uncertain as the mean of what has ended."""
    told = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        learned = RuntimeDistribution(make_estimator("last-3"))
        took = 600.0 * rng.lognormal(0.0, 0.6, (2, 30))
        for time, kind in zip(took[:1].T, range(30), strict=True):
            for number in range(2):
                job = Job(id=f"{kind} {number}", kind=str(kind), service_time=float(time[0]))
                learned.learn(job, ONE, float(took[number, kind]), "succeeded")
        waiting = [Job(id=str(n), kind=str(n % 30), service_time=600.0) for n in range(600)]
        service = ServiceTimes(RunTimes(learned, [], 0.0, seed, 40), waiting, seed, 40)
        sums = [service.of(n).sum() for n in range(40)]
        told.append((np.mean(sums), np.std(sums)))
    means, spreads = np.array(told).T
    assert spreads.mean() / means.std() == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize(("error", "least", "most"), [(0.7, 1.0, 3.0), (0.0, 0.0, 0.0)])
def test_how_far_declared_times_tell_jobs_apart_is_as_uncertain_as_it_is_known(
    error: float, least: float, most: float
) -> None:
    """What is said to be long is by so much longer as a line errs that is drawn through few."""
    slopes = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        learned = RuntimeDistribution(make_estimator("declared"))
        took = 60.0 * np.exp(rng.standard_normal(80))
        said = (took * np.exp(error * rng.standard_normal(80))).tolist()
        for number in range(80):
            job = Job(id=str(number), kind="k", service_time=1.0, declared_time=said[number])
            learned.learn(job, ONE, float(took[number]), "succeeded")
        waiting = [
            Job(id=f"{length} {n}", kind="k", service_time=1.0, declared_time=length)
            for length in (20.0, 200.0)
            for n in range(400)
        ]
        service = ServiceTimes(RunTimes(learned, [], 0.0, seed, 40), waiting, seed, 40)
        short, long = np.array([service.of(n) for n in range(40)]).reshape(40, 2, 400).sum(2).T
        slopes.append((np.log(long / short).mean(), np.log(long / short).std()))
    means, spreads = np.array(slopes).T
    assert least * means.std() - 1e-9 <= spreads.mean() <= most * means.std() + 1e-9
    if not error:
        assert means == pytest.approx(np.log(10.0))


@given(st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(0.01, 1.0)), min_size=1, max_size=30))
def test_equally_likely_values_have_the_mean_of_weighted_ones(row: list) -> None:
    """However skewed: a queue is as long as the sum of its jobs."""
    values, weights = np.array([row]).transpose(2, 0, 1)
    found = _equally_likely(values, weights)
    assert found.mean() == pytest.approx((values * weights).sum() / weights.sum())
    assert (np.diff(found) >= -1e-9 * values.max()).all()


def test_jobs_of_a_kind_with_few_runs_err_together() -> None:
    """Were each drawn for itself, the errors of a queue would cancel out."""
    rng = np.random.default_rng(3)
    learned = RuntimeDistribution(make_estimator("last-3"))
    for kind in range(30):
        for _ in range(2):
            learned.learn(_of(kind), ONE, 100.0 * np.exp(0.5 * rng.standard_normal()), "succeeded")
    waiting = [_of(kind, n) for kind in range(30) for n in range(8)]
    service = ServiceTimes(RunTimes(learned, [], 0.0, 1, 200), waiting, 1, 200)
    drawn = np.log([service.of(number) for number in range(200)]).reshape(200, 30, 8)
    means = drawn.mean(axis=2)
    # alone the standard deviation of a mean of eight would be a third of that
    assert 0.2 < (means - means.mean(axis=0)).std(axis=0).mean() < 0.5
    # and no two kinds have their error in common
    assert abs(np.corrcoef(means, rowvar=False) - np.eye(30)).mean() < 0.15


def _of(kind: int, number: int = 0) -> Job:
    return Job(id=f"{kind}-{number}", kind=f"k{kind}", service_time=1.0)


@pytest.mark.parametrize(
    ("kinds", "least", "most"), [(("job",), 0.5, 0.75), (("long", "short"), 0.0, 0.0)]
)
def test_without_kinds_what_ended_last_counts_more(kinds, least, most) -> None:
    """A burst of short jobs after long ones: half of the rollouts draw from the burst alone."""
    learned = RuntimeDistribution(make_estimator("declared"))
    builder = Builder(id="b", pool="p", index=0)
    # a single job of another kind, as a probe is, does not make kinds of them
    learned.learn(Job(id="probe", kind="probe", service_time=1.0), builder, 1.0, "succeeded")
    for number in range(150):
        kind = kinds[-1] if number >= 100 else kinds[0]
        time = (50.0 if number >= 100 else 1000.0) + number % 7
        job = Job(id=str(number), kind=kind, service_time=time, declared_time=100.0)
        learned.learn(job, builder, time, "succeeded")
    times = RunTimes(learned, [], 0.0, 1, 200)
    spread = times.spread(Job(id="next", kind=kinds[0], service_time=1.0, declared_time=100.0))
    assert spread is not None
    drawn = times.factors_of(spread.name, spread) * spread.time
    of_burst = (drawn.max(axis=1) < 100.0).mean()
    assert least <= of_burst <= most


@pytest.mark.parametrize("name", ["declared", "learned"])
def test_a_burst_that_is_declared_to_be_short_is_taken_as_short(name: str) -> None:
    """Each declared time errs, but not all of a queue: none of it has ended by which it is known.

    Otherwise the jobs of a burst are drawn as twice as long as they are, while old ones end.
    """
    rng = np.random.default_rng(3)

    def submitted(number: int, median: float) -> Job:
        took = median * np.exp(0.8 * rng.standard_normal())
        said = took * np.exp(1.0 * rng.standard_normal())
        return Job(id=str(number), kind="job", service_time=took, declared_time=said)

    learned = RuntimeDistribution(make_estimator(name))
    for number in range(150):
        old = submitted(number, 1000.0)
        learned.learn(old, ONE, old.service_time, "succeeded")
    ratios = []
    for median in (200.0, 1000.0):
        waiting = [submitted(1000 + number, median) for number in range(300)]
        service = ServiceTimes(RunTimes(learned, [], 0.0, 1, 20), waiting, 1, 20)
        drawn = np.mean([service.of(n).sum() for n in range(20)])
        ratios.append(drawn / sum(job.service_time for job in waiting))
    assert ratios == pytest.approx([1.0, 1.0], abs=0.25)
