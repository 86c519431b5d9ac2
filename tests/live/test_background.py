"""Work in small steps: bounded in one turn, alternating, and never most of the time."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from farm.live.regular_work import (
    AT_ONCE,
    BRIEFLY,
    LOOK_INTERVAL,
    SHARE,
    Background,
    RegularWork,
)
from farm.metrics.series import Series


class Clock:
    """Real time that passes only during work."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Worker:
    """Has a number of steps to do, each of which takes some time."""

    def __init__(self, clock, steps, takes=0.0005) -> None:
        self.clock, self.left, self.takes = clock, steps, takes
        self.done_at: list[float] = []

    def __call__(self) -> bool:
        if not self.left:
            return False
        self.left -= 1
        self.clock.now += self.takes
        self.done_at.append(self.clock.now)
        return self.left > 0


@pytest.fixture
def clock():
    """A clock that only the test moves."""
    return Clock()


def test_steps_are_bounded_in_one_turn_and_by_their_share_of_the_time(clock):
    """After two milliseconds of steps comes a pause, for reports."""
    background, worker = Background(clock), Worker(clock, 1000)
    background.add(worker)
    began = clock.now
    while worker.left:
        before = clock.now
        pause = background.turn(clock.now)
        assert clock.now - before < AT_ONCE + worker.takes
        assert pause is not None
        clock.now += pause
    assert 1000 * worker.takes / (clock.now - began) == pytest.approx(SHARE, rel=0.05)


def test_a_turn_that_comes_too_early_does_nothing(clock):
    """A call that is too early returns how long to wait."""
    background, worker = Background(clock), Worker(clock, 1000)
    background.add(worker)
    pause = background.turn(clock.now)
    done = len(worker.done_at)
    clock.now += pause / 2
    assert background.turn(clock.now) == pytest.approx(pause / 2)
    assert len(worker.done_at) == done


def test_one_long_step_is_followed_by_a_long_pause(clock):
    """A step cannot be interrupted, but no other follows it at once."""
    background = Background(clock)
    background.add(Worker(clock, 2, takes=0.1))
    assert background.turn(clock.now) == pytest.approx(0.1 * (1 / SHARE - 1))


def test_all_tasks_get_turns(clock):
    """Neither waits for the other's end."""
    background = Background(clock)
    workers = [Worker(clock, 100), Worker(clock, 100)]
    for worker in workers:
        background.add(worker)
    background.turn(clock.now)
    assert all(worker.done_at for worker in workers)


def test_without_work_there_is_no_pause(clock):
    """The world waits for reports as long as it likes."""
    background, worker = Background(clock), Worker(clock, 1)
    assert background.turn(clock.now) is None
    background.add(worker)
    assert background.turn(clock.now) is None
    assert not worker.left


def test_a_task_after_a_long_step_waits_for_the_reports(clock):
    """Two long steps never follow each other directly."""
    background, worker = Background(clock), Worker(clock, 100)
    background.add(worker)
    since = clock.now
    clock.now += 2 * AT_ONCE
    assert background.turn(since) == BRIEFLY
    assert not worker.done_at
    background.turn(clock.now)
    assert worker.done_at


class Resting:
    """A farm at rest whose hosts beat at some instants, and when it looked for lost keys (real)."""

    def __init__(self) -> None:
        self.now = 0.0
        self.wakeups: list[float] = []
        self.looks: list[float] = []
        self.work = RegularWork(
            lambda: math.inf,
            lambda: self.looks.append(self.now),
            lambda: None,
            Series(),
            rests=True,
            monotonic=lambda: self.now,
        )

    def play(self, beats: list[float]) -> None:
        """Wait for each heartbeat, and do what is due before it."""
        for beat in beats:
            while self.now < beat:
                pause = self.work.do(self.now)
                due = self.now + self.work.longest_wait(self.now, pause, math.inf)
                self.now = min(due, beat)
                self.wakeups.append(self.now)


def test_a_farm_at_rest_does_not_wake_for_a_look_alone():
    """What is nearly due is done when a heartbeat comes: half of the wake-ups would be its own."""
    farm = Resting()
    # a host takes some time for each
    beats = [0.3 + 1.004 * number for number in range(60)]
    farm.play(beats)
    assert len(farm.wakeups) <= len(beats) + 1
    assert max(b - a for a, b in pairwise(farm.looks)) <= LOOK_INTERVAL + 0.01


def test_many_heartbeats_bring_a_look_forward_by_little():
    """Looks of a farm with many hosts would else come nearly twice as often."""
    farm = Resting()
    farm.play([0.2 * number for number in range(1, 300)])
    assert min(b - a for a, b in pairwise(farm.looks)) >= LOOK_INTERVAL - 0.25
    assert max(b - a for a, b in pairwise(farm.looks)) <= LOOK_INTERVAL + 0.01


def test_lost_keys_are_looked_for_without_heartbeats():
    """A farm of which nothing is heard looks as often."""
    farm = Resting()
    farm.play([60.0])
    assert max(b - a for a, b in pairwise(farm.looks)) <= LOOK_INTERVAL + 0.01
