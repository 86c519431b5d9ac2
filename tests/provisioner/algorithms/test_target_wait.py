"""The size that keeps the dispatch estimate of a new job under an objective."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from farm.core.pools.algorithm import PoolSnapshot
from provisioner.algorithms.target_wait import TargetWait, builders_needed

BUSY = {"busy": 10, "running_jobs": 10, "next_slot_time": 60.0}


def wait(snapshot: PoolSnapshot, builders: int) -> float:
    """Return E(c) of the docstring."""
    slots = builders * snapshot.slots
    if slots > snapshot.running_jobs + snapshot.waiting_jobs:
        return 0.0
    free = slots > snapshot.running_jobs
    tnb = 0.0 if free else snapshot.next_slot_time
    if slots == 0 or tnb is None:
        return float("inf")
    return tnb + snapshot.waiting_work / slots


@given(
    st.integers(0, 40), st.integers(0, 40), st.floats(0, 500), st.none() | st.floats(0, 300),
    st.integers(1, 5), st.floats(1, 600),
)  # fmt: skip
def test_needed_is_the_smallest_sufficient_size(
    running: int, waiting: int, each: float, tnb: float | None, slots: int, objective: float
) -> None:
    """Protects the closed form against a search from below."""
    snapshot = PoolSnapshot(
        pool="linux", at=0.0, slots=slots, busy=running, running_jobs=running,
        waiting_jobs=waiting, waiting_work=waiting * each, next_slot_time=tnb,
    )  # fmt: skip
    needed = builders_needed(snapshot, math.inf if tnb is None else tnb, objective)
    in_use = -(-running // slots)
    if waiting == running == 0:
        assert needed == 0
        return
    assert needed >= in_use
    assert wait(snapshot, needed) <= objective * (1 + 1e-9)
    assert needed == in_use or wait(snapshot, needed - 1) > objective * (1 - 1e-9)


@given(
    st.integers(0, 40), st.integers(0, 40), st.floats(0, 500), st.floats(0, 300), st.floats(1, 600)
)
def test_needed_rises_with_work_and_falls_with_patience(
    running: int, waiting: int, each: float, tnb: float, objective: float
) -> None:
    """Protects monotony: more jobs never need fewer builders, nor does a shorter objective."""

    def needed(running: int, waiting: int, objective: float) -> int:
        snapshot = PoolSnapshot(
            pool="linux", at=0.0, busy=running, running_jobs=running,
            waiting_jobs=waiting, waiting_work=waiting * each, next_slot_time=tnb,
        )  # fmt: skip
        return builders_needed(snapshot, tnb, objective)

    here = needed(running, waiting, objective)
    assert needed(running, waiting + 1, objective) >= here
    assert needed(running + 1, waiting, objective) >= here
    assert needed(running, waiting, objective / 2) >= here


def test_grows_at_once_and_shrinks_after_holding(plans: Any) -> None:
    """Protects hysteresis: up now, down only after ``hold``, and only idle builders."""
    target = TargetWait(max=50, objective=300.0, hold=120.0)
    work = {"waiting_jobs": 20, "waiting_work": 6000.0}
    quiet = {"busy": 5, "running_jobs": 5, "idle": 15, "next_slot_time": 0.0}
    made = plans(target, {"at": 0.0, **work}, *({"at": 30.0 * k, **quiet} for k in range(1, 7)))
    assert [(plan.desired, plan.start, plan.stop) for plan in made] == [
        (20, 20, 0),
        *[(20, 0, 0)] * 4,
        (5, 0, 15),
        (20, 0, 0),
    ]


def test_an_idle_pool_shrinks_to_none_in_one_step(plans: Any) -> None:
    """Protects against one builder that outlives the others by another ``hold``."""
    target = TargetWait(max=50, objective=300.0, hold=60.0)
    work = {"waiting_jobs": 20, "waiting_work": 6000.0}
    made = plans(target, {"at": 0.0, **work}, *({"at": at, "idle": 20} for at in (30.0, 90.0)))
    assert [plan.stop for plan in made] == [0, 0, 20]


def test_a_pool_beyond_its_limit_keeps_the_builders_that_work(plan: Any) -> None:
    """Protects running jobs where all builders are enough and fewer are allowed."""
    busy = {"busy": 5, "running_jobs": 5, "next_slot_time": 0.0}
    assert plan(TargetWait(max=2, objective=300.0), **busy) == (2, 0, 0)


def test_a_burst_while_holding_starts_the_wait_again(plans: Any) -> None:
    """Protects a pool whose surplus is interrupted."""
    target = TargetWait(max=50, objective=300.0, hold=60.0)
    quiet = {"busy": 2, "running_jobs": 2, "idle": 8, "next_slot_time": 0.0}
    burst = {**quiet, "waiting_jobs": 9, "waiting_work": 6000.0}
    made = plans(target, *({"at": 30.0 * k, **(burst if k == 1 else quiet)} for k in range(5)))
    assert [plan.stop for plan in made] == [0, 0, 0, 0, 8]


def test_a_pool_that_shrank_shrinks_further_when_it_needs_less(plans: Any) -> None:
    """Protects against the size of the last shrinking being held forever."""
    target = TargetWait(max=50, objective=300.0, hold=60.0)
    busy = {"busy": 2, "running_jobs": 2, "next_slot_time": 0.0}
    made = plans(
        target,
        {"at": 0.0, "idle": 1, **busy},
        {"at": 60.0, "idle": 1, **busy},
        *({"at": 60.0 + 30.0 * k, "idle": 2} for k in range(1, 4)),
    )
    assert [plan.stop for plan in made] == [0, 1, 0, 0, 2]


def test_the_release_share_leaves_a_band_in_which_nothing_happens(plans: Any) -> None:
    """Protects against flapping: between objective and release * objective the size stays."""
    between = {**BUSY, "waiting_jobs": 6, "waiting_work": 1500.0}
    target = TargetWait(max=50, objective=300.0, hold=0.0)
    assert {plan.desired for plan in plans(target, between, {**between, "at": 900.0})} == {10}
