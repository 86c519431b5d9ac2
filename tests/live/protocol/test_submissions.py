"""Submissions and plans are read exactly once, and within bounds."""

from __future__ import annotations

import pytest

from farm.core.events import ArrivalsEnded, BuilderLost, JobsSubmitted, PoolPlanned
from farm.core.model import Job, Platform, content_digest
from farm.live.protocol.submissions import MAX_PLATFORMS, NO_ATTRIBUTES
from farm.live.wire.messages import UNSTAMPED, GiveUpBuilder, Plan, Watch
from tests.fixtures.door import Door


@pytest.fixture
def door() -> Door:
    """A scheduler's intake without any reports yet."""
    return Door()


def submit(door: Door, **intended: float | None) -> None:
    """Submit jobs of these names and intended arrivals together."""
    jobs = [Job(id=name, service_time=1.0, arrived_at=at) for name, at in intended.items()]
    door.hear("operator", JobsSubmitted(UNSTAMPED, (*jobs, *jobs[:1])), stream="submissions")


def test_a_job_submitted_by_two_clients_at_the_same_moment_is_one_job(door: Door):
    """Counted once, too; readers of the farm's jobs do not see them before they are stored."""
    kept: dict[str, str] = {}
    door.protocol.submissions.known = lambda _: kept
    submit(door, a=None, b=None)
    submit(door, b=None, c=None)
    taken = [job for event in door.events(JobsSubmitted) for job in event.jobs]
    assert [job.id for job in taken] == ["a", "b", "c"]
    assert door.protocol.submissions.accepted == 3
    door.out.events.clear()
    kept.update((job.id, content_digest(job)) for job in taken)
    submit(door, c=None, d=None)
    assert door.protocol.submissions.accepted == 4
    assert door.refusals.take() == ([], {})


@pytest.mark.parametrize("stored", [False, True])
def test_another_job_of_a_known_id_is_refused(door: Door, stored: bool):
    """It was passed over in silence: its submitter had an acknowledgement, and no job."""
    kept: dict[str, str] = {}
    door.protocol.submissions.known = lambda _: kept
    jobs = tuple(Job(id=f"j{number}", service_time=1.0) for number in range(6))
    door.hear("one", JobsSubmitted(UNSTAMPED, jobs), stream="submissions")
    if stored:
        door.out.events.clear()
        kept.update((job.id, content_digest(job)) for job in jobs)
    others = tuple(Job(id=f"j{number}", service_time=2.0) for number in range(1, 9))
    door.hear("two", JobsSubmitted(UNSTAMPED, others), stream="submissions")
    assert door.protocol.submissions.accepted == 9
    (letter,), counts = door.refusals.take()
    assert (letter.sender, letter.jobs, counts) == ("two", 5, {"known": 1})
    assert letter.why == "the farm has other jobs of these ids already: j1, j2, j3, …"


def test_no_job_arrives_after_it_was_received(door: Door):
    """Its submitter's clock may be ahead: a response time would be negative."""
    door.at = 9.0
    intended = {"ahead": 3600.0, "late": 2.0, "unsaid": None}
    submit(door, **intended)
    (event,) = door.events(JobsSubmitted)
    assert {job.id: job.arrived_at for job in event.jobs} == intended | {"ahead": 10.0}
    assert door.protocol.submissions.worst_delay == 8.0


def test_invented_platforms_take_no_room_from_those_of_the_pools(door: Door):
    """Anyone may submit, so a thousand names must not close the farm; each goes with its jobs."""

    def accepted(*platforms: str) -> list[Job]:
        door.out.events.clear()
        for first in range(0, len(platforms), 500):
            jobs = tuple(
                Job(id=f"{door.at}-{n}", service_time=1.0, platform=Platform.parse(f"{name}/any"))
                for n, name in enumerate(platforms[first : first + 500])
            )
            door.hear("operator", JobsSubmitted(UNSTAMPED, jobs), stream="submissions")
        return [job for event in door.events(JobsSubmitted) for job in event.jobs]

    invented = accepted(*(f"p{number}" for number in range(MAX_PLATFORMS)))
    assert len(invented) == MAX_PLATFORMS
    assert len(accepted("amd64", "arm64", "p7", "one-more")) == 3
    (letter,), _ = door.refusals.take()
    assert "one-more" in letter.text
    door.protocol._live.ended(invented[0])
    assert len(accepted("one-more", "another")) == 1


