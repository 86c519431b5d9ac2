"""Taskcluster's estimator: correct in slots, and in workers as in its simulator."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.algorithms.taskcluster import Taskcluster

Plan = tuple[int, int, int]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, (0, 0, 0)),
        ({"waiting_jobs": 5}, (5, 5, 0)),
        ({"waiting_jobs": 5, "booting": 3}, (5, 2, 0)),
        ({"waiting_jobs": 5, "booting": 7}, (5, 0, 0)),
        ({"waiting_jobs": 5, "idle": 2}, (5, 3, 0)),
        ({"waiting_jobs": 5, "idle": 9}, (9, 0, 0)),
        ({"waiting_jobs": 5, "busy": 4, "running_jobs": 4}, (9, 5, 0)),
        ({"waiting_jobs": 50, "busy": 4, "running_jobs": 4}, (10, 6, 0)),
        ({"waiting_jobs": 50, "busy": 4, "running_jobs": 4, "stopping": 4}, (10, 2, 0)),
        # stale counts: more claimed than there are slots adds nothing
        ({"waiting_jobs": 1, "busy": 2, "running_jobs": 5}, (3, 1, 0)),
    ],
)
def test_one_slot(plan: Any, counts: dict[str, int], expected: Plan) -> None:
    """Protects the formula, min 0, max 10, ratio 1."""
    assert plan(Taskcluster(max=10), **counts) == expected


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"waiting_jobs": 8}, (2, 2, 0)),
        ({"waiting_jobs": 9}, (3, 3, 0)),
        ({"waiting_jobs": 9, "booting": 1}, (3, 2, 0)),
        ({"waiting_jobs": 3, "busy": 1, "running_jobs": 1}, (1, 0, 0)),
        ({"waiting_jobs": 4, "busy": 1, "running_jobs": 1}, (2, 1, 0)),
        ({"waiting_jobs": 400, "busy": 1, "running_jobs": 1}, (10, 9, 0)),
        ({"waiting_jobs": 4, "draining": 2, "draining_jobs": 8}, (3, 1, 0)),
    ],
)
def test_four_slots_a_builder(plan: Any, counts: dict[str, int], expected: Plan) -> None:
    """Protects capacity units: neither too many builders, nor more than max of them."""
    assert plan(Taskcluster(max=10), slots=4, **counts) == expected


@pytest.mark.parametrize(
    ("waiting", "ratio", "start"),
    [(10, 1.0, 10), (10, 0.5, 5), (3, 0.5, 2), (1, 0.1, 1), (9, 0.0, 0)],
)
def test_scaling_ratio(plan: Any, waiting: int, ratio: float, start: int) -> None:
    """Protects the ratio: a fraction of a builder is a builder."""
    assert plan(Taskcluster(max=100, scaling_ratio=ratio), waiting_jobs=waiting)[1] == start


def test_minimum(plan: Any) -> None:
    """Protects the floor: an empty queue still keeps min builders."""
    assert plan(Taskcluster(min=4, max=10), idle=1, booting=1) == (4, 2, 0)


@pytest.mark.parametrize(
    ("counts", "stop"),
    [
        ({"idle": 5}, 5),
        ({"idle": 5, "waiting_jobs": 2}, 3),
        ({"idle": 5, "busy": 3, "running_jobs": 3}, 5),
        ({"idle": 1, "busy": 3, "running_jobs": 3, "waiting_jobs": 4}, 0),
        ({"busy": 12, "running_jobs": 12}, 0),
    ],
)
def test_terminations_are_asked_for(plan: Any, counts: dict[str, int], stop: int) -> None:
    """Protects ``terminate``: idle builders above the target go, others never."""
    assert plan(Taskcluster(max=10, terminate=True), **counts)[2] == stop
    assert plan(Taskcluster(max=10), **counts)[2] == 0


@pytest.mark.parametrize(
    ("counts", "now", "before_2024"),
    [
        ({"waiting_jobs": 5}, (5, 5, 0), (5, 5, 0)),
        ({"waiting_jobs": 5, "idle": 2}, (5, 3, 0), (7, 5, 0)),
        ({"waiting_jobs": 5, "idle": 2, "stopping": 3}, (8, 3, 0), (7, 2, 0)),
        # capacity 4: workers and not slots are counted, so idle is negative and adds
        ({"slots": 4, "waiting_jobs": 2, "busy": 1, "running_jobs": 4}, (6, 5, 0), (3, 2, 0)),
        ({"slots": 4, "waiting_jobs": 8}, (8, 8, 0), (8, 8, 0)),
        ({"waiting_jobs": 50, "busy": 4, "running_jobs": 4, "booting": 2}, (10, 4, 0), (10, 4, 0)),
    ],
)
def test_the_simulators_copies(
    plan: Any, counts: dict[str, int], now: Plan, before_2024: Plan
) -> None:
    """Protects compatibility: the original's numbers, defects included."""
    assert plan(Taskcluster(max=10, compatibility="taskcluster"), **counts) == now
    assert plan(Taskcluster(max=10, compatibility="taskcluster-2020"), **counts) == before_2024
