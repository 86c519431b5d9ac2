"""Which job goes next: score, own queue before children, static levels, ties."""

from __future__ import annotations

import random

import pytest

from farm.core.queues.fair_share.node_score import score


@pytest.mark.parametrize(("points", "taken"), [(100, "AABAABAAB"), (200, "AAAABAAAAB")])
def test_a_hundred_points_are_a_factor_of_two(yard, points, taken):
    """Two slots to one, the urgent one wins what is nearly a tie; and four to one at 200."""
    for n in range(10):
        yard.wait(f"A{n}", "A")
        yard.wait(f"B{n}", "B", priority=points)
    assert "".join(name[0] for name in yard.take_all(len(taken))) == taken


@pytest.mark.parametrize("low", [-(2**31), -100_000, -1, 0, 1, 99, 2**31 - 101])
def test_scores_of_any_priority_compare(low):
    """Every int32 priority has a score; equal ones tie exactly, urgent ones come first."""
    assert score(3, low) == score(3, low)
    assert score(0, low) < score(0, low + 1) < score(0, low + 100)
    assert score(1, low) < score(0, low + 100) < score(2, low)


def test_scores_agree_with_the_formula_where_it_does_not_overflow():
    """The split into exponent and mantissa changes the form of the number only."""
    base = 2**0.01
    for executing in (0, 1, 2, 7, 1000):
        for priority in (-5000, -150, -100, -1, 0, 1, 50, 100, 200, 5000):
            exponent, mantissa = score(executing, priority)
            assert mantissa * 2.0**exponent == pytest.approx(
                (executing + 1) * base**priority, rel=1e-12
            )


def test_ties_go_to_the_least_recently_started(yard):
    """Equal scores rotate, also when everything happens at one instant."""
    for name in ("b", "a", "c"):
        for n in range(3):
            yard.wait(f"{name}{n}", name)
    taken = [yard.take(f"s{n}", 0.0) for n in range(9)]
    assert taken == ["b0", "a0", "c0", "b1", "a1", "c1", "b2", "a2", "c2"]


@pytest.mark.parametrize(("has_more", "following"), [(True, "a0"), (False, "c1")])
def test_a_requeue_costs_a_turn_if_the_job_was_all_that_its_node_had(yard, has_more, following):
    """The job keeps its place in its node; a node that is made anew comes after its siblings."""
    yard.wait("a0", "A")
    if has_more:
        yard.wait("a1", "A")
    yard.wait("c0", "C")
    yard.wait("c1", "C")
    assert yard.take("s0", 1) == "a0"
    assert yard.take("s1", 2) == "c0"
    yard.end("s1", 3)
    yard.end("s0", 4, completed=False)
    assert yard.take("s2", 5) == following


def test_what_runs_already_counts(yard):
    """Fairness is equal numbers of executing slots among siblings, whichever came first."""
    yard.wait("a0", "A")
    yard.wait("a1", "A")
    assert yard.take_all(2) == ["a0", "a1"]
    for n in range(3):
        yard.wait(f"a{n + 2}", "A", at=5)
        yard.wait(f"b{n}", "B", at=5)
    assert yard.take_all(4, at=10) == ["b0", "b1", "a2", "b2"]


def test_own_queue_before_children(yard):
    """Jobs queued directly in a node precede those below it, whatever their priority."""
    yard.wait("below", "A/x", priority=-1000)
    yard.wait("direct", "A", priority=1000)
    yard.wait("other", "B")
    assert yard.take_all(3) == ["other", "direct", "below"]


def test_paths_of_any_depth_mix(yard):
    """The root, shallow and deep nodes live in one tree."""
    yard.wait("deep", "a/b/c/d/e/f")
    yard.wait("shallow", "a")
    yard.wait("root")
    assert yard.take_all(3) == ["root", "shallow", "deep"]


def test_a_higher_level_goes_first_wherever_it_stands(yard):
    """Static levels trump fairness, own queues and priorities alike."""
    yard.wait("plain")
    yard.wait("direct", "A", priority=-1000)
    yard.wait("deep", "A/x", priority=1000, level=1)
    yard.wait("deeper", "B/y/z", priority=1000, level=2)
    assert yard.take_all(4) == ["deeper", "deep", "plain", "direct"]


def test_priority_follows_a_reordering_below(yard):
    """A node competes with the priority of the job that would really go next from it.

    Also after a completion below changed what that is (upstream looks on queue changes only).
    """
    yard.wait("run", "U/urgent", priority=0)
    yard.wait("run2", "U/urgent", priority=0)
    assert yard.take_all(2) == ["run", "run2"]
    yard.wait("u", "U/urgent", priority=0, at=5)  # score below U: (2+1)·1 = 3
    yard.wait("l", "U/lazy", priority=150, at=5)  # 1·2.83: goes first below U
    yard.wait("other", "V", priority=149, at=5)
    assert yard.node("U").priority == 150
    yard.end("s0", 6)
    assert yard.node("U").priority == 0  # (1+1)·1 = 2: the urgent one would go next
    yard.end("s1", 7)
    assert yard.take("x", 8) == "u"


def test_removing_and_rekeying(yard):
    """A waiting job can leave or move; the others keep their order."""
    for n in range(4):
        yard.wait(f"a{n}", "A")
    yard.wait("b", "B", priority=1)
    yard.cancel("a1")
    yard.prioritise("a3", priority=-1)
    yard.prioritise("a2", priority=7)
    assert [state.job.id for state in yard.queue.in_order()] == ["a3", "b", "a0", "a2"]
    assert yard.take_all(4) == ["a3", "b", "a0", "a2"]


def test_removing_waiting_work_leaves_times_alone(yard):
    """Cancelling what waits neither starts nor completes anything (upstream bumps both)."""
    yard.wait("a0", "A", at=1)
    yard.wait("a1", "A", at=1)
    yard.take("s", 2)
    node = yard.node("A")
    before = node.last_start, node.last_end
    yard.cancel("a1")
    assert (node.last_start, node.last_end) == before


def test_choose_changes_nothing(yard):
    """Asking has no effect: the same answer however often."""
    yard.wait("a", "A")
    yard.wait("b", "B")
    yard.make("s")
    (slot,) = yard.scheduler.builders["s"].slots
    memory = yard.queue.memory()
    assert [yard.queue.choose(slot, 1.0).job.id for _ in range(3)] == ["a"] * 3
    assert yard.queue.memory() == memory


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))]
)
def test_no_invocation_starves(yard, seed):
    """With constant newcomers, every invocation's first job still gets its turn soon.

    One slot, equal priorities: between two dispatches of a node every other waiting sibling is
    dispatched at most once more than it, so an arrival waits at most one round.
    """
    dice = random.Random(seed)
    builds = [f"b{n}" for n in range(8)]
    for name in builds:
        yard.wait(f"{name}-0", name)
    since = dict.fromkeys(builds[2:], 0)
    assert yard.take("s", 0) is not None
    for turn in range(1, 100):
        flooding = dice.choice(builds[:2])
        yard.wait(f"{flooding}-{turn}", flooding, turn)
        if turn % 20 == 0:
            for name in since:
                yard.wait(f"{name}-{turn}", name, turn)
                since[name] = turn
        assert yard.turn("s", turn) is not None
        waiting = {name.split("-")[0] for name in yard.waiting}
        assert all(turn - since[name] <= len(builds) + 1 for name in waiting & since.keys())
