"""The learned estimator: the kind's median, until what else jobs have in common was better."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence

import pytest

from farm.core.model import Builder, Job
from farm.forecasts.runtime import interface
from farm.forecasts.runtime.learned import Learned

BUILDER = Builder(id="b", pool="p", index=1, processors=("amd64",))


def job(number: int, kind: str = "build", **more: object) -> Job:
    """Return one of many jobs."""
    return Job(id=f"{kind}-{number}", service_time=1.0, kind=kind, **more)


def taught(jobs: Sequence[Job], time_of: Callable[[int], float]) -> Learned:
    """Return an estimator that was asked about each job, and then told how long it took."""
    estimator = Learned()
    for number, one in enumerate(jobs):
        estimator.estimate(one)
        estimator.learn(one, BUILDER, time_of(number), "succeeded")
    return estimator


def test_a_few_runs_give_the_kinds_median():
    """Whatever else the jobs have in common: it has not shown yet that it is better."""
    users = [{"user": "ann"}, {"user": "bob"}] * 5
    jobs = [job(n, attributes=one) for n, one in enumerate(users)]
    estimator = taught(jobs, lambda n: [60.0, 600.0, 61.0][n % 3])
    assert estimator.estimate(job(99, attributes={"user": "ann"})) == 61.0
    assert estimator.basis(job(99)).rung == "the kind's median"
    assert estimator.basis(job(99)).samples == 10


def test_users_that_build_other_things_are_distinguished():
    """After some tens of runs."""
    jobs = [job(n, attributes={"user": "ann" if n % 2 else "bob"}) for n in range(80)]
    estimator = taught(jobs, lambda n: 60.0 if n % 2 else 600.0)
    assert estimator.estimate(job(99, attributes={"user": "ann"})) == 60.0
    assert estimator.estimate(job(98, attributes={"user": "bob"})) == 600.0
    assert "user" in estimator.basis(job(98, attributes={"user": "bob"})).rung


def test_what_was_said_at_submission_is_judged():
    """A burst that is submitted before its first job ends cannot be known from its own jobs."""
    estimator = Learned()
    for burst in range(30):
        together = [job(100 * burst + n) for n in range(6)]
        for one in together:
            estimator.estimate(one)
        for one in together:
            estimator.learn(one, BUILDER, [600.0, 60.0, 60.0, 10.0, 70.0][burst % 5], "succeeded")
    # the last two runs tell the rest of a burst, but not the next one
    assert estimator.basis(job(9999)).rung == "the kind's median"


def test_declared_times_count_as_they_came_out():
    """Submitters who always declare three times as much as it takes."""
    rng = random.Random(1)
    times = [rng.uniform(60, 6000) for _ in range(80)]
    jobs = [job(n, declared_time=3 * time) for n, time in enumerate(times)]
    estimator = taught(jobs, times.__getitem__)
    assert estimator.estimate(job(99, declared_time=900.0)) == pytest.approx(300.0)


def test_a_new_name_is_like_those_that_differ_in_numbers():
    """Shard 7 of a test is like its other shards; a declared time goes before that."""
    jobs = [job(n, kind=f"test-shard-{n}") for n in range(5)]
    estimator = taught(jobs, lambda n: 100.0 + n)
    assert estimator.estimate(job(1, kind="test-shard-77")) == 102.0
    assert estimator.estimate(job(1, kind="test-shard-77", declared_time=5.0)) == 5.0
    assert estimator.estimate(job(1, kind="other")) == 300.0


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 3))]
)
def test_medians_and_declared_times_are_combined(seed: int):
    """Sixty kinds of few jobs, whose declared times err as much as their medians do."""
    rng = random.Random(seed)
    levels = [rng.lognormvariate(6, 0.6) for _ in range(60)]
    estimator, errors, of_median = Learned(), [], []
    runs: dict[int, list[float]] = {}
    for n in range(600):
        kind = rng.randrange(60)
        time = levels[kind] * rng.lognormvariate(0, 0.6)
        declared = time * rng.lognormvariate(0, 0.7)
        one = job(n, kind=f"kind of letter {chr(65 + kind)}", declared_time=declared)
        estimated, known = estimator.estimate(one), runs.setdefault(kind, [])
        if n >= 300:
            errors.append(abs(estimated - time))
            of_median.append(abs((statistics.median(known) if known else estimated) - time))
        estimator.learn(one, BUILDER, time, "succeeded")
        known.append(time)
    assert sum(errors) < 0.9 * sum(of_median)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))]
)
def test_never_much_worse_than_the_kinds_median(seed: int):
    """On jobs whose attributes say nothing, by mean absolute error over the second half."""
    rng = random.Random(seed)
    jobs = [
        job(n, attributes={"user": rng.choice("abc"), "x": rng.choice("de")}) for n in range(600)
    ]
    times = [rng.lognormvariate(5, 1.5) for _ in jobs]
    estimator, errors, of_median = Learned(), [], []
    for n, one in enumerate(jobs):
        if n >= 300:
            errors.append(abs(estimator.estimate(one) - times[n]))
            of_median.append(abs(statistics.median(times[max(0, n - 200) : n]) - times[n]))
        estimator.estimate(one)
        estimator.learn(one, BUILDER, times[n], "succeeded")
    assert sum(errors) <= 1.02 * sum(of_median)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """The groups that were not used for longest are forgotten first."""
    monkeypatch.setattr(interface, "MOST_REMEMBERED", 20)
    estimator = taught([job(n, kind=f"k{n}x") for n in range(100)], lambda n: 10.0 + n)
    state = estimator.dump()
    assert len(state["runs"]) == 20
    assert len(state["errors"]) == 20
    assert estimator.estimate(job(1, kind="k99x")) == 109.0
    assert estimator.basis(job(1, kind="k5x")).rung != "the kind's median"
