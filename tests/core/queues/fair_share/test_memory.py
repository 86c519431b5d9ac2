"""A tree rebuilt from plain values continues as the old one would have."""

from __future__ import annotations

import random

import msgspec
import pytest

from farm.core.queues.fair_share.tree_snapshot import TreeMemory


def in_motion(make_yard, seed, compatibility=None):
    """Make a yard with waiting, running and shared jobs and slots at home in many nodes."""
    yard = make_yard([50, 20], compatibility=compatibility)
    dice = random.Random(seed)
    paths = ["u/x", "u/y", "v/x", "w", ""]
    for n in range(40):
        yard.wait(f"j{n}", dice.choice(paths), n, priority=dice.choice([0, 0, 50, -100]))
        if n % 9 == 4:
            yard.follow(f"f{n}", f"j{n}", dice.choice(paths), n)
    slots = [f"s{n}" for n in range(12)]
    for n in range(25):
        slot = dice.choice(slots)
        if slot in yard.running:
            yard.end(slot, 50 + n, completed=dice.random() < 0.8)
        else:
            yard.take(slot, 50 + n)
    for name in list(yard.waiting)[8:]:
        yard.queue.remove(yard.waiting.pop(name), 80)
    for follower in [s for s in yard.jobs.values() if s.leader is not None]:
        if follower.leader.job.id not in yard.waiting and follower.leader.slot is None:
            yard.queue.left(follower, 80)
            leader = follower.leader
            leader.followers = tuple(f for f in leader.followers if f is not follower)
    return yard


def rebuilt(make_yard, yard):
    """Return a yard whose queue came through memory, with the very same jobs and slots."""
    twin = make_yard(yard.stickiness, yard.compatibility)
    twin.jobs, twin.slots, twin.serial = yard.jobs, yard.slots, yard.serial
    twin.waiting, twin.running = dict(yard.waiting), dict(yard.running)
    wire = msgspec.json.encode(yard.queue.memory())
    twin.queue.restore(
        msgspec.json.decode(wire, type=TreeMemory),
        twin.slots.values(),
        twin.waiting.values(),
        twin.running.values(),
    )
    return twin


@pytest.mark.parametrize("compatibility", [None, "buildbarn"])
@pytest.mark.parametrize("seed", range(12))
def test_a_rebuilt_queue_continues_the_same_way(make_yard, seed, compatibility):
    """Same counts, same listing, and slot by slot the same jobs from then on."""
    yard = in_motion(make_yard, seed, compatibility)
    twin = rebuilt(make_yard, yard)
    twin.check()
    assert twin.queue.memory() == yard.queue.memory()
    for path in ((), ("u",)):
        assert twin.queue.listing.children(path) == yard.queue.listing.children(path)
    assert list(twin.queue.in_order()) == list(yard.queue.in_order())
    for at, slot in enumerate([*sorted(yard.running), *sorted(yard.slots)], start=100):
        took = []
        for one in (yard, twin):
            if slot in one.running:
                one.end(slot, at)
            took.append(one.take(slot, at))
        assert took[0] == took[1]


def test_slots_unknown_to_the_memory_are_new(make_yard):
    """A slot that joined after the memory was taken belongs to the root; a gone one nowhere."""
    yard = make_yard([10])
    yard.wait("a", "u")
    yard.take("old", 1)
    yard.end("old", 2)
    memory = yard.queue.memory()
    twin = make_yard([10])
    twin.queue.restore(memory, [twin.slot("new")], [], [])
    assert twin.take("new", 3) is None
    assert [row.last for row in twin.queue.memory().slots] == [()]
    assert twin.node("u") is None
