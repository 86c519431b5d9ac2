"""Whatever happened, every estimator stays safe, deterministic and restartable."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.model import Builder, Job, Outcome
from farm.forecasts.runtime.estimator_registry import ESTIMATORS, make_estimator
from farm.forecasts.runtime.interface import JobProgress
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.sim.rollouts.draws import RunningJob, RunTimes
from tests.fixtures.examples import examples

any_float = st.floats(allow_nan=True, allow_infinity=True)
maybe = st.none() | any_float
builders = st.builds(
    Builder,
    id=st.sampled_from(["a", "b", "c"]),
    pool=st.just("p"),
    index=st.just(0),
    speed=any_float,
    labels=st.sampled_from(
        [{}, {"availability": "nan"}, {"availability": "0.3"}, {"anonymous": "true"}]
    ),
)
jobs = st.builds(
    Job,
    id=st.just("j"),
    service_time=any_float,
    declared_time=maybe,
    size=maybe,
    kind=st.sampled_from(["unit", "snap:x", "recipe:y", "k@1", "k@2", "k@gcc-3"]),
    attributes=st.sampled_from([{}, {"resource": "gpu"}]),
)
outcomes: st.SearchStrategy[Outcome] = st.sampled_from(["succeeded", "failed", "cancelled"])
attempts = st.tuples(jobs, builders, any_float, outcomes, st.integers(1, 130))
histories = st.lists(attempts, max_size=8)


def usable(time: float) -> bool:
    """Return whether a scheduler can use this time."""
    return 0.0 <= time < math.inf


def taught(
    name: str, history: list[tuple[Job, Builder, float, Outcome, int]]
) -> RuntimeDistribution:
    """Return an estimator that has learned each attempt this many times."""
    estimator = RuntimeDistribution(make_estimator(name))
    for job, builder, elapsed, outcome, times in history:
        for _ in range(times):
            estimator.learn(job, builder, elapsed, outcome)
    return estimator


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@examples(60)
@given(histories, jobs, builders, maybe, maybe)
def test_estimates_are_finite(name, history, job, builder, elapsed, fraction) -> None:
    """A wrong estimate never breaks a run: no error, no NaN, nothing infinite or negative."""
    estimator = taught(name, history)
    elapsed = 0.0 if elapsed is None else elapsed
    assert usable(estimator.estimate(job))
    assert usable(estimator.estimate(job, builder))
    progress = None if fraction is None else JobProgress(fraction, elapsed)
    assert usable(estimator.remaining(job, builder, elapsed, progress))
    if (found := estimator.spread(job, builder)) is not None:
        assert all(map(usable, (found.time, *found.factors)))
    since = -elapsed if usable(elapsed) else 0.0
    for began_at in (0.0, since):
        attempt = RunningJob(job, builder, began_at, began_at)
        ends = RunTimes(estimator, [attempt], 0.0, 1, 3).ends
        assert all(map(usable, ends[:, 0]))


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@examples(40)
@given(histories, histories, jobs, builders)
def test_a_restart_changes_nothing(name, before, after, job, builder) -> None:
    """Dumped, through JSON text, loaded: the same estimates, also later on."""
    estimator = taught(name, before)
    again = RuntimeDistribution(make_estimator(name))
    again.load(json.loads(json.dumps(estimator.dump(), allow_nan=False)))
    for each in (estimator, again):
        for past, on, elapsed, outcome, _ in after:
            each.learn(past, on, elapsed, outcome)
    assert again.estimate(job) == estimator.estimate(job)
    assert again.estimate(job, builder) == estimator.estimate(job, builder)
    assert again.dump() == estimator.dump()


run_times = st.floats(0.01, 1e5)


@pytest.mark.parametrize("name", ["boinc", "boinc-2010", "last-3"])
@examples(30)
@given(st.lists(run_times, min_size=11, max_size=40), run_times)
def test_estimates_stay_within_what_was_seen(name, times, declared) -> None:
    """With its own history a builder's estimate lies between its shortest and longest run."""
    estimator = make_estimator(name)
    builder = Builder(id="a", pool="p", index=0)
    job = Job(id="j", service_time=1.0, declared_time=declared)
    for time in times:
        estimator.learn(job, builder, time, "succeeded")
    estimate = estimator.estimate(job, builder)
    # above its longest run only because of the cap on outliers
    most = max(*times, declared / 250)
    assert min(times) * (1 - 1e-9) <= estimate <= most * (1 + 1e-9)


@examples(30)
@given(st.lists(run_times, min_size=1, max_size=20), run_times)
def test_a_correction_factor_moves_towards_each_run(times, declared) -> None:
    """Never past it, and never beyond a hundred times what was declared, or a hundredth of it."""
    estimator = make_estimator("boinc-dcf")
    builder = Builder(id="a", pool="p", index=0)
    job = Job(id="j", service_time=1.0, declared_time=declared)
    for time in times:
        seen = min(max(time, declared / 100), declared * 100)
        least, most = sorted((estimator.estimate(job, builder), seen))
        estimator.learn(job, builder, time, "succeeded")
        assert least * (1 - 1e-9) <= estimator.estimate(job, builder) <= most * (1 + 1e-9)
