"""Algorithms that smooth their input."""

from __future__ import annotations

from typing import Any

import pytest

from farm.core.pools.algorithm import PoolSnapshot
from provisioner.algorithms.buildbarn import Buildbarn, quantile
from provisioner.algorithms.jenkins import Jenkins, LoadStatistics


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([3.0], 0.95, 3.0),
        ([0.0, 10.0], 0.95, 9.5),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 0.5, 3.0),
        ([2.0, 1.0], 1.0, 2.0),
        ([1.0, 2.0, 9.0], 0.25, 1.5),
    ],
)
def test_quantile(values: list[float], share: float, expected: float) -> None:
    """Protects the interpolation that Prometheus uses."""
    assert quantile(sorted(values), 0, len(values), share) == pytest.approx(expected)


def test_buildbarn_follows_the_quantile_of_its_window(plans: Any) -> None:
    """Protects the formula and the window's end: old demand is forgotten, not averaged away."""
    pools = [{"at": 0.0, "waiting_jobs": 40, "running_jobs": 60, "busy": 60}]
    pools += [{"at": 60.0 * k} for k in range(1, 6)]
    sizes = [plan.desired for plan in plans(Buildbarn(max=80, window=240.0), *pools)]
    assert sizes == [80, 80, 80, 80, 0, 0]  # 100, 95, 90, 85, then the first is out


@pytest.mark.parametrize(
    ("jobs", "slots", "size"), [(9, 4, 3), (8, 4, 2), (1, 4, 1), (0, 4, 0), (7, 1, 7)]
)
def test_buildbarn_workers_per_capacity_unit(plan: Any, jobs: int, slots: int, size: int) -> None:
    """Protects rounding up to whole builders."""
    assert plan(Buildbarn(max=50), waiting_jobs=jobs, slots=slots)[0] == size


def queue(*waiting: int, **counts: Any) -> list[dict[str, Any]]:
    """Return pools with these queues, ten seconds apart."""
    return [{"at": 10.0 * k, "waiting_jobs": n, **counts} for k, n in enumerate(waiting)]


def test_jenkins_does_nothing_at_first(plans: Any) -> None:
    """Protects the initial delay of 100 s."""
    made = plans(Jenkins(max=50), *queue(*[20] * 11, busy=1, running_jobs=1))
    assert [plan.start for plan in made[:10]] == [0] * 10
    assert made[10].start == 14  # 20 * (1 - 0.9^11) = 13.72, m = 0.3


def test_jenkins_is_sluggish_on_a_growing_queue(plans: Any) -> None:
    """Protects the average: a new queue counts only gradually."""
    eager = Jenkins(max=50, initial_delay=0.0)
    made = plans(eager, *queue(20, 20, 20, busy=1, running_jobs=1))
    assert [plan.start for plan in made] == [2, 4, 5]  # 2.0, 3.8, 5.42, each + 0.3


def test_jenkins_counts_booting_builders(plans: Any) -> None:
    """Protects against asking twice: planned slots are subtracted."""
    eager = Jenkins(max=50, initial_delay=0.0, decay=0.0)
    (made,) = plans(eager, *queue(20, busy=1, running_jobs=1, booting=18))
    assert made.start == 2
    assert plans(eager, *queue(20, busy=1, running_jobs=1, booting=20))[0].start == 0


def test_jenkins_waits_while_a_slot_is_free(plans: Any) -> None:
    """Protects the margin: free slots, now or on average, mean no need."""
    eager = Jenkins(max=50, initial_delay=0.0, decay=0.0)
    assert plans(eager, *queue(20, busy=1, idle=1, running_jobs=1))[0].start == 0


def test_jenkins_asks_for_one_when_there_are_none(plans: Any) -> None:
    """Protects the first job from waiting for the average to rise."""
    assert plans(Jenkins(max=50, initial_delay=0.0), *queue(1))[0].start == 1


def test_jenkins_never_stops_and_keeps_its_minimum(plan: Any) -> None:
    """Protects the division of work: idle time-outs stop builders."""
    assert plan(Jenkins(min=3, max=50), idle=9) == (9, 0, 0)
    assert plan(Jenkins(min=3, max=50)) == (3, 3, 0)


@pytest.mark.parametrize(("slots", "start"), [(0, 0), (1, 0), (4, 0)])
def test_jenkins_without_a_queue(plan: Any, slots: int, start: int) -> None:
    """Protects an idle farm: m alone never starts a builder."""
    assert plan(Jenkins(max=50, initial_delay=0.0), busy=slots, running_jobs=slots)[1] == start


def test_jenkins_starts_for_more_than_what_the_margin_lacks(plan: Any) -> None:
    """Protects the limit itself: half a job on average, beside a margin of a half, is no more."""
    jenkins = Jenkins(max=50, initial_delay=0.0, decay=0.5, margin=0.5, margin0=0.5)
    busy = {"busy": 1, "running_jobs": 1}
    assert plan(jenkins, waiting_jobs=1, **busy)[1] == 0
    assert plan(jenkins, waiting_jobs=2, **busy)[1] == 1


def test_jenkins_counts_on_the_builders_that_boot_now() -> None:
    """Protects from a second start for the same queue: their average only begins to rise."""
    memory = LoadStatistics(began_at=0.0, waiting=5.0)
    snapshot = PoolSnapshot(pool="p", at=200.0, busy=1, running_jobs=1, booting=4, waiting_jobs=5)
    assert Jenkins(max=50).plan(snapshot, memory)[0].start == 1
