"""KEDA's list scaler and the HPA behind it."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.algorithms.keda import Keda


def desired(plans: Any, algorithm: Keda, *pools: dict[str, Any]) -> list[int]:
    """Return the sizes wanted for one pool after the other."""
    return [plan.desired for plan in plans(algorithm, *pools)]


def lengths(*waiting: int, every: float = 15.0) -> list[dict[str, Any]]:
    """Return pools of ten busy builders with these queues, one at each sync."""
    return [{"at": k * every, "waiting_jobs": n, "busy": 10} for k, n in enumerate(waiting)]


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [(50, 10), (54, 10), (45, 10), (56, 12), (60, 12), (61, 13), (100, 20), (104, 20), (1000, 20)],
)
def test_growth_by_list_length_with_tolerance(plans: Any, waiting: int, expected: int) -> None:
    """Protects ceil(length ÷ 5), the 10 % band around the present, and doubling as the limit."""
    assert desired(plans, Keda(), *lengths(waiting)) == [expected]


def test_a_small_pool_grows_by_four_at_a_time(plans: Any) -> None:
    """Protects the other limit: max(+100 %, +4) in 15 s."""
    pools = [{"at": 15.0 * k, "waiting_jobs": 500} for k in range(6)]
    assert desired(plans, Keda(min=1), *pools) == [5, 10, 20, 40, 80, 100]


def test_two_plans_in_one_period_share_the_limit(plans: Any) -> None:
    """Protects the limit from being applied more often than intended."""
    pools = [{"at": at, "waiting_jobs": 500, "busy": 10} for at in (0.0, 5.0, 10.0, 15.0)]
    assert desired(plans, Keda(interval=5.0), *pools) == [20, 20, 20, 40]


def test_shrinking_waits_for_the_stabilisation_window(plans: Any) -> None:
    """Protects hysteresis: the highest recommendation of the last 300 s holds."""
    sizes = desired(plans, Keda(min=1), *lengths(*[50] * 2, *[10] * 25))
    assert sizes[:21] == [10] * 21
    assert sizes[21:] == [2] * 6


def test_a_short_dip_changes_nothing(plans: Any) -> None:
    """Protects a pool whose queue is empty for a moment."""
    assert set(desired(plans, Keda(min=1), *lengths(50, 0, 0, 50, 0, 50))) == {10}


def test_to_none_after_the_cooldown_and_back(plans: Any) -> None:
    """Protects activation: none only 300 s after the queue was last seen active, one at once."""
    keda = Keda(stabilization_window=0.0)
    pools = [{"at": 0.0, "waiting_jobs": 4, "idle": 1}]
    pools += [{"at": 15.0 * k, "idle": 1} for k in range(1, 24)]
    sizes = desired(plans, keda, *pools)
    assert sizes == [1] * 20 + [0] * 4
    pools += [{"at": 400.0, "waiting_jobs": 1}]
    assert desired(plans, keda, *pools)[-1] == 1


def test_activation_length(plans: Any) -> None:
    """Protects activationListLength: a queue up to it does not wake a pool at none."""
    keda = Keda(activation_length=3)
    assert desired(plans, keda, {"waiting_jobs": 3}) == [0]
    assert desired(plans, keda, {"waiting_jobs": 4}) == [1]


def test_polling_is_slower_than_syncing(plans: Any) -> None:
    """Protects the 30 s between KEDA's polls of a pool that is at none."""
    pools = [{"at": 0.0}, {"at": 15.0, "waiting_jobs": 9}, {"at": 30.0, "waiting_jobs": 9}]
    assert desired(plans, Keda(), *pools) == [0, 0, 2]


def test_minimum_above_none_never_reaches_none(plans: Any) -> None:
    """Protects min: the cooldown is for pools that may be at none."""
    pools = [{"at": 15.0 * k, "idle": 2} for k in range(60)]
    assert set(desired(plans, Keda(min=2), *pools)) == {2}


def test_running_jobs_are_invisible_unless_asked_for(plans: Any) -> None:
    """Protects the known trap (working builders are stopped) and the way out of it."""
    pools = [{"at": 15.0 * k, "busy": 10, "running_jobs": 10} for k in range(30)]
    seen = Keda(min=1, list_length=1.0, length="waiting+running")
    blind = Keda(min=1, list_length=1.0)
    assert desired(plans, seen, *pools)[-1] == 10
    assert plans(blind, *pools)[-1].stop == 9


@pytest.mark.parametrize(
    ("waiting", "running", "options", "wanted"),
    [
        (0, 0, {}, 0),
        (1, 0, {}, 1),
        (0, 1, {}, 1),
        (6, 4, {}, 10),
        (6, 4, {"list_length": 5}, 2),
        (2, 0, {"list_length": 3}, 0),
        (2, 1, {"list_length": 3}, 1),
        (0, 4, {"length": "waiting"}, 0),
    ],
)
def test_github_runner(
    plans: Any, waiting: int, running: int, options: dict[str, Any], wanted: int
) -> None:
    """Protects the trigger's numbers: queued and in progress, active at the target already."""
    keda = Keda(trigger="github-runner", scale_up_builders=99, **options)
    pool = {"waiting_jobs": waiting, "busy": running, "running_jobs": running}
    cold = [{**pool, "busy": 0}, {"at": 15.0, **pool, "busy": 0}]
    assert desired(plans, keda, *cold)[-1] == wanted


def test_github_runner_is_woken_at_the_target_only(plans: Any) -> None:
    """Protects the difference to a list: there a length above the activation length wakes."""
    pool = {"waiting_jobs": 4}
    assert desired(plans, Keda(list_length=5), pool) == [1]
    assert desired(plans, Keda(list_length=5, trigger="github-runner"), pool) == [0]
    with pytest.raises(ValueError, match=r"^activation_length: found 2; the trigger github-runner"):
        Keda(trigger="github-runner", activation_length=2)
