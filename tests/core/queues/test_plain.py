"""Queues in policy order: which of a job's entries counts."""

from __future__ import annotations

from itertools import chain
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.dispatching.matching import Lane
from farm.core.model import Job, Platform
from farm.core.queues.plain import LookAheadQueue, PlainQueue, merged_in_portions
from farm.core.state.working_state import JobState


@pytest.mark.parametrize("kind", [PlainQueue, LookAheadQueue])
def test_an_entry_counts_by_its_number(kind):
    """An equal key in place of a job's key loses no job, and one that returns is there once."""
    queue = kind()
    lane = Lane(Platform("amd64"), queue)
    jobs = [Job(id=name, service_time=1.0) for name in "abc"]
    a, b, c = (JobState(job, n, (0, n), 0.0, 1.0, lane=lane) for n, job in enumerate(jobs))
    for state in (a, b, c):
        queue.add(state, 0.0)
    b.key = (*b.key,)
    assert queue.first(3) == list(queue.in_order()) == [a, b, c]
    same = a.key
    queue.remove(a, 1.0)
    a.key = same
    assert queue.first(3) == list(queue.in_order()) == [b, c]
    queue.add(a, 2.0)
    assert queue.first(4) == list(queue.in_order()) == [a, b, c]
    assert len(queue) == 3


# --- Sorting by portions: nothing lost, everything in order, no portion far too long --------------

entries = st.lists(st.tuples(st.integers(0, 20), st.integers()), unique=True)


@given(st.lists(entries, max_size=8), st.integers(1, 200), st.integers(1, 10))
def test_the_whole_is_in_order(portions, size, sampled):
    """Whatever the portions look like, empty ones too."""
    portions = [sorted(portion) for portion in portions]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("farm.core.queues.plain.SAMPLED", sampled)
        found = list(merged_in_portions(portions, size))
    assert list(chain.from_iterable(found)) == sorted(chain.from_iterable(portions))


@pytest.mark.parametrize("alike", [True, False])
def test_no_portion_is_much_longer_than_asked_for(alike):
    """Also when each old portion spans the whole."""
    dice = Random(1)
    everything = [(number, dice.random()) for number in range(20_000)]
    if alike:
        dice.shuffle(everything)
    portions = [sorted(everything[begin : begin + 1000]) for begin in range(0, 20_000, 1000)]
    found = list(merged_in_portions(portions, 1000))
    assert max(map(len, found)) < 2 * 1000
    assert len(found) > 15


def test_a_heap_that_was_cleaned_up_is_still_in_order():
    """Many cancelled jobs would let the others overtake each other."""
    queue = PlainQueue()
    lane = Lane(Platform("amd64"), queue)
    dice = Random(1)
    states = [
        JobState(Job(id=f"j{n}", service_time=1.0), n, (dice.random(), n), 0.0, 1.0, lane=lane)
        for n in range(200)
    ]
    for state in states:
        queue.add(state, 0.0)
    for state in states[:150]:
        queue.remove(state, 1.0)

    slot, order = None, []
    while (state := queue.choose(slot, 2.0)) is not None:
        order.append(state)
        queue.dispatched(state, slot, 2.0)
    assert order == sorted(states[150:], key=lambda state: state.key)
