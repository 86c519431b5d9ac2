"""What an emulated builder does, and when: the same in virtual and in real time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from farm.core.contention.laws import ContentionLaw, LoadLimits, SlowdownTable
from farm.core.errors import RunError
from farm.core.events import (
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    DrainRequested,
    JobFinished,
    JobStarted,
    LoadReported,
    SlotCleaned,
)
from farm.emulation.behaviour import BuilderBehaviour

LAW = ContentionLaw(SlowdownTable((1.0, 1.0, 2.0)))


def ends(stage) -> list[tuple[float, str, str]]:
    """Return when each attempt ended, and how."""
    return [(end.at, end.job, end.outcome) for end in stage.of(JobFinished)]


def test_a_life(stage):
    """Boot, a job, retire, gone: each at its instant."""
    s = stage(boot_time=5.0, shutdown_time=2.0)
    s.until(10.0)
    assert s.instants(BuilderJoined) == [5.0]
    s.start("a", 30.0)
    s.until(50.0)
    assert s.instants(JobStarted) == [10.0]
    assert ends(s) == [(40.0, "a", "succeeded")]
    s.do(s.builder.retire)
    s.do(s.builder.retire)
    s.until(60.0)
    assert s.instants(BuilderRetired) == [52.0]
    assert s.builder.gone


def test_a_fast_builder_and_a_failing_job(stage):
    """Service time is the job's ÷ speed; a job that fails does so at its end."""
    s = stage(speed=2.0)
    s.start("a", 10.0, fails=True)
    s.until(20.0)
    assert ends(s) == [(5.0, "a", "failed")]


def test_a_builder_whose_boot_failed_joins_and_takes_no_jobs(stage):
    """It joins like any other; that it takes no jobs is recorded on it."""
    s = stage(boot_time=3.0, takes_jobs=False)
    s.until(10.0)
    assert [(joined.at, joined.builder.takes_jobs) for joined in s.of(BuilderJoined)] == [
        (3.0, False)
    ]


def test_cleaning_follows_every_end(stage):
    """Also that of a cancelled job."""
    s = stage(inter_job_time=3.0)
    s.start("a", 10.0)
    s.start("b", 50.0, slot=1)
    s.until(20.0)
    s.cancel("b", "no")
    s.until(30.0)
    assert ends(s) == [(10.0, "a", "succeeded"), (20.0, "b", "cancelled")]
    assert [(c.at, c.slot) for c in s.of(SlotCleaned)] == [(13.0, 0), (23.0, 1)]
    assert s.builder.cleaning == 0


def test_jobs_slow_each_other_down(stage):
    """Two heavy jobs under a table: an end moves when a neighbour comes or goes."""
    s = stage(law=LAW)
    s.start("a", 10.0, heavy=True)
    s.until(4.0)
    s.start("b", 10.0, slot=1, heavy=True)
    s.until(100.0)
    # a: 4 alone, then 6 of work at half speed; b: 6 of work by then, the rest alone
    assert ends(s) == [(16.0, "a", "succeeded"), (20.0, "b", "succeeded")]


def test_a_cancelled_job_weighs_no_more(stage):
    """From that instant on; its own end is not reported."""
    s = stage(law=LAW)
    s.start("a", 10.0, heavy=True)
    s.start("b", 10.0, slot=1, heavy=True)
    s.until(4.0)
    s.cancel("b", "enough")
    s.until(100.0)
    assert ends(s) == [(4.0, "b", "cancelled"), (12.0, "a", "succeeded")]
    assert s.of(JobFinished)[0].reason == "enough"


def test_the_load_is_reported_after_every_change(stage):
    """And whether it is too much, with a gap between the limits."""
    s = stage(law=LAW, load_limits=LoadLimits(2.0, 1.0))
    s.start("a", 10.0, heavy=True)
    s.start("b", 20.0, slot=1, heavy=True)
    s.until(100.0)
    assert [(r.at, r.load, r.overloaded) for r in s.of(LoadReported)] == [
        (0.0, 1.0, False),
        (0.0, 2.0, True),
        (20.0, 1.0, False),
        (30.0, 1.0, False),
    ]
    assert s.kinds() == [
        "BuilderJoined",
        "JobStarted",
        "LoadReported",
        "JobStarted",
        "LoadReported",
        "JobFinished",
        "LoadReported",
        "JobFinished",
        "LoadReported",
    ]


def test_ends_of_one_instant_come_by_slot_and_before_all_else(stage):
    """A stated order, with contention and without it."""
    for law in (None, LAW):
        s = stage(law=law, inter_job_time=10.0, boot_time=0.0)
        s.start("first", 10.0, slot=3)
        s.until(10.0)
        for name, slot in (("c", 2), ("a", 0), ("b", 1)):
            s.start(name, 10.0, slot=slot)
        s.until(20.0)
        assert [job for at, job, _ in ends(s) if at == 20.0] == ["a", "b", "c"]
        assert s.kinds()[-4:] == ["JobFinished"] * 3 + ["SlotCleaned"]


def test_a_cancel_that_comes_too_late_has_no_effect(stage):
    """The attempt has ended already, or is another one; no second end is reported."""
    s = stage()
    s.start("a", 1.0)
    s.until(2.0)
    s.cancel("a", "late")
    s.start("a", 5.0, attempt=3)
    s.cancel("a", "another", attempt=2)
    s.until(9.0)
    assert ends(s) == [(1.0, "a", "succeeded"), (7.0, "a", "succeeded")]


