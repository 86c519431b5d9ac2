"""What every algorithm guarantees for every pool."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.pools.algorithm import PoolSnapshot
from provisioner.algorithms.registry import ALGORITHMS, make_algorithm

NEEDED: dict[str, dict[str, Any]] = {
    "fixed": {"builders": 7},
    "manual": {"capacity": {0: 3, 12: 30}},
    "target-wait": {"objective": 60},
}


@st.composite
def pools(draw: st.DrawFn) -> PoolSnapshot:
    """Draw any pool that can exist."""
    slots = draw(st.integers(1, 8))
    idle, busy, booting, draining, stopping = (draw(st.integers(0, 30)) for _ in range(5))
    waiting = draw(st.integers(0, 300))
    return PoolSnapshot(
        pool="linux",
        at=draw(st.floats(0, 1e6)),
        slots=slots,
        idle=idle,
        busy=busy,
        booting=booting,
        draining=draining,
        stopping=stopping,
        waiting_jobs=waiting,
        running_jobs=draw(st.integers(busy, busy * slots)),
        draining_jobs=draw(st.integers(0, draining * slots)),
        waiting_work=waiting * draw(st.floats(0, 1000)),
        next_slot_time=draw(st.none() | st.floats(0, 1000)),
    )


histories = st.lists(pools(), min_size=1, max_size=6).map(
    lambda drawn: sorted(drawn, key=lambda snapshot: snapshot.at)
)


@pytest.mark.parametrize("name", ALGORITHMS)
@given(histories, st.integers(0, 20), st.integers(0, 60))
def test_limits_are_kept(name: str, history: list[PoolSnapshot], least: int, more: int) -> None:
    """Protects min ≤ desired ≤ max, no negative numbers, no randomness."""
    options = {**NEEDED.get(name, {}), "min": least, "max": least + more}
    algorithm: Any = make_algorithm(name, options)
    memory, again = algorithm.start(), algorithm.start()
    for snapshot in history:
        plan, memory = algorithm.plan(snapshot, memory)
        same, again = algorithm.plan(snapshot, again)
        assert (plan, memory) == (same, again)
        assert least <= plan.desired <= least + more
        assert plan.start >= 0
        assert 0 <= plan.stop <= snapshot.joined
        assert not (plan.start and plan.stop)
        assert plan.start == 0 or snapshot.total + plan.start <= least + more
        assert plan.why


@pytest.mark.parametrize("name", ALGORITHMS)
@given(pools(), st.integers(1, 100))
def test_more_waiting_jobs_never_want_fewer_builders(
    name: str, snapshot: PoolSnapshot, more: int
) -> None:
    """Protects monotony at the first plan of a pool."""
    options = {"max": 50, **NEEDED.get(name, {})}
    algorithm: Any = make_algorithm(name, options)
    each = snapshot.waiting_work / snapshot.waiting_jobs if snapshot.waiting_jobs else 100.0
    busier = msgspec.structs.replace(
        snapshot,
        waiting_jobs=snapshot.waiting_jobs + more,
        waiting_work=snapshot.waiting_work + more * each,
    )
    before, _ = algorithm.plan(snapshot, algorithm.start())
    after, _ = algorithm.plan(busier, algorithm.start())
    assert after.desired >= before.desired
