"""Burning attempts on a played builder: amounts of work, ends, cancels, neighbours."""

from __future__ import annotations

import threading

import pytest

from farm.core.commands import CancelJob, StartJob
from farm.core.contention.laws import ContentionLaw, SlowdownTable
from farm.core.events import Event, JobFinished
from farm.core.model import Builder, Job
from farm.live.wire.messages import Play
from workers.burn.burning_jobs import Burnt
from workers.host_agenda import HostAgenda
from workers.journal import AttemptJournal, read_journals
from workers.played_builder import PlayedBuilder


class FakeBurner:
    """Burns nothing; the test ends it."""

    def __init__(self) -> None:
        self.started: list[tuple] = []
        self.killed: list[int] = []
        self.ended: dict[int, object] = {}

    def start(self, mode, seconds, threads, ended, *, cores=None) -> int:
        self.started.append((mode, seconds, threads, cores))
        self.ended[len(self.started)] = ended
        return len(self.started)

    def kill(self, number: int) -> None:
        self.killed.append(number)


class Stage:
    def __init__(self, *, farm_speed=1.0, law=None, journal=None, **builder) -> None:
        self.burner = FakeBurner()
        self.told: list[Event] = []
        self.agenda = HostAgenda(threading.RLock())
        played = Builder(id="b", pool="p", index=0, slots=4, **builder)
        play = Play(builder=played, speed=farm_speed, law=law)
        with self.agenda.turn():
            self.builder = PlayedBuilder(
                play, self.agenda, self.told.append, self.burner, journal=journal
            )

    def start(self, mode="stress", name="job", **job) -> None:
        given = Job(id=name, service_time=12.0, mode=mode, **job)
        with self.agenda.turn():
            self.builder.start(StartJob(given, 1, "b", 0))

    @property
    def ends(self) -> list[tuple[str, str]]:
        return [(r.outcome, r.reason) for r in self.told if isinstance(r, JobFinished)]


@pytest.mark.parametrize("mode", ["stress", "memory", "mixed"])
def test_the_work_is_the_service_time_at_the_speed_of_builder_and_farm(mode):
    """12 s of service on a builder twice as fast, in a farm three times as fast: 2 s of a core."""
    stage = Stage(farm_speed=3.0, speed=2.0, cores=1)
    stage.start(mode, threads=4)
    ((burnt, seconds, threads, cores),) = stage.burner.started
    assert (burnt, seconds, threads, len(cores)) == (mode, 2.0, 4, 1)
    assert stage.ends == []
    assert list(stage.builder.attempts) == ["job"]


@pytest.mark.parametrize(
    ("error", "fails", "end"),
    [
        (None, False, ("succeeded", "")),
        (None, True, ("failed", "")),
        ("killed by signal 9", False, ("failed", "killed by signal 9")),
    ],
)
def test_it_ends_when_its_burner_reports_it(error, fails, end):
    """Finished, failed as the workload says, failed by the machine."""
    stage = Stage()
    stage.start(fails=fails)
    stage.burner.ended[1](Burnt(error, 1.0))
    assert stage.ends == [end]
    assert not stage.builder.attempts


def test_what_it_burnt_is_in_the_journal(tmp_path):
    """Processor seconds, beside those of its work: two threads of 12 s; not of one that failed."""
    stage = Stage(journal=AttemptJournal(str(tmp_path), "host"))
    for number, error in ((1, None), (2, "killed by signal 9")):
        stage.start(name=f"job-{number}", threads=2)
        stage.burner.ended[number](Burnt(error, 25.0))
    (note,) = read_journals(tmp_path)
    assert (note.what, note.job, note.work, note.cpu) == ("burnt", "job-1", 24.0, 25.0)


def test_a_cancel_kills_and_a_late_end_is_ignored():
    """The end may be on its way while the cancel comes: one Finished, and it is the cancel's."""
    stage = Stage()
    stage.start()
    with stage.agenda.turn():
        stage.builder.cancel(CancelJob("job", 1, "b", "enough"))
    assert stage.burner.killed == [1]
    stage.burner.ended[1](Burnt(None, 1.0))
    assert stage.ends == [("cancelled", "enough")]


def test_a_builder_that_vanishes_leaves_no_burning_process():
    """No report, no process."""
    stage = Stage()
    stage.start(name="one")
    stage.start(name="two")
    stage.builder.vanish()
    assert stage.burner.killed == [1, 2]
    stage.burner.ended[1](Burnt(None, 1.0))
    assert stage.ends == []


def test_a_burning_heavy_job_slows_its_timed_neighbours():
    """As in the simulation, where all modes follow the law."""
    stage = Stage(law=ContentionLaw(SlowdownTable((1.0, 3.0))))
    stage.start(heavy=True)
    assert stage.builder._ends.slowdown == 3.0
    stage.burner.ended[1](Burnt(None, 1.0))
    assert stage.builder._ends.slowdown == 1.0


def test_a_builder_without_a_burner_reports_it():
    """The job fails and the reason names the mode."""
    stage = Stage()
    stage.builder._burners = None
    stage.start()
    assert stage.ends == [("failed", "this builder cannot run jobs of mode 'stress'")]
    stage.start("gambling", name="other")
    assert stage.ends[1] == ("failed", "this builder cannot run jobs of mode 'gambling'")
