"""Submissions are read exactly once."""

from __future__ import annotations

from farm.core.events import JobsSubmitted
from farm.core.model import Job
from farm.live.hosts.intake import Intake
from farm.live.hosts.requested_builders import BuilderRequests
from farm.live.hosts.roster import Patience, Roster
from farm.live.wire.inbox import Entry
from farm.live.wire.messages import UNSTAMPED, VERSION, Envelope


def test_a_job_submitted_by_two_clients_at_the_same_moment_is_one_job():
    """Counted once, too; readers of the farm's jobs do not see them before they are stored."""
    intake = Intake(BuilderRequests([], 1.0), Roster(Patience()), lambda *_: None)
    kept: set[str] = set()
    intake.known = kept.intersection

    def submit(*names: str) -> None:
        jobs = tuple(Job(id=name, service_time=1.0) for name in names)
        envelope = Envelope(VERSION, "operator", "life", 1, (JobsSubmitted(UNSTAMPED, jobs),))
        intake.take_in(Entry("submissions", "1-1", envelope), 1.0, 1.0)

    submit("a", "b", "a")
    submit("b", "c")
    taken = [job.id for event in intake.events for job in event.jobs]
    assert all(isinstance(event, JobsSubmitted) for event in intake.events)
    assert taken == ["a", "b", "c"]
    assert intake.jobs_accepted == 3
    intake.events.clear()
    kept.update(taken)
    submit("c", "d")
    assert intake.jobs_accepted == 4


def test_no_job_arrives_after_it_was_received():
    """Its submitter's clock may be ahead: a response time would be negative."""
    intake = Intake(BuilderRequests([], 1.0), Roster(Patience()), lambda *_: None)
    intended = {"ahead": 3600.0, "late": 2.0, "unsaid": None}
    jobs = tuple(Job(id=n, service_time=1.0, arrived_at=at) for n, at in intended.items())
    envelope = Envelope(VERSION, "operator", "life", 1, (JobsSubmitted(UNSTAMPED, jobs),))
    intake.take_in(Entry("submissions", "1-1", envelope), 10.0, 10.0)
    (event,) = intake.events
    assert {job.id: job.arrived_at for job in event.jobs} == intended | {"ahead": 10.0}
    assert intake.worst_delay == 8.0
