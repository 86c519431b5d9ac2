"""Walks through memory use the free memory, and no more."""

from __future__ import annotations

import pytest

from workers.burn.kernels import MIB
from workers.burn.limits import OVERHEAD, MemoryBudget, NoMemoryError


def test_with_plenty_of_memory_a_walk_has_its_full_length():
    """Also if the amount of memory is unknown."""
    assert MemoryBudget(64 * MIB, lambda: 10_000 * MIB).take(1, 4, walks=True) == 64 * MIB
    assert MemoryBudget(64 * MIB, lambda: None).take(1, 400, walks=True) == 64 * MIB


def test_little_memory_means_short_walks():
    """All threads of a job together stay within the budget, and leave half of it."""
    budget = MemoryBudget(64 * MIB, lambda: 100 * MIB)
    buffer = budget.take(1, 4, walks=True)
    assert 2 * MIB <= buffer < 64 * MIB
    assert 4 * (buffer + OVERHEAD) <= 38 * MIB


def test_concurrent_walks_share_the_memory():
    """The next comes before the first has filled its buffers; an ended one returns its memory."""
    budget = MemoryBudget(20 * MIB, lambda: 100 * MIB)
    sizes = [budget.take(number, 2, walks=True) for number in range(4)]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(2 * (size + OVERHEAD) for size in sizes) <= 75 * MIB
    with pytest.raises(
        NoMemoryError, match=r"no memory for 9 burning processes: [0-9]+ MiB may be"
    ):
        budget.take(4, 9, walks=True)
    for number in range(4):
        budget.give_back(number)
    assert budget.take(5, 2, walks=True) == sizes[0]


def test_memory_used_by_others_counts():
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
