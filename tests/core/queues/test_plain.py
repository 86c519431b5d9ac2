"""Queues in policy order: which of a job's entries counts."""

from __future__ import annotations

import pytest

from farm.core.dispatching.matching import Lane
from farm.core.model import Job, Platform
from farm.core.queues.plain import LookAheadQueue, PlainQueue
from farm.core.state.working_state import JobState


@pytest.mark.parametrize("kind", [PlainQueue, LookAheadQueue])
def test_an_entry_counts_by_its_number(kind):
    """An equal key in place of a job's key loses no job, and one that returns is there once."""
    queue = kind()
    lane = Lane(Platform("amd64"), queue)
    jobs = [JobState(Job(id=name, service_time=1.0), n, (0, n), 0.0, 1.0, lane=lane)
            for n, name in enumerate("abc")]  # fmt: skip
    for state in jobs:
        queue.add(state, 0.0)
    a, b, c = jobs
    b.key = (*b.key,)
    assert queue.first(3) == list(queue.in_order()) == [a, b, c]
    same = a.key
    queue.remove(a, 1.0)
    a.key = same
    assert queue.first(3) == list(queue.in_order()) == [b, c]
    queue.add(a, 2.0)
    assert queue.first(4) == list(queue.in_order()) == [a, b, c]
    assert len(queue) == 3
