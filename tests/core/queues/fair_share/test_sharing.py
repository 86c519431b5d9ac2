"""One execution for several jobs: joining, leaving, and where the slot belongs afterwards."""

from __future__ import annotations

import random

import pytest


def test_a_common_ancestor_counts_one_slot(yard):
    """Both builds count the slot, their user counts it once."""
    yard.wait("x", "u/i")
    yard.follow("y", "x", "u/j")
    assert len(yard.queue) == 1
    assert yard.take("s", 1) == "x"
    assert [yard.executing(path) for path in ("u/i", "u/j", "u", "")] == [1, 1, 1, 1]
    yard.end("s", 2)
    assert yard.home("s") == "u", "lowest common ancestor"


def test_a_shared_job_runs_at_the_best_place_of_any_of_its_nodes(yard):
    """An urgent follower pulls the execution forward, and all its entries leave."""
    yard.wait("a", "u")
    yard.wait("x", "v", priority=500)
    yard.follow("y", "x", "w", priority=-500)
    assert yard.take("s0", 1) == "x"
    assert [yard.take("s1", 2), yard.take("s2", 3)] == ["a", None]


def test_same_node_joins_without_an_entry(yard):
    """A second job of the same node joins it; its priority is not considered."""
    yard.wait("a", "u")
    yard.wait("x", "u", priority=5)
    yard.follow("y", "x", "u", priority=-5)
    assert yard.node("u").waiting == 2
    assert [yard.take("s0", 1), yard.take("s1", 2), yard.take("s2", 3)] == ["a", "x", None]
    yard.end("s1", 4)
    assert yard.home("s1") == "u"


def test_the_entry_stays_while_any_job_of_its_node_wants_it(yard):
    """When the first leaves, the second keeps the place."""
    yard.wait("x", "u")
    yard.wait("a", "u")
    yard.follow("y", "x", "u")
    yard.cancel("x")
    assert [yard.take("s0", 2), yard.take("s1", 3), yard.take("s2", 4)] == ["y", "a", None]


def test_joining_what_runs_counts_at_once(yard):
    """A follower's node gets its executing slot in the middle of the run, and its turn passes."""
    yard.wait("x", "u/i")
    assert yard.take("s0", 1) == "x"
    yard.follow("y", "x", "v/j", at=2)
    assert [yard.executing(path) for path in ("u", "v/j", "v", "")] == [1, 1, 1, 1]
    yard.wait("a", "u", at=3)
    yard.wait("b", "v", at=3)
    yard.wait("c", "w", at=3)
    assert yard.take("s1", 4) == "c"
    yard.end("s0", 5)
    assert yard.home("s0") == ""
    assert yard.executing("v") == 0


def test_leaving_what_runs_counts_at_once(yard):
    """A cancelled follower's node gives its slot back; the others decide the slot's home."""
    yard.wait("x", "u/i")
    yard.follow("y", "x", "v/j")
    yard.follow("z", "x", "u/k")
    assert yard.take("s", 1) == "x"
    yard.cancel("y")
    assert yard.node("v") is None
    yard.cancel("z")
    assert [yard.executing(path) for path in ("u/k", "u/i", "u")] == [0, 1, 1]
    yard.end("s", 4)
    assert yard.home("s") == "u/i"


def test_a_leader_may_leave_what_it_started(yard):
    """The execution continues for the follower, whose node is the slot's home."""
    yard.wait("x", "u/i")
    yard.follow("y", "x", "v/j")
    assert yard.take("s", 1) == "x"
    yard.cancel("x")
    yard.follow("z", "x", "v/k", at=3)
    assert yard.node("u") is None
    assert yard.executing("v/k") == 1
    yard.end("s", 4)
    assert yard.home("s") == "v"


def test_the_last_to_leave_frees_nothing_before_the_end(yard):
    """Abandoned work occupies its slot until the slot reports that it stopped."""
    yard.wait("x", "u")
    assert yard.take("s", 1) == "x"
    assert yard.cancel("x") == ["stop x/1 on s"]
    assert yard.executing("u") == 1
    yard.finish("x", "cancelled")
    assert yard.home("s") == ""


def test_a_lost_execution_waits_again_as_a_whole(yard):
    """Requeueing the leader brings its followers back to their own places."""
    yard.wait("x", "u")
    yard.follow("y", "x", "v")
    yard.wait("a", "u", at=1)
    assert yard.take("s", 1) == "x"
    yard.lose("s")
    assert (yard.node("u").waiting, yard.node("v").waiting, len(yard.queue)) == (2, 1, 2)
    assert [yard.take("t0", 3), yard.take("t1", 4), yard.take("t2", 5)] == ["x", "a", None]


def test_a_follower_may_come_before_its_leader(yard):
    """Jobs submitted together know each other before any of them waits."""
    yard.share(x="u", y="v")
    assert (len(yard.queue), yard.node("v").waiting) == (1, 1)
    assert yard.take("s", 1) == "x"
    yard.wait("b", "v")
    yard.wait("a", "u")
    assert yard.take("t", 2) == "a", "its node is the older one"


def test_placing_a_leader_starts_its_followers_too(yard):
    """A hand-over to a free slot counts in every node that wants the job."""
    yard.take("s", 0)
    yard.share(x="u", y="v")
    assert (yard.executing("u"), yard.executing("v"), yard.executing("")) == (1, 1, 1)


def test_stickiness_follows_the_node_through_which_a_shared_job_was_chosen(make_yard):
    """A slot of u that takes a job shared with u stays in u when u offered it."""
    yard = make_yard([10])
    yard.wait("a", "u")
    assert yard.take("s", 1) == "a"
    yard.wait("x", "v", at=2)
    yard.follow("y", "x", "u", at=2)
    yard.wait("b", "v", at=3)
    assert yard.turn("s", 4) == "x"
    assert yard.queue.retained == {0: 1, 1: 1}


# --- A tree rebuilt from plain values continues as the old one would have -------------------------


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
@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 12))]
)
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
