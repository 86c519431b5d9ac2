"""Runners, agents and machines: three rules from demand to size."""

from __future__ import annotations

from typing import Any

import pytest

from farm.core.pools.algorithm import PoolSnapshot
from provisioner.algorithms.arc import Arc
from provisioner.algorithms.buildkite import Buildkite, BuildkiteMemory
from provisioner.algorithms.gitlab import Gitlab, GitlabMemory, idle_wanted
from provisioner.algorithms.sizing import EARLY, FOREVER, NEVER


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, (2, 2, 0)),
        ({"waiting_jobs": 3, "idle": 2}, (5, 3, 0)),
        ({"waiting_jobs": 3, "busy": 2, "running_jobs": 2}, (7, 5, 0)),
        ({"waiting_jobs": 30}, (10, 10, 0)),
        ({"waiting_jobs": 9, "slots": 4}, (5, 5, 0)),
        ({"idle": 4, "busy": 1, "running_jobs": 1}, (3, 0, 2)),
        ({"busy": 6, "running_jobs": 2, "slots": 4}, (3, 0, 0)),
    ],
)
def test_arc(plan: Any, counts: dict[str, int], expected: tuple[int, int, int]) -> None:
    """Protects min(min + assigned, max): min is the idle buffer; no job loses its runner."""
    assert plan(Arc(min=2, max=10), **counts) == expected


@pytest.mark.parametrize(
    ("in_use", "options", "idle"),
    [
        (200, {"scale_factor": 0.2}, 40),
        (200, {"scale_factor": 1.0}, 200),
        (200, {"scale_factor": 0.2, "scale_factor_limit": 30}, 30),
        (10, {"scale_factor": 0.2, "idle_count": 5}, 5),
        (200, {"scale_factor": 0.2, "scale_factor_limit": 3, "idle_count": 5}, 5),
        (10, {"idle_count": 5}, 5),
        (0, {"scale_factor": 0.5}, 0),
        (70, {"scale_factor": 0.1}, 7),
        (11, {"scale_factor": 0.25}, 3),
        (11, {"scale_factor": 0.25, "idle_unit": "machines"}, 2),
    ],
)
def test_gitlab_idle_share(in_use: int, options: dict[str, Any], idle: int) -> None:
    """Protects the idle share: a factor, its limit, and a floor that no limit goes below."""
    assert idle_wanted(Gitlab(max=500, **options), in_use) == idle


