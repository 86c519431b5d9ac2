"""Stickiness: exact ties only, one limit a level, counted from the switch at that level."""

from __future__ import annotations

import pytest


def fill(yard, *names, count=6):
    """Let this many jobs wait in each of these nodes."""
    for name in names:
        for n in range(count):
            yard.wait(f"{name}{n}", name)


def test_a_slot_stays_until_its_limit(make_yard):
    """The limit counts from the switch; at the limit itself it is over."""
    yard = make_yard([5])
    fill(yard, "a", "b")
    assert yard.take("s", 20) == "a0"
    assert yard.turn("s", 22) == "a1"
    assert yard.turn("s", 24.9) == "a2"
    assert yard.turn("s", 25) == "b0"
    assert yard.turn("s", 29) == "b1"
    assert yard.turn("s", 30) == "a3"


def test_it_never_overrides_counts(make_yard):
    """A slot leaves its invocation when another one has fewer slots (D8)."""
    yard = make_yard([1000])
    fill(yard, "a")
    assert yard.take("s0", 1) == "a0"
    assert yard.take("s1", 2) == "a1"
    fill(yard, "b")
    assert yard.turn("s1", 3) == "b0", "a has one slot left, b none"
    assert yard.turn("s1", 4) == "b1", "one each without it: now it stays"


@pytest.mark.parametrize("need", [{"priority": -1}, {"level": 1}], ids=str)
def test_it_never_overrides_priority_and_levels(make_yard, need):
    """A more urgent job elsewhere goes first (D8), and so does one of a higher level."""
    yard = make_yard([1000])
    fill(yard, "a")
    assert yard.take("s", 1) == "a0"
    yard.wait("first", "b", **need)
    assert yard.turn("s", 2) == "first"


@pytest.mark.parametrize(
    ("compatibility", "others"), [(None, "y0 y1 y2 x3"), ("buildbarn", "y0 x3 y1 x4")]
)
def test_each_level_counts_from_its_own_switch(make_yard, compatibility, others):
    """One user, two images: level 1 starts anew when it switches, though level 0 stays (D10).

    As upstream has it, level 1 is never sticky again until level 0 switches (D11).
    """
    yard = make_yard([1000, 5], compatibility=compatibility)
    fill(yard, "u/x", "u/y")
    taken = [yard.take("s", 20)] + [yard.turn("s", at) for at in (22, 24, 26, 28, 30, 32)]
    assert taken == ["u/x0", "u/x1", "u/x2", *(f"u/{name}" for name in others.split())]


def test_a_zero_outer_limit_does_not_switch_the_inner_one_off(make_yard):
    """[0s, 300s]: users rotate on a tie, and a user's slot keeps its image all the same."""
    yard = make_yard([0, 300])
    fill(yard, "u/x", "u/y")
    assert [yard.take("s", 1), yard.turn("s", 2), yard.turn("s", 3)] == ["u/x0", "u/x1", "u/x2"]
    upstream = make_yard([0, 300], compatibility="buildbarn")
    fill(upstream, "u/x", "u/y")
    upstream.wait("v", "v/z")
    upstream.take("s", 1)
    assert upstream.turn("s", 2) == "v"


def test_switching_above_ends_stickiness_below(make_yard):
    """A slot that switches user has nothing to stay with below, even where keys are equal."""
    yard = make_yard([0, 1000])
    fill(yard, "u/x", count=2)
    yard.wait("v/w0", "v/w")
    yard.wait("v/x0", "v/x")
    assert yard.take("s", 1) == "u/x0"
    assert yard.turn("s", 2) == "v/w0", "level 0 rotates; v/w was made before v/x"
    assert yard.queue.retained == {0: 2}


def test_retained_levels_are_counted(make_yard):
    """The histogram counts levels kept, also when the sticky child was first anyway."""
    yard = make_yard([5, 5])
    fill(yard, "u/x", count=3)
    yard.wait("u/y0", "u/y")
    assert yard.take("s", 1) == "u/x0"
    assert yard.turn("s", 2) == "u/x1"
    assert yard.turn("s", 7) == "u/y0"
    assert yard.queue.retained == {0: 1, 2: 1, 1: 1}


def test_keeping_a_level_keeps_its_start(make_yard):
    """A kept level does not begin anew when a deeper one switches."""
    yard = make_yard([10, 2])
    fill(yard, "u/x", "u/y", "v/z")
    assert yard.take("s", 100) == "u/x0"
    assert yard.turn("s", 103) == "u/y0"
    assert yard.turn("s", 109) == "u/x1"
    assert yard.turn("s", 110) == "v/z0", "ten seconds since it came to u"


def test_a_slot_placed_on_arrival_starts_every_level_anew(make_yard):
    """A hand-over to a free slot counts as a switch at every level, as upstream has it."""
    yard = make_yard([5])
    yard.wait("a0", "a")
    yard.take("s", 10)
    assert yard.turn("s", 12) is None
    assert yard.arrive("a1", "a", 14) == "s"
    fill(yard, "b")
    yard.wait("a2", "a")
    assert yard.turn("s", 18) == "a2", "5 s since 14, not since 10"
    assert yard.queue.retained.total() == 2, "a job placed on arrival retains nothing"


@pytest.mark.parametrize("limits", [[1e9], [1e9, 1e9]])
def test_a_lost_job_leaves_nothing_to_stay_with(make_yard, limits):
    """After a loss or a cancel the slot belongs to the root."""
    yard = make_yard(limits)
    fill(yard, "a", "b", count=2)
    assert yard.take("s", 1) == "a0"
    yard.end("s", 2, completed=False)
    assert yard.home("s") == ""
    assert yard.take("s", 2) == "b0"
