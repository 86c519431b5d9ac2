"""What no queue of slots explains: large pools, and orders with many levels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.records.attempt import Attempt
from farm_twin.twins.flags import flags_of, overtaking
from farm_twin.twins.pool_shapes import PoolLoad, Shape, load_of, pools_of
from farm_twin.twins.runner_lives import CLOCKS
from tests.fixtures.attempts import MONDAY, attempt, bundle_of

Jobs = list[tuple[int, int, int, int]]
"""Arrival, wait, level and try of each."""


def growing(runners: int, quiet: float = 0.0) -> tuple[Shape, PoolLoad]:
    """Return a pool that runs each number of jobs for 10 s, up to all its runners, and down again.

    Each runner had a job of a second before, and nothing ran for the ``quiet`` time after these.
    """
    attempts = []
    for number in range(runners):
        known = {"runner": f"r-{number}", "kind": "build"}
        begins = MONDAY + quiet + 10.0 * (number + 1)
        ends = begins + 10.0 * runners
        arrives = max(MONDAY, begins - 120.0)
        attempts.append(attempt(number, MONDAY, MONDAY, MONDAY + 1.0, **known))
        attempts.append(attempt(runners + number, arrives, begins, ends, **known))
    [pool] = pools_of(bundle_of(attempts))
    return pool


@pytest.mark.parametrize("quiet", [0.0, 900.0])
def test_a_large_pool_of_which_no_number_of_jobs_ran_for_long_is_judged(quiet: float):
    """IndexError of pools that are used round the clock; of others, a cap of 0 jobs at once."""
    shape, load = growing(300, quiet)

    assert [flag.kind for flag in flags_of(shape, load)] == ["idle runners"]


SHAPE, _ = growing(3)


def jobs_of(found: Jobs) -> PoolLoad:
    """Return the jobs as the load of a pool."""

    def job(number: int, known: tuple[int, int, int, int]) -> Attempt:
        arrives, waits, level, tried = known
        begins = MONDAY + arrives + waits
        return attempt(
            number, MONDAY + arrives, begins, begins + 9.0, attempt=tried,
            attributes={"level": str(level)},
        )  # fmt: skip

    return load_of([job(number, known) for number, known in enumerate(found)])


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(-3, 3), st.integers(1, 2)),
        min_size=1,
        max_size=30,
    )
)
def test_who_was_overtaken_is_found_in_one_pass(found: Jobs):
    """Levels that are nearly all different made it as slow as comparing every job with every."""
    load = jobs_of(found)
    waited = load.waited > max(CLOCKS, 2 * SHAPE.pickup_time)
    order = np.argsort(load.arrived + load.waited, kind="stable").tolist()
    overtaken = sum(
        any(
            load.attempts[other].attempt == 1
            and load.attempts[other].level <= load.attempts[place].level
            and load.arrived[other] > load.arrived[place] + CLOCKS
            for other in order[:rank]
        )
        for rank, place in enumerate(order)
        if waited[place]
    )

    assert overtaking(load, SHAPE) == overtaken / max(1, int(waited.sum()))
