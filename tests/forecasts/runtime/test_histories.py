"""last-3 and launchpad: which runs count, and how much."""

from typing import Any

import pytest

from farm.core.model import Builder, Job, Platform
from farm.forecasts.runtime import interface
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.forecasts.runtime.quantiles import RuntimeDistribution

SLOW = Builder(id="slow", pool="p", index=0)
FAST = Builder(id="fast", pool="p", index=1, speed=4.0)


def job(kind: str, processor: str | None = None, size: float | None = None) -> Job:
    """A job of a kind, on a processor, of a size in KB."""
    return Job(id="j", service_time=1.0, kind=kind, platform=Platform(processor), size=size)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], 300.0),
        ([10.0], 10.0),
        ([10.0, 20.0], 15.0),
        ([10.0, 20.0, 60.0], 30.0),
        ([1000.0, 10.0, 20.0, 60.0], 30.0),
    ],
)
def test_last_three(runs: list[float], expected: float) -> None:
    """The mean of at most three, the oldest forgotten."""
    estimator = make_estimator("last-3")
    for run in runs:
        estimator.learn(job("unit"), SLOW, run, "succeeded")
    assert estimator.estimate(job("unit")) == pytest.approx(expected)
    assert estimator.estimate(job("other")) == 300.0


@pytest.mark.parametrize("name", ["last-3", "launchpad"])
def test_only_successes_count(name: str) -> None:
    """A job that fails early says nothing about how long it takes."""
    estimator = make_estimator(name)
    estimator.learn(job("unit"), SLOW, 50.0, "succeeded")
    estimator.learn(job("unit"), SLOW, 1.0, "failed")
    estimator.learn(job("unit"), SLOW, 2.0, "cancelled")
    estimator.learn(job("unit"), SLOW, float("nan"), "succeeded")
    assert estimator.estimate(job("unit")) == 50.0


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("name", ["last-3", "launchpad"])
def test_the_kinds_used_longest_ago_are_forgotten(
    name: str, wrapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kinds whose names are made up, with a number in each, are without end."""
    monkeypatch.setattr(interface, "MOST_REMEMBERED", 20)
    estimator = RuntimeDistribution(make_estimator(name)) if wrapped else make_estimator(name)
    for number in range(100):
        estimator.learn(job(f"unit-{number}"), SLOW, 50.0, "succeeded")
        estimator.learn(job("usual"), SLOW, 70.0, "succeeded")
    state = estimator.dump()
    inner: Any = state["statistics"] if wrapped else state
    for runs in (inner["runs"], state.get("work_by_kind", inner["runs"])):
        assert list(runs) == [*(f"unit-{number}" for number in range(81, 100)), "usual"]
    assert estimator.estimate(job("usual")) == 70.0


@pytest.mark.parametrize("name", ["last-3", "launchpad"])
def test_speeds_are_levelled(name: str) -> None:
    """What takes a fast builder 10 s takes 40 s at speed 1, and 10 s there again."""
    estimator = make_estimator(name)
    estimator.learn(job("unit"), FAST, 10.0, "succeeded")
    assert estimator.estimate(job("unit")) == 40.0
    assert estimator.estimate(job("unit"), SLOW) == 40.0
    assert estimator.estimate(job("unit"), FAST) == 10.0


def test_launchpad_by_family() -> None:
    """A binary takes its newest run, the others the median of nine, recipes the lower one."""
    estimator = make_estimator("launchpad")
    for kind in ("bash", "snap:core", "recipe:daily"):
        for run in (9000.0, 100.0, 400.0, 300.0, 200.0, 500.0, 600.0, 700.0, 800.0, 50.0):
            estimator.learn(job(kind), SLOW, run, "succeeded")
    # the first of the ten is forgotten; sorted: 50 100 200 300 [400] 500 600 700 800
    assert estimator.estimate(job("bash")) == 50.0
    assert estimator.estimate(job("snap:core")) == 400.0
    assert estimator.estimate(job("recipe:daily")) == 400.0


def test_launchpad_keeps_processors_apart_except_for_recipes() -> None:
    """A build on another processor is a different build; a recipe builds source."""
    estimator = make_estimator("launchpad")
    for kind in ("bash", "recipe:daily"):
        estimator.learn(job(kind, "arm64"), SLOW, 77.0, "succeeded")
    assert estimator.estimate(job("bash", "arm64")) == 77.0
    assert estimator.estimate(job("bash", "amd64")) == 300.0
    assert estimator.estimate(job("recipe:daily", "amd64")) == 77.0


def test_launchpad_without_a_history() -> None:
    """A minute and 6 KB a second in whole minutes for packages, otherwise a default by family."""
    estimator = make_estimator("launchpad")
    assert estimator.estimate(job("bash", size=100.0)) == 60.0
    assert estimator.estimate(job("linux", size=36_000.0)) == 6060.0
    assert estimator.estimate(job("bash", size=float("inf"))) == 300.0
    assert estimator.estimate(job("oci:web")) == 1800.0
    assert estimator.estimate(job("translationtemplates")) == 10.0