def test_a_job_runs_once_on_a_builder(stage):
    """A new attempt replaces one that was given up elsewhere."""
    s = stage()
    s.start("a", 10.0)
    s.until(5.0)
    s.start("a", 10.0, attempt=2, slot=1)
    s.until(50.0)
    assert [(e.at, e.attempt, e.outcome) for e in s.of(JobFinished)] == [
        (5.0, 1, "cancelled"),
        (15.0, 2, "succeeded"),
    ]


def test_jobs_without_work(stage):
    """Jobs of no work end at once."""
    for law in (None, LAW):
        s = stage(law=law)
        s.start("a", 0.0)
        assert ends(s) == [(0.0, "a", "succeeded")]


def test_a_lifetime_counts_from_joining(stage):
    """When it is over the builder is lost with all that runs, and reports nothing more."""
    s = stage(boot_time=2.0, lifetime=10.0, inter_job_time=1.0)
    s.until(3.0)
    s.start("a", 5.0)
    s.start("b", 500.0, slot=1)
    s.until(1000.0)
    assert ends(s) == [(8.0, "a", "succeeded")]
    assert [(lost.at, lost.builder) for lost in s.of(BuilderLost)] == [(12.0, "b")]
    assert s.kinds()[-1] == "BuilderLost"
    assert s.builder.gone
    assert not s.builder.attempts


def test_a_builder_that_retires_in_time_is_not_lost(stage):
    """Whichever comes first."""
    s = stage(lifetime=10.0, shutdown_time=3.0)
    s.until(5.0)
    s.do(s.builder.retire)
    s.until(100.0)
    assert s.instants(BuilderRetired) == [8.0]
    assert s.of(BuilderLost) == []


def test_a_lost_builder_is_lost_once(stage):
    """Booting, cleaning, shutting down: everything pending is void."""
    s = stage(boot_time=1.0, inter_job_time=4.0, shutdown_time=4.0)
    s.until(2.0)
    s.start("a", 1.0)
    s.until(4.0)
    s.do(s.builder.retire)
    s.do(lambda: s.builder.lose("a plug was pulled"))
    s.do(lambda: s.builder.lose("again"))
    s.until(100.0)
    assert [lost.reason for lost in s.of(BuilderLost)] == ["a plug was pulled"]
    assert s.kinds() == ["BuilderJoined", "JobStarted", "JobFinished", "BuilderLost"]


def test_a_vanished_builder_reports_nothing_more(stage):
    """A host that begins a new life drops its builders without a report."""
    s = stage(boot_time=1.0, inter_job_time=1.0, law=LAW)
    s.until(2.0)
    s.start("a", 5.0)
    s.builder.vanish()
    s.until(100.0)
    assert s.kinds() == ["BuilderJoined", "JobStarted"]


def test_progress_is_the_part_of_the_work_that_is_done(stage):
    """By time ÷ service time alone, and by work where neighbours slow each other down."""
    s = stage(speed=2.0)
    s.start("a", 40.0)
    s.until(5.0)
    assert s.builder.fraction_done("a") == 0.25
    s.cancel("a")
    assert s.builder.fraction_done("a") is None
    s = stage(law=LAW)
    s.start("a", 10.0, heavy=True)
    s.until(4.0)
    s.start("b", 10.0, slot=1, heavy=True)
    s.until(8.0)
    assert [s.builder.fraction_done(job) for job in "ab"] == pytest.approx([0.6, 0.2])


# --- Users' behaviours: what a builder does with its jobs and its time, in both worlds ------------


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


def test_a_slot_needs_time_to_go_over_to_another_invocation(stage):
    """Buildbarn's point: another image has to be loaded; the slot is held, and the job waits."""
    s = stage(switch_times={"image": 4.0, "team": 1.0})
    web, core = ({"team": team, "image": "debian"} for team in ("web", "core"))
    s.start("a", 2.0, attributes=web)  # a first job goes over from nothing
    s.until(2.0)
    s.start("b", 2.0, attributes=web)
    s.start("other", 2.0, slot=1, attributes=core)  # each slot has its own last job
    s.until(4.0)
    s.start("c", 2.0, attributes=core)
    s.until(7.0)
    s.start("d", 2.0, attributes={"team": "web", "image": "alpine"})  # the longest of two
    s.until(20.0)
    assert [(one.at, one.job) for one in s.of(JobStarted)] == [
        (0.0, "a"), (2.0, "b"), (2.0, "other"), (5.0, "c"), (11.0, "d"),
    ]  # fmt: skip


def test_a_job_that_is_cancelled_while_its_slot_goes_over_does_not_start(stage):
    """It ends at once, and what was loaded stays."""
    s = stage(switch_times={"kind": 4.0})
    s.start("a", 1.0, kind="unit")
    s.until(1.0)
    s.start("b", 1.0, kind="lint")
    s.until(3.0)
    s.cancel("b")
    s.start("c", 1.0, kind="lint")
    s.until(10.0)
    assert s.instants(JobStarted) == [0.0, 3.0]
    assert ends(s) == [(1.0, "a", "succeeded"), (3.0, "b", "cancelled"), (4.0, "c", "succeeded")]
