"""Walks through memory take what there is room for, and no more."""

from __future__ import annotations

import pytest

from workers.kernels import MIB
from workers.memory_budget import OVERHEAD, MemoryBudget, NoMemoryError


def test_where_there_is_plenty_a_walk_is_as_long_as_it_should_be():
    """Also where nobody knows how much there is."""
    assert MemoryBudget(64 * MIB, lambda: 10_000 * MIB).take(1, 4, walks=True) == 64 * MIB
    assert MemoryBudget(64 * MIB, lambda: None).take(1, 400, walks=True) == 64 * MIB


def test_little_room_means_short_walks():
    """All threads of a job together stay within half of what is left."""
    budget = MemoryBudget(64 * MIB, lambda: 100 * MIB)
    buffer = budget.take(1, 4, walks=True)
    assert 2 * MIB <= buffer < 64 * MIB
    assert 4 * (buffer + OVERHEAD) <= 50 * MIB


def test_jobs_that_walk_together_share_the_room():
    """The second comes before the first has filled its buffers; what ends gives its room back."""
    budget = MemoryBudget(20 * MIB, lambda: 100 * MIB)
    assert budget.take(1, 2, walks=True) == 20 * MIB
    with pytest.raises(NoMemoryError, match="no memory for 2 burning processes: 4 MiB may be"):
        budget.take(2, 2, walks=True)
    budget.give_back(1)
    assert budget.take(3, 2, walks=True) == 20 * MIB


def test_what_others_take_meanwhile_counts():
    """There was room when the host began, and there is none now."""
    rooms = iter([100 * MIB, 1 * MIB])
    with pytest.raises(NoMemoryError):
        MemoryBudget(20 * MIB, lambda: next(rooms)).take(1, 1, walks=True)


def test_a_thousand_processes_need_room_even_if_they_do_not_walk():
    """Refused with a reason, not killed by the kernel."""
    budget = MemoryBudget(20 * MIB, lambda: 100 * MIB)
    assert budget.take(1, 8, walks=False) == 0
    with pytest.raises(NoMemoryError, match="no memory for 1000 burning processes"):
        budget.take(2, 1000, walks=False)
