"""Queues, heaps and tables of a scheduler drop what has ended."""

from __future__ import annotations

from random import Random

import pytest

from farm.core.events import (
    BuilderJoined,
    BuilderLost,
    CancelRequested,
    JobsSubmitted,
    PriorityChanged,
)
from farm.core.model import Builder
from farm.core.queues.plain import PlainQueue


@pytest.mark.parametrize("dedup", [False, True])
def test_queues_and_heaps_hold_no_growing_garbage(ledger, dedup):
    """Cancels, changed priorities and passing builders leave nothing behind for good."""
    farm = ledger("b0", dedup=dedup)
    handle, jobs, dice = farm.scheduler.handle, farm.scheduler.jobs, Random(1)
    for number in range(3000):
        at = 10.0 + number
        handle(JobsSubmitted(at, (farm.job(f"j{number}", action=f"A{number // 3}"),)))
        handle(CancelRequested(at, (f"j{number - 20}",)))
        waiting = [name for name, state in jobs.items() if state.status.value == "waiting"]
        for name in dice.sample(waiting, min(3, len(waiting))):
            handle(PriorityChanged(at, name, level=dice.randrange(100)))
        handle(BuilderJoined(at, Builder(id=f"x{number}", pool="p", index=10 + number)))
        handle(BuilderLost(at, f"x{number}"))
    matching = farm.scheduler.dispatcher.matching
    (lane,) = matching.lanes
    assert isinstance(lane.queue, PlainQueue)
    assert len(lane.queue._heap) < 200
    for group in matching.groups.values():
        assert sum(map(len, group.free._buckets.values())) < 1100
        assert len(group.free._members) <= 1
    assert len(jobs) < 40
    assert len(farm.scheduler.book._leaders) < 40