def test_a_plan_that_cannot_be_handled_is_known_by_its_message(door: Door):
    """It is set aside then, and ends no second scheduler; who watches no more plans nothing."""
    door.hear("old", Watch("linux", "old"), stream="plans")
    door.hear("new", Watch("linux", "new"), stream="plans")
    door.hear("old", Plan("linux", 1, 5, start=5, token="old"), stream="plans")
    door.hear("new", Plan("linux", 1, 2, start=2, token="new"), stream="plans")
    event, out = door.out.next(), door.out
    assert isinstance(event, PoolPlanned)
    assert (event.start, len(out.events)) == (2, 0)
    letter = out.letter_of(ValueError())
    assert letter is not None
    assert letter.sender == "new"


def test_attributes_are_kept_and_large_ones_count_as_more_jobs(door: Door):
    """Jobs are charged by them; and a few large jobs would fill the scheduler's memory."""
    small = Job(id="small", service_time=1.0, attributes={"team": "a"})
    notes = {f"note{number}": "x" * 1000 for number in range(3)}
    large = Job(id="large", service_time=1.0, attributes=notes)
    plain = Job(id="plain", service_time=1.0)
    door.hear("operator", JobsSubmitted(UNSTAMPED, (small, large, plain)), stream="submissions")

    (event,) = door.events(JobsSubmitted)
    kept = {job.id: job.attributes for job in event.jobs}
    assert kept == {"small": {"team": "a"}, "large": notes, "plain": {}}
    assert event.jobs[2].attributes is NO_ATTRIBUTES
    assert door.protocol.has_room(3, 6)
    assert not door.protocol.has_room(3, 5)
    door.protocol._live.ended(large)
    assert door.protocol.has_room(2, 3)


def test_a_closed_farm_takes_no_more_jobs(door: Door):
    """It would never end; that nothing more comes is said once."""
    submit(door, a=None)
    door.protocol.close(door.at)
    submit(door, b=None)
    door.protocol.close(door.at)

    assert {job.id for event in door.events(JobsSubmitted) for job in event.jobs} == {"a"}
    assert len(door.events(ArrivalsEnded)) == 1
    assert door.protocol.is_load_done


def test_a_plan_says_upon_which_counts_it_was_decided(door: Door):
    """Builders that boot and those it starts are requested; a publication follows each change."""
    door.hear("p", Watch("linux", "t", interval=10.0), stream="plans")
    assert door.protocol.changes[1] == 1
    plan = Plan("linux", 1, 9, start=2, booting=3, joined=4, waiting=5, token="t")
    door.hear("p", plan, stream="plans")

    (event,) = door.events(PoolPlanned)
    assert (event.desired, event.start, event.requested) == (9, 2, 5)
    assert (event.running, event.waiting) == (4, 5)
    assert door.protocol.changes[1] == 2
    assert door.protocol.next_plan_at(11.0) == 20.0


def test_a_provisioner_gives_up_a_builder_that_does_not_come(door: Door):
    """The pool would stay one short."""
    door.want("linux")
    door.hear("p", GiveUpBuilder("linux-1", "no room"), stream="plans")

    (lost,) = door.events(BuilderLost)
    assert (lost.builder, lost.reason) == ("linux-1", "no room")
    assert door.wanted == []


def test_a_submission_that_needs_an_unknown_job_is_refused_as_a_whole(door: Door):
    """A part of it would run, or wait for what never comes."""
    door.protocol.submissions.known = lambda _: {}
    needy = Job(id="b", service_time=1.0, needs=("missing",))
    jobs = (Job(id="a", service_time=1.0), needy)
    door.hear("operator", JobsSubmitted(UNSTAMPED, jobs), stream="submissions")

    assert door.protocol.submissions.accepted == 0
    assert door.events(JobsSubmitted) == []
    (letter,), counts = door.refusals.take()
    assert (letter.jobs, counts) == (2, {"out-of-bounds": 1})
    assert "needs: found 'missing'" in letter.why
