"""Provisioners that get late or wrong figures, and stop busy builders; long boots."""

from __future__ import annotations

from typing import Any

import pytest

import farm
from farm.core.errors import InputError
from farm.core.pools.algorithm import PoolSnapshot, ScalingPlan, restore_memory, save_memory
from farm.testing import small_scenario
from provisioner.algorithms.arc import Arc
from provisioner.faulty_observations import WithFaultyObservations


def desired(algorithm: WithFaultyObservations, waiting: list[int]) -> list[int]:
    """Return the desired numbers every 10 s, by the number of waiting jobs."""
    memory, found = algorithm.start(), []
    for place, jobs in enumerate(waiting):
        snapshot = PoolSnapshot(pool="p", at=10.0 * place, waiting_jobs=jobs)
        plan, memory = algorithm.plan(snapshot, memory)
        memory = restore_memory(algorithm, save_memory(memory))  # type: ignore[assignment]
        found.append(plan.desired)
    return found


def test_figures_are_delayed() -> None:
    """Nothing before the first look is known; a restart loses none of it."""
    queue = [0, 5, 9, 0, 0, 0]
    assert desired(WithFaultyObservations(Arc(max=50), 20.0, 0.0, "s"), queue) == [0, 0, 0, 5, 9, 0]


class Watcher(Arc):
    """Wants nothing, and records the figures that it gets."""

    def plan(self, snapshot: PoolSnapshot, memory: Any) -> tuple[ScalingPlan, Any]:
        found = (snapshot.waiting_jobs, snapshot.oldest_wait_time, snapshot.next_slot_time)
        return ScalingPlan(0, why=repr(found)), memory


@pytest.mark.parametrize("wrong", [0.0, 1.0])
@pytest.mark.parametrize(("idle", "free"), [(0, None), (1, 0.0)])
def test_all_figures_of_the_queue_are_delayed_and_wrong_alike(
    wrong: float, idle: int, free: float | None
) -> None:
    """Waits and slots agree with the number of jobs: nothing waits, so nothing has waited."""
    source = WithFaultyObservations(Watcher(max=1), 10.0, wrong, "s")
    quiet = PoolSnapshot(pool="p", at=0.0, idle=idle, next_slot_time=free)
    first, memory = source.plan(quiet, source.start())
    busy = PoolSnapshot(
        pool="p", at=5.0, busy=idle, waiting_jobs=9, oldest_wait_time=4.0, next_slot_time=3.0
    )
    second, _ = source.plan(busy, memory)
    assert first.why == second.why == repr((0, 0.0, free))


def test_wrong_looks_have_the_given_frequency_and_are_reproducible() -> None:
    """A tenth of the looks reports an empty queue; the seed decides which."""
    first, again = (
        desired(WithFaultyObservations(Arc(max=50), 0.0, 0.1, "s"), [7] * 500) for _ in "ab"
    )
    assert first == again
    assert set(first) == {0, 7}
    assert first.count(0) == pytest.approx(50, abs=20)
    assert desired(WithFaultyObservations(Arc(max=50), 0.0, 0.1, "other"), [7] * 500) != first


def week(**pool: Any) -> farm.Result:
    """Simulate a pool that one wrong look in four stops."""
    sizing = {"algorithm": "arc", "max": 5, "interval": "10s"}
    load = {"every": "20s", "count": 60, "service_time": "30s"}
    more = {"seed": 3, "scheduling": {"retries": 9}}
    scenario = small_scenario({"provisioner": sizing, **pool}, load, **more)
    return farm.simulate(scenario, keep_events=True)


def test_a_busy_builder_that_is_stopped_drains_or_is_killed_with_its_job() -> None:
    """Draining loses no attempt; killing does, and its job runs again."""
    drained = week(signals={"wrong": 0.25})
    killed = week(signals={"wrong": 0.25, "kills": True})
    assert drained.summary["attempts"] == 60
    assert drained.summary["builders"]["lost"] == 0
    assert killed.summary["attempts"] > 60
    assert killed.summary["builders"]["lost"] > 0
    assert killed.summary["jobs"]["lost"] == 0


def test_boots_differ_by_the_delay_that_is_drawn() -> None:
    """Each builder has its own, above the pool's boot time; the same seed draws the same."""
    found = []
    for _ in "ab":
        asked, took = {}, []
        run = week(boot_time="5s", boot_delay={"uniform": {"min": "1s", "max": "9s"}})
        for line in run.events:
            if line["event"] == "builder-requested":
                asked[line["builder"]] = line["at_s"]
            elif line["event"] == "builder-joined":
                took.append(line["at_s"] - asked[line["builder"]])
        found.append(took)
    assert found[0] == found[1]
    assert len(set(found[0])) > 3
    assert all(6 <= one <= 14 for one in found[0])


@pytest.mark.parametrize(
    ("pool", "told"),
    [
        ({"signals": {"late": "5s"}}, r"pools.*signals.*late"),
        ({"signals": {"wrong": 2}}, r"signals\.wrong"),
        ({"boot_delay": {"by_kind": {"a": "5s"}}}, r"boot_delay.*by_kind"),
    ],
)
def test_a_mistake_is_one_message(pool: dict[str, Any], told: str) -> None:
    """The key, what was found, what is allowed."""
    with pytest.raises(InputError, match=told):
        week(**pool)


def test_the_limits_are_those_of_the_algorithm_that_plans() -> None:
    """Operators would be shown limits that do not hold."""
    source = WithFaultyObservations(Arc(min=2, max=50), 20.0, 0.0, "s")
    assert source.in_force(PoolSnapshot(pool="p", at=0.0)) == (2, 50, "")
