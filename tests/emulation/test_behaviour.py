"""Users' behaviours: what a builder does with its jobs and its time, in both worlds."""

from __future__ import annotations

from msgspec.structs import replace

from farm.core.errors import RunError
from farm.core.events import BuilderJoined, BuilderRetired, DrainRequested, JobFinished, SlotCleaned
from farm.emulation.behaviour import BuilderBehaviour


class Moody(BuilderBehaviour):
    """Boots in 7 s, takes longer for the first job, leaves after the third."""

    jobs = 0

    def boot_time(self):
        return 7.0

    def run(self, job):
        self.jobs += 1
        return replace(job, service_time=30.0, fails=True) if self.jobs == 1 else job

    def rest_time(self, _job):
        return None if self.jobs >= 3 else 2.0

    def shutdown_time(self):
        return 4.0


class Broken(BuilderBehaviour):
    """Fail as a guard reports it."""

    def run(self, _job):
        raise RunError("mine:Broken failed: KeyError: 'repo'")


def test_it_decides_what_happens_and_when(stage):
    """Another boot time, service time and outcome, a rest, and a builder that asks to leave."""
    s = stage(own=Moody, boot_time=1.0)
    s.until(10.0)
    assert s.instants(BuilderJoined) == [7.0]
    s.start("a", 5.0)
    s.until(50.0)
    assert [(end.at, end.outcome) for end in s.of(JobFinished)] == [(40.0, "failed")]
    assert s.instants(SlotCleaned) == [42.0]
    s.start("b", 10.0, slot=1)
    s.start("c", 5.0)
    s.until(100.0)
    assert [end.at for end in s.of(JobFinished)] == [40.0, 55.0, 60.0]
    assert s.instants(SlotCleaned) == [42.0, 55.0, 60.0]
    asked = [(event.at, event.pattern, event.retire) for event in s.of(DrainRequested)]
    assert asked == [(55.0, "b", True), (60.0, "b", True)]
    # before the end of its last job: no other gets the slot
    assert s.kinds().index("DrainRequested") < s.kinds().index("JobFinished", 5)
    s.do(s.builder.retire)
    s.until(110.0)
    assert s.instants(BuilderRetired) == [104.0]


def test_a_job_that_it_cannot_run_fails(stage):
    """With the reason, at its start; the builder continues."""
    s = stage(own=Broken)
    s.start("a", 5.0)
    s.until(10.0)
    found = [(end.at, end.outcome, end.reason) for end in s.of(JobFinished)]
    assert found == [(0.0, "failed", "mine:Broken failed: KeyError: 'repo'")]
    assert s.instants(SlotCleaned) == [0.0]
