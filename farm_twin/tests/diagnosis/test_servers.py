"""As many servers are proposed as are needed, and no more: the search takes short cuts."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm_twin.diagnosis.servers import MAX_SERVERS, servers_needed

Jobs = list[tuple[int, int]]


def p95_wait(jobs: Jobs, servers: int) -> float:
    """Return the p95 wait of jobs that are served as they arrive."""
    free_at = [0.0] * servers
    waits = []
    for arrived_at, held in jobs:
        started_at = max(arrived_at, free_at[0])
        heapq.heapreplace(free_at, started_at + held)
        waits.append(started_at - arrived_at)
    return float(np.quantile(waits, 0.95))


def needed(jobs: Jobs, objective: float) -> int | None:
    """Return the servers that these jobs need."""
    arrivals, times = np.array(jobs, np.float64).reshape(-1, 2).T
    return servers_needed(arrivals, times, objective)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 60)), min_size=2, max_size=60).map(
        sorted
    ),
    st.sampled_from([0.0, 1.0, 10.0, 100.0]),
)
def test_the_fewest_servers_are_found(jobs: Jobs, objective: float):
    """Wherever the search begins, it ends where trying them one by one does."""
    fewest = next(n for n in range(1, 100) if p95_wait(jobs, n) <= objective)
    assert needed(jobs, objective) == fewest


def test_the_search_ends_where_no_number_is_sensible():
    """More jobs at once than any farm has slots: the largest number that is tried is told."""
    at_once = [(0, 60)] * (2 * MAX_SERVERS)
    assert needed(at_once, 0.0) == MAX_SERVERS


@pytest.mark.parametrize("jobs", [[], [(0, 10)]])
def test_a_single_job_needs_no_farm(jobs: Jobs):
    """Nothing is proposed from next to nothing."""
    assert needed(jobs, 60.0) is None
