"""An emulated builder, on an agenda whose time a test moves."""

from __future__ import annotations

import heapq

import pytest

from farm.core.model import Builder, Job
from farm.live.wire import messages as wire
from farm.live.wire.messages import VERSION, Play, StartAttempt
from workers import builder as module
from workers.builder import PlayedBuilder, law_of


class HandTurned:
    """An agenda and a clock that go only when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list = []
        self._serial = 0

    def after(self, seconds, action):
        return self.at(self.now + seconds, action)

    def at(self, due_at, action):
        self._serial += 1
        entry = module.Entry(due_at, action)
        heapq.heappush(self._due, (due_at, self._serial, entry))
        return entry

    def until(self, instant: float) -> None:
        while self._due and self._due[0][0] <= instant:
            due_at, _, entry = heapq.heappop(self._due)
            self.now = max(self.now, due_at)
            if entry.action is not None:
                entry.action()
        self.now = instant


class Stage:
    def __init__(self, **play) -> None:
        self.agenda = HandTurned()
        self.told: list[tuple[float, wire.Report]] = []
        self.slots = play.pop("slots", 4)
        builder = Builder(
            id="b",
            pool="p",
            index=1,
            slots=self.slots,
            speed=play.pop("builder_speed", 1.0),
            cleans=play.get("inter_job_time", 0) > 0,
        )
        self.play = Play(v=VERSION, builder=builder, **play)
        self.builder = PlayedBuilder(self.play, self.agenda, self.tell, law_of(self.play))

    def tell(self, report: wire.Report) -> None:
        self.told.append((self.agenda.now, report))

    def start(self, name: str, service_time: float, slot: int = 0, **job) -> None:
        self.builder.start(
            StartAttempt(
                v=VERSION,
                job=Job(id=name, service_time=service_time, **job),
                attempt=1,
                builder="b",
                slot=slot,
            )
        )

    def ends(self) -> list[tuple[float, str, str]]:
        return [(at, r.job, r.outcome) for at, r in self.told if isinstance(r, wire.Finished)]

    def instants(self, kind: type) -> list[float]:
        return [at for at, report in self.told if isinstance(report, kind)]


@pytest.fixture
def stage(monkeypatch):
    """Make a builder on a hand-turned agenda."""

    def make(**play) -> Stage:
        made = Stage(**play)
        monkeypatch.setattr(module.time, "monotonic", lambda: made.agenda.now)
        return made

    made_before = Stage.__init__

    def patched(self, **play) -> None:
        monkeypatch.setattr(module.time, "monotonic", lambda: 0.0)
        made_before(self, **play)

    monkeypatch.setattr(Stage, "__init__", patched)
    return make


def test_a_life(stage):
    """Boot, a job, retire, gone: each at its instant (speed 10: a farm second is 0.1 real)."""
    s = stage(speed=10.0, boot_time=5.0, shutdown_time=2.0)
    s.agenda.until(1.0)
    assert s.instants(wire.BuilderUp) == [0.5]
    s.start("a", 30.0)
    s.agenda.until(5.0)
    assert s.ends() == [(4.0, "a", "succeeded")]
    s.builder.retire()
    s.agenda.until(6.0)
    assert s.instants(wire.BuilderGone) == [5.2]
    assert s.builder.gone


def test_a_fast_builder_and_a_failing_job(stage):
    """Service time is the job's ÷ speed; a job that fails does so at its end."""
    s = stage(builder_speed=2.0)
    s.start("a", 10.0, fails=True)
    s.agenda.until(20.0)
    assert s.ends() == [(5.0, "a", "failed")]


def test_cleaning_follows_every_end(stage):
    """Also a cancelled one's."""
    s = stage(inter_job_time=3.0)
    s.start("a", 10.0)
    s.start("b", 50.0, slot=1)
    s.agenda.until(20.0)
    s.builder.cancel(("b", 1), "no")
    s.agenda.until(30.0)
    assert s.ends() == [(10.0, "a", "succeeded"), (20.0, "b", "cancelled")]
    assert s.instants(wire.Cleaned) == [13.0, 23.0]


def test_jobs_slow_each_other_down(stage):
    """Two heavy jobs under a table: an end moves when a neighbour comes or goes."""
    s = stage(contention={"slowdown": [1.0, 1.0, 2.0]})
    s.start("a", 10.0, heavy=True)
    s.agenda.until(4.0)
    s.start("b", 10.0, slot=1, heavy=True)
    s.agenda.until(100.0)
    # a: 4 alone, then 6 of work at half speed; b: 6 of work by then, the rest alone
    assert s.ends() == [(16.0, "a", "succeeded"), (20.0, "b", "succeeded")]


def test_the_same_attempt_twice_is_one(stage):
    """A start order that was sent again is obeyed once."""
    s = stage()
    s.start("a", 10.0)
    s.start("a", 10.0)
    s.agenda.until(100.0)
    assert len(s.told) == 3  # up, started, finished


def test_a_cancel_that_comes_too_late_is_nothing(stage):
    """The attempt has ended already; no second end is told."""
    s = stage()
    s.start("a", 1.0)
    s.agenda.until(2.0)
    s.builder.cancel(("a", 1), "late")
    assert s.ends() == [(1.0, "a", "succeeded")]


def test_no_time_at_all(stage):
    """Jobs of no work end at once."""
    s = stage()
    s.start("a", 0.0)
    assert s.ends() == [(0.0, "a", "succeeded")]


def test_a_mode_that_nobody_plays_fails_with_its_name(stage):
    """Not silently emulated as something else."""
    s = stage()
    s.start("a", 1.0, mode="quantum")
    report = s.told[-1][1]
    assert report.outcome == "failed"
    assert "quantum" in report.reason
    assert not s.builder.held


def test_whoever_vanished_says_nothing_more(stage):
    """A host that begins a new life drops its builders without a word."""
    s = stage(boot_time=1.0, inter_job_time=1.0)
    s.agenda.until(2.0)
    s.start("a", 5.0)
    s.builder.vanish()
    s.agenda.until(100.0)
    assert len(s.told) == 2
