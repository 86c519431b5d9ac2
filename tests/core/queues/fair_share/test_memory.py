"""A tree rebuilt from plain values continues as the old one would have."""

from __future__ import annotations

import random

import pytest


def in_motion(make_yard, seed, compatibility=None):
    """Make a yard with waiting, running and shared jobs and slots at home in many nodes."""
    yard = make_yard([50, 20], compatibility=compatibility)
    dice = random.Random(seed)
    paths = ["u/x", "u/y", "v/x", "w", ""]
    for n in range(40):
        yard.wait(f"j{n}", dice.choice(paths), n, priority=dice.choice([0, 0, 50, -100]))
        if n % 9 == 4:
            yard.follow(f"f{n}", f"j{n}", dice.choice(paths), n)
    for n in range(25):
        slot = f"s{dice.randrange(12)}"
        if yard.on(slot):
            yard.end(slot, 50 + n, completed=dice.random() < 0.8)
        else:
            yard.take(slot, 50 + n)
    yard.cancel(*yard.waiting[8:])
    return yard


@pytest.mark.parametrize("compatibility", [None, "buildbarn"])
@pytest.mark.parametrize("seed", range(12))
def test_a_rebuilt_queue_continues_the_same_way(make_yard, seed, compatibility):
    """Same counts, same listing, and slot by slot the same jobs from then on."""
    yard, again = (in_motion(make_yard, seed, compatibility) for _ in "ab")
    again.restart()
    assert again.queue is not yard.queue
    assert again.queue.memory() == yard.queue.memory()
    for path in ((), ("u",)):
        assert again.queue.listing.children(path) == yard.queue.listing.children(path)
    assert again.waiting == yard.waiting
    for at, slot in enumerate([*yard.scheduler.builders] * 2, start=100):
        took = []
        for one in (yard, again):
            if one.on(slot):
                one.end(slot, at)
            took.append(one.take(slot, at))
        assert took[0] == took[1]
