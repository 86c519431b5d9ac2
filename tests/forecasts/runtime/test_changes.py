"""A kind whose jobs take longer than before: the old runs are forgotten, and nothing else is."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from farm.core.model import Builder, Job
from farm.core.rules import EndedAttempt
from farm.forecasts.runtime.changes import runs_since_change
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.forecasts.runtime.learned import Learned
from farm.forecasts.runtime.quantiles import RuntimeDistribution

ONE = Builder(id="one", pool="p", index=0)


def runs(median: float, sigma: float, count: int, seed: int = 1) -> list[float]:
    """Return run times that vary."""
    rng = random.Random(seed)
    return [median * rng.lognormvariate(0.0, sigma) for _ in range(count)]


def learn(distribution: RuntimeDistribution, kind: str, times: list[float], since: float) -> None:
    """Let jobs of a kind run one after the other, ten minutes apart."""
    for number, time in enumerate(times):
        job = Job(id=f"{kind}-{since}-{number}", kind=kind, service_time=time)
        distribution.estimate(job)
        began_at = since + 600.0 * number
        distribution.learn_attempt(
            EndedAttempt(job, ONE, began_at, began_at + time, "succeeded", None)
        )


def drawn_mean(distribution: RuntimeDistribution, kind: str) -> float:
    """Return the mean of the run times that are drawn for a kind."""
    found = distribution.spread(Job(id="next", kind=kind, service_time=1.0))
    assert found is not None
    return float(found.time * np.mean(found.factors))


def test_a_doubling_is_noticed_after_ten_to_twenty_runs() -> None:
    """Not by the first longer run, which may be chance, but long before the history is replaced."""
    times = runs(300.0, 0.4, 100) + runs(600.0, 0.4, 20, seed=2)
    noticed = [n for n in range(1, 21) if runs_since_change(times[: 100 + n]) is not None]
    assert 4 <= noticed[0] <= 15


@pytest.mark.parametrize("sigma", [0.0, 0.3, 1.6])
def test_chance_is_no_change(sigma: float) -> None:
    """Runs of one distribution, heavy tails too: their history is kept."""
    found = [
        runs_since_change(runs(300.0, sigma, 200, seed)[:count])
        for seed in range(5)
        for count in range(20, 201, 9)
    ]
    assert sum(one is not None for one in found) <= len(found) * 0.01


@pytest.mark.parametrize("source", ["learned", "last-3"])
def test_what_is_drawn_follows_a_change(source: str) -> None:
    """The kind that doubles is soon drawn as it is, the other one as before."""
    distribution = RuntimeDistribution(make_estimator(source))
    learn(distribution, "other", runs(100.0, 0.3, 40), 0.0)
    learn(distribution, "build", runs(300.0, 0.4, 120), 0.0)
    before = drawn_mean(distribution, "other")
    learn(distribution, "build", runs(600.0, 0.4, 30, seed=2), 90_000.0)
    assert drawn_mean(distribution, "build") == pytest.approx(650.0, rel=0.15)
    assert drawn_mean(distribution, "other") == before


def test_jobs_without_kinds_change_from_one_to_the_next() -> None:
    """A burst of short jobs among long ones is no change: the long ones still come.

    Nor is it one where a few jobs are of another kind.
    """
    distribution = RuntimeDistribution(make_estimator("learned"))
    learn(distribution, "other", [50.0] * 3, 0.0)
    learn(distribution, "job", runs(1000.0, 0.3, 60), 0.0)
    learn(distribution, "job", runs(100.0, 0.3, 30), 60_000.0)
    assert distribution.known_of("job") == 90


def test_the_learned_median_follows_a_change() -> None:
    """The median of two hundred runs would be the old one for a hundred jobs."""
    learned = Learned()
    for kind, times in (("a", [50.0] * 20), ("b", [300.0] * 100 + [600.0] * 12)):
        for time in times:
            learned.learn(Job(id="x", kind=kind, service_time=time), ONE, time, "succeeded")
    assert learned.estimate(Job(id="y", kind="b", service_time=1.0)) == 600.0


def test_no_declared_time_of_before_a_change_is_kept() -> None:
    """Where few jobs of a kind have one, as many of them as runs would be those of before."""
    distribution = RuntimeDistribution(Learned())
    learn(distribution, "other", [50.0] * 20, 0.0)
    for number in range(160):
        time = 300.0 if number < 140 else 900.0
        declared = 300.0 if number % 3 == 0 else None
        one = Job(id=f"b{number}", kind="build", service_time=time, declared_time=declared)
        distribution.estimate(one)
        ended = EndedAttempt(one, ONE, 600.0 * number, 600.0 * number + time, "succeeded", None)
        distribution.learn_attempt(ended)
    dump: Any = distribution.dump()
    assert dump["changed"] == dump["changed_declared"] == ["build"]
    assert set(dump["ended_declared"]["build"]) < set(dump["ended_by_kind"]["build"])
    kept = dump["statistics"]["runs"]
    pairs = zip(kept["declared build"], kept["kind build"], strict=True)
    assert {(ratio, time) for ratio, time in pairs if ratio} <= {(1.0, 300.0), (3.0, 900.0)}


def test_a_history_that_a_change_leaves_empty_is_removed() -> None:
    """Of jobs that had a declared time before the change only, none is known any more."""
    distribution = RuntimeDistribution(Learned())
    learn(distribution, "other", [50.0] * 20, 0.0)
    for number in range(60):
        time, declared = (300.0 if number < 40 else 900.0), (300.0 if number < 20 else None)
        one = Job(id=f"b{number}", kind="build", service_time=time, declared_time=declared)
        ended = EndedAttempt(one, ONE, 600.0 * number, 600.0 * number + time, "succeeded", None)
        distribution.learn_attempt(ended)
    dump: Any = distribution.dump()
    assert len(dump["ended_by_kind"]["build"]) < 30
    assert "build" not in dump["ended_declared"]


def test_a_change_survives_a_restart() -> None:
    """The history says that it is a window of time, whose running attempts count differently."""
    first = RuntimeDistribution(make_estimator("last-3"))
    learn(first, "other", [50.0] * 20, 0.0)
    learn(first, "build", runs(300.0, 0.2, 60) + runs(900.0, 0.2, 15), 0.0)
    second = RuntimeDistribution(make_estimator("last-3"))
    second.load(json.loads(json.dumps(first.dump())))
    assert second.known_of("build") == first.known_of("build") < 60
    assert second.dump() == first.dump()
    assert second.dump()["changed"] == ["build"]