@pytest.mark.parametrize(
    ("running", "waiting", "options", "wanted"),
    [
        # capacity_per_instance 5 and idle scale 5: one idle instance, as documented
        (0, 0, {"idle_count": 5}, 1),
        (3, 0, {"idle_count": 5}, 2),
        (20, 0, {"idle_count": 5}, 5),
        (20, 1, {"idle_count": 5, "preemptive_mode": False}, 6),
        (0, 0, {"idle_count": 6}, 2),
        # without idle jobs wanted, and so not preemptive: what is running and waiting
        (3, 0, {}, 1),
        (3, 2, {}, 1),
        (3, 3, {}, 2),
        (3, 3, {"preemptive_mode": True}, 1),
        # preemptive unless given, with any idle count: no builder for what waits
        (4, 6, {"idle_count": 2}, 2),
        (4, 6, {"idle_count": 2, "preemptive_mode": False}, 3),
        # a factor of the capacity in use, in jobs, with floor and ceiling
        (40, 0, {"scale_factor": 0.5}, 12),
        (40, 0, {"scale_factor": 0.5, "scale_factor_limit": 10}, 10),
        (2, 0, {"scale_factor": 0.5, "idle_count": 4}, 2),
        (0, 0, {"scale_factor": 0.5, "idle_count": 4, "scale_factor_limit": 1}, 1),
        # the older executor counts machines
        (0, 0, {"idle_count": 5, "idle_unit": "machines"}, 5),
        (3, 0, {"idle_count": 5, "idle_unit": "machines"}, 6),
        (20, 0, {"idle_count": 5, "idle_unit": "machines"}, 9),
        (20, 0, {"scale_factor": 0.5, "idle_unit": "machines"}, 6),
        # IdleCountMin is at least 1 with a factor, and jobs are taken only into idle machines
        (0, 0, {"scale_factor": 0.5, "idle_unit": "machines"}, 1),
        (0, 9, {"scale_factor": 0.5, "idle_unit": "machines"}, 1),
        (0, 9, {"scale_factor": 0.5, "idle_unit": "machines", "preemptive_mode": False}, 3),
        (5, 9, {"scale_factor": 0.5, "idle_unit": "machines"}, 2),
        # IdleCount bounds the idle machines, IdleCountMin too
        (
            0,
            0,
            {
                "scale_factor": 0.5,
                "idle_count": 4,
                "scale_factor_limit": 2,
                "idle_unit": "machines",
            },
            2,
        ),
    ],
)
def test_gitlab_counts_idle_jobs_not_builders(
    plan: Any, running: int, waiting: int, options: dict[str, Any], wanted: int
) -> None:
    """Protects builders of five slots from being multiplied: the idle share is in jobs."""
    counts = {"slots": 5, "running_jobs": running, "waiting_jobs": waiting}
    assert plan(Gitlab(max=500, **options), busy=-(-running // 5), **counts)[0] == wanted


def test_gitlab_machines_created_in_parallel(plans: Any) -> None:
    """Protects MaxGrowthRate: how many boot at one time, not how many a second."""
    slow = Gitlab(max=50, max_booting=3)
    boots = [{"waiting_jobs": 9, "booting": n, "idle": m} for n, m in ((0, 0), (3, 0), (1, 2))]
    assert [plan.start for plan in plans(slow, *boots)] == [3, 0, 2]


def test_gitlab_throttle(plans: Any) -> None:
    """Protects the throttle: a burst, then a number per second."""
    slow = Gitlab(max=50, idle_count=20, throttle_limit=0.1, throttle_burst=3)
    made = plans(slow, *({"at": at} for at in (0.0, 5.0, 10.0, 70.0)))
    assert [plan.start for plan in made] == [3, 0, 1, 3]


def test_gitlab_idle_time(plans: Any) -> None:
    """Protects idle builders for idle_time, counted anew after each use."""
    patient = Gitlab(max=50, idle_time=100.0)
    idle, used = {"idle": 3}, {"busy": 3, "running_jobs": 3}
    pools = [(0.0, idle), (60.0, used), (120.0, idle), (180.0, idle), (220.0, idle)]
    made = plans(patient, *({"at": at, **counts} for at, counts in pools))
    assert [plan.stop for plan in made] == [0, 0, 0, 0, 3]


@pytest.mark.parametrize(
    ("counts", "options", "expected"),
    [
        ({"waiting_jobs": 10}, {}, (10, 10, 0)),
        ({"waiting_jobs": 10, "slots": 4}, {}, (3, 3, 0)),
        ({"waiting_jobs": 10, "slots": 4}, {"instance_buffer": 2}, (5, 5, 0)),
        ({"waiting_jobs": 1}, {"instance_buffer": 2}, (2, 2, 0)),
        ({}, {"instance_buffer": 2}, (0, 0, 0)),
        ({"waiting_jobs": 10, "busy": 4, "running_jobs": 4}, {"out_factor": 0.5}, (9, 5, 0)),
        ({"waiting_jobs": 10, "busy": 4, "running_jobs": 4}, {"out_factor": 2.0}, (20, 16, 0)),
        ({"idle": 9}, {}, (0, 0, 9)),
        ({"idle": 9}, {"in_factor": 0.5}, (4, 0, 5)),
        ({"idle": 9}, {"disable_scale_in": True}, (9, 0, 0)),
    ],
)
def test_buildkite(plan: Any, counts: Any, options: dict[str, Any], expected: Any) -> None:
    """Protects agents per instance, the buffer and the factors of each direction."""
    assert plan(Buildkite(max=20, **options), **counts) == expected


def test_buildkite_adds_an_instance_when_agents_do_not_come(plans: Any) -> None:
    """Protects against machines without agents: below the threshold one more is asked for."""
    dangling = {"waiting_jobs": 4, "idle": 1}
    made = plans(
        Buildkite(max=20),
        *({"at": at, **dangling, "booting": n} for at, n in ((0, 3), (60, 4), (120, 4), (180, 5))),
    )
    assert [plan.desired for plan in made] == [5, 5, 6, 6]
    assert plans(Buildkite(max=20), {"waiting_jobs": 4, "idle": 2, "booting": 2})[0].desired == 4


def test_buildkite_cooldowns(plans: Any) -> None:
    """Protects cooldowns: each direction has its own, unless both are tied together."""
    pools = [
        {"at": 0.0, "waiting_jobs": 4},
        {"at": 10.0, "waiting_jobs": 8, "idle": 4},
        {"at": 40.0, "waiting_jobs": 8, "idle": 4},
        {"at": 50.0, "idle": 8},
    ]
    apart = Buildkite(max=20, out_cooldown=30.0, in_cooldown=30.0)
    tied = Buildkite(max=20, out_cooldown=30.0, in_cooldown=30.0, scale_only_after_all_events=True)
    assert [plan.desired for plan in plans(apart, *pools)] == [4, 4, 8, 0]
    assert [plan.desired for plan in plans(tied, *pools)] == [4, 4, 8, 8]


def test_buildkite_cooldown_from_the_first_instant(plans: Any) -> None:
    """Protects an event at farm time 0: it is an event like any other."""
    tied = Buildkite(max=20, out_cooldown=30.0, scale_only_after_all_events=True)
    pools = [
        {"at": 0.0, "idle": 4},
        {"at": 10.0, "waiting_jobs": 4},
        {"at": 30.0, "waiting_jobs": 4},
    ]
    assert [plan.desired for plan in plans(tied, *pools)] == [0, 0, 4]


@pytest.mark.parametrize(
    ("options", "since", "tokens", "until"),
    [
        ({}, NEVER, None, FOREVER),
        ({"idle_time": 60.0}, 150.0, None, 210.0 - EARLY),
        ({"idle_time": 60.0}, 0.0, None, 60.0 - EARLY),
        ({"throttle_limit": 0.1, "throttle_burst": 2}, NEVER, 1.9, 200.0),
        ({"throttle_limit": 0.1, "throttle_burst": 2}, NEVER, 2.0, FOREVER),
        ({"throttle_burst": 2}, NEVER, 0.0, FOREVER),
    ],
)
def test_gitlab_plans_alike_until_the_surplus_has_lasted_or_while_its_bucket_fills(
    options: dict[str, Any], since: float, tokens: float | None, until: float
) -> None:
    """A simulation leaves out the plans until then: a builder would be started late, or stopped."""
    snapshot, memory = PoolSnapshot(pool="p", at=200.0), GitlabMemory(since, tokens, 200.0)
    assert Gitlab(max=9, **options).stays_until(snapshot, memory) == until


@pytest.mark.parametrize(
    ("options", "out_at", "in_at", "until"),
    [
        ({}, NEVER, NEVER, FOREVER),
        ({}, 200.0, NEVER, 200.0),
        ({}, NEVER, 200.0, 200.0),
        ({}, 100.0, NEVER, 220.0 - EARLY),
        ({"out_cooldown": 105.0}, 100.0, NEVER, 205.0 - EARLY),
        ({"in_cooldown": 300.0}, NEVER, 50.0, 350.0 - EARLY),
        ({"settle_time": 10.0}, 100.0, 50.0, FOREVER),
        ({}, 0.0, NEVER, FOREVER),
    ],
)
def test_buildkite_plans_alike_until_its_group_has_settled_or_a_cooldown_is_over(
    options: dict[str, Any], out_at: float, in_at: float, until: float
) -> None:
    """As above."""
    snapshot, memory = PoolSnapshot(pool="p", at=200.0), BuildkiteMemory(3, out_at, in_at)
    assert Buildkite(max=9, **options).stays_until(snapshot, memory) == until


def test_buildkite_changes_at_each_plan_unless_it_is_told_to_cool_down(plans: Any) -> None:
    """A cooldown is chosen; a plan that changes nothing begins none."""
    steps = Buildkite(max=9, in_factor=0.5)
    pools = [{"at": 0.5 * number, "idle": size} for number, size in enumerate((8, 4, 2))]
    assert [plan.desired for plan in plans(steps, *pools)] == [4, 2, 1]
    pools = [{"at": 0.5 * number, "idle": number, "waiting_jobs": number} for number in (1, 2, 3)]
    assert [plan.desired for plan in plans(Buildkite(max=9), *pools)] == [1, 2, 3]

    memory = BuildkiteMemory(group=2)
    same = PoolSnapshot(pool="p", at=9.0, idle=1, busy=1, waiting_jobs=1, running_jobs=1)
    assert Buildkite(max=9).plan(same, memory)[1] == memory
