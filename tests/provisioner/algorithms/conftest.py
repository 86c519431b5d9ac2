"""Fixtures that call an algorithm in few words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from farm.core.pools.algorithm import PoolSnapshot, ScalingPlan, restore_memory, save_memory

Plans = Callable[..., list[ScalingPlan]]


@pytest.fixture
def plans() -> Plans:
    """Return a function that gives an algorithm's plans for pools, one after the other.

    Its memory survives a restart between any two plans.
    """

    def ask(algorithm: Any, *pools: dict[str, Any]) -> list[ScalingPlan]:
        memory, made = algorithm.start(), []
        for counts in pools:
            snapshot = PoolSnapshot(pool="linux", **{"at": 0.0, **counts})
            plan, memory = algorithm.plan(snapshot, memory)
            memory = restore_memory(algorithm, save_memory(memory))
            made.append(plan)
        return made

    return ask


@pytest.fixture
def plan(plans: Plans) -> Callable[..., tuple[int, int, int]]:
    """Return a function that gives the first plan for one pool as (desired, start, stop)."""

    def ask(algorithm: Any, **counts: Any) -> tuple[int, int, int]:
        (made,) = plans(algorithm, counts)
        return made.desired, made.start, made.stop

    return ask
