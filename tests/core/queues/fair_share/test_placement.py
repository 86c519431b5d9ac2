"""Which free slot an arriving job gets: the nearest, then the least used, then the oldest."""

from __future__ import annotations

import pytest


def settle(yard, **homes):
    """Let slots run one job each and wait in the given nodes, in this order."""
    yard.make(*homes)
    for n, (slot, path) in enumerate(homes.items()):
        yard.wait(f"warm-{slot}", path.replace("__", "/"), 0.0)
        assert yard.take(slot, 1.0) == f"warm-{slot}"
        yard.end(slot, 2.0 + n)
    for slot in homes:
        assert yard.take(slot, 10.0) is None


def test_nearest_first(yard):
    """Own node, then those that share a parent, then unused slots, then any."""
    settle(yard, w0="u1__i1", w1="u2__k1", w2="u1__i2")
    assert yard.take("new", 11) is None
    arrivals = [("u1/i2", "w2"), ("u1/i9", "w0"), ("u9/m1", "new"), ("u9/m2", "w1"), ("x", None)]
    for n, (path, slot) in enumerate(arrivals):
        assert yard.arrive(f"q{n}", path, 20 + n) == slot


def test_nearness_beats_idle_time(yard):
    """A slot that waits in a node deep below an ancestor is nearer than the root's own."""
    settle(yard, deep="u__a__b")
    assert yard.take("new", 11) is None
    assert yard.arrive("q", "u/c", 20) == "deep"


def test_the_least_used_sibling_gives_up_a_slot(yard):
    """Executing ÷ (executing + free): 0/1 before 1/2, whichever completed first."""
    for name, path in (("p0", "A"), ("p1", "B"), ("p2", "B")):
        yard.wait(name, path)
    assert [yard.take(f"w{n}", 1) for n in range(3)] == ["p0", "p1", "p2"]
    assert yard.turn("w1", 2) is None
    assert yard.turn("w0", 3) is None
    assert yard.arrive("q", "C", 20) == "w0"


def test_equal_use_goes_to_the_oldest_completion(yard):
    """The slot that finished longest ago is the coldest."""
    settle(yard, w0="A", w1="B", w2="C")
    assert [yard.arrive(f"q{n}", "D", 20 + n) for n in range(4)] == ["w0", "w1", "w2", None]


@pytest.mark.parametrize(("compatibility", "taken"), [(None, "s1"), ("buildbarn", "s0")])
def test_inner_nodes_count_free_slots_of_their_subtree(make_yard, compatibility, taken):
    """A/x has one of two slots busy, B/y one of three: B's is taken (upstream: who ended first)."""
    yard = make_yard(compatibility=compatibility)
    for name, path in (("a1", "A/x"), ("b1", "B/y"), ("a2", "A/x"), ("b2", "B/y"), ("b3", "B/y")):
        yard.wait(name, path)
    assert yard.take_all(5) == ["a1", "b1", "a2", "b2", "b3"]
    assert yard.turn("s0", 10) is None  # A: 1 busy, 1 free, completed first
    assert yard.turn("s1", 11) is None
    assert yard.turn("s3", 12) is None  # B: 1 busy, 2 free
    assert yard.arrive("q", "C", 20) == taken


@pytest.mark.parametrize(
    ("compatibility", "used"), [(None, ["w0", "w1", "w2"]), ("buildbarn", ["w0", "w2", "w1"])]
)
def test_own_slots_go_longest_free_first(make_yard, compatibility, used):
    """In the order in which they became free (upstream swaps the last into the hole: D20)."""
    yard = make_yard(compatibility=compatibility)
    for name in ("w0", "w1", "w2"):
        assert yard.take(name, 1) is None
    assert [yard.arrive(f"q{n}", "A", 2) for n in range(3)] == used


def test_unavailable_slots_are_not_offered_yet_keep_their_home(yard):
    """A draining or cleaning slot idles in its node without waiting for a job."""
    settle(yard, w0="A")
    yard.drain("w0")
    assert yard.arrive("q0", "A", 12) is None
    assert (yard.node("A").idle_slots, yard.node("A").free_slots) == (1, 0)
    assert yard.take("w0", 13) == "q0"


def test_a_shared_job_searches_from_all_its_nodes_in_step(yard):
    """Nearness is counted from every node that wants the job, level by level."""
    settle(yard, far="u1__z", near="u2__k")
    yard.share(x="u1/i", y="u2/k")
    assert yard.running == {"x": "near.0"}
