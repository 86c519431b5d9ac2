"""Rollouts that are played on several threads."""

from __future__ import annotations

import threading

import pytest

from farm.sim.rollouts.queue_only import each


@pytest.mark.parametrize("threads", [1, 3])
def test_each_is_played_once(threads):
    """Whatever the number of threads; how many are done only grows, and ends with all."""
    played, told, lock = [], [], threading.Lock()

    def play(number: int) -> None:
        with lock:
            played.append(number)

    each(play, 10, told.append, threads)
    assert sorted(played) == list(range(10))
    assert told == sorted(told)
    assert told[-1] == 10


def test_an_interrupt_ends_the_others_as_well():
    """After those in progress: a hundred thousand rollouts are not finished first."""
    played, both = [], threading.Barrier(2, timeout=20)

    def play(number: int) -> None:
        played.append(number)
        if number < 2:
            both.wait()
        if number == 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        each(play, 100_000, int, 2)
    assert len(played) < 100_000
