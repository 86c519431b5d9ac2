"""Algorithms with fixed numbers."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.algorithms.fixed import Fixed
from provisioner.algorithms.manual import Manual

HOUR = 3600.0


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, (3, 3, 0)),
        ({"idle": 1, "booting": 1}, (3, 1, 0)),
        ({"busy": 3}, (3, 0, 0)),
        ({"busy": 4, "idle": 1}, (3, 0, 2)),
        ({"booting": 5}, (3, 0, 0)),
        ({"idle": 1, "booting": 4}, (3, 0, 1)),
        ({"draining": 3}, (3, 3, 0)),
    ],
)
def test_fixed(plan: Any, counts: dict[str, int], expected: tuple[int, int, int]) -> None:
    """Protects a fixed pool: what is missing is started, a surplus of joined builders stopped."""
    assert plan(Fixed(builders=3), **counts) == expected


def test_leaving_builders_still_take_up_room(plan: Any) -> None:
    """Protects ``max`` as a quota: draining and stopping builders exist too."""
    assert plan(Fixed(builders=3, max=4), draining=2, stopping=1) == (3, 1, 0)
    assert plan(Fixed(builders=3, max=2)) == (2, 2, 0)
    assert plan(Fixed(builders=1, min=2), idle=1) == (2, 1, 0)


@pytest.mark.parametrize(
    ("hour", "capacity"),
    [(0, 5), (7.99, 5), (8, 40), (17.5, 40), (18, 10), (23.9, 10), (24, 5), (32, 40)],
)
def test_manual_by_hour(plan: Any, hour: float, capacity: int) -> None:
    """Protects the table: an entry holds from its hour to the next one's."""
    assert plan(Manual(capacity={0: 5, 8: 40, 18: 10}), at=hour * HOUR)[0] == capacity


def test_before_the_first_hour_the_last_entry_holds(plan: Any) -> None:
    """Protects tables that do not begin at midnight."""
    night_and_day = Manual(capacity={6: 20, 22: 2})
    assert plan(night_and_day, at=3 * HOUR)[0] == 2


@pytest.mark.parametrize(
    ("counts", "ours", "theirs"),
    [
        ({}, (10, 10, 0), (10, 10, 0)),
        ({"busy": 4, "booting": 3}, (10, 3, 0), (10, 3, 0)),
        ({"busy": 12}, (10, 0, 2), (10, 0, 0)),
    ],
)
def test_manual_compatibility(plan: Any, counts: dict[str, int], ours: Any, theirs: Any) -> None:
    """Protects the original's rule: it starts and never stops."""
    assert plan(Manual(capacity=10), **counts) == ours
    assert plan(Manual(capacity=10, compatibility="taskcluster"), **counts) == theirs


@pytest.mark.parametrize("capacity", [{}, {24: 1}, {-1: 1}])
def test_impossible_hours(capacity: dict[int, int]) -> None:
    """Protects users from tables that can never hold."""
    with pytest.raises(ValueError, match=r"^capacity: "):
        Manual(capacity=capacity)
