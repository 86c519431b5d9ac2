"""The auditor finds each kind of contradiction, and none in a sound history."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from farm.core.commands import (
    IGNORED,
    NO_COMMANDS,
    CancelJob,
    EndJob,
    RequeueJob,
    RetireBuilder,
    StartJob,
)
from farm.core.errors import InvariantError
from farm.core.events import (
    AlarmRang,
    AttemptLost,
    BuilderJoined,
    BuilderLost,
    CancelRequested,
    DrainRequested,
    JobFinished,
    JobsSubmitted,
    JobStarted,
    SlotCleaned,
)
from farm.core.model import Builder, Cause, Job, Platform
from farm.results.audit.auditor import Auditor

LINUX = Platform("amd64", True)
A = Job(id="a", service_time=10.0, platform=LINUX)
B = Job(id="b", service_time=10.0, platform=LINUX)
ONE = Builder(id="one", pool="p", index=0, processors=("amd64",))
CLEAN = Builder(id="clean", pool="p", index=2, processors=("amd64",), cleans=True)
END_A = EndJob(A, "succeeded", 1, 0.0, 10.0, 0.0, 0.0, "one", 0)
DONE_A = JobFinished(10.0, "a", 1, "one", "succeeded")

JOINED = (BuilderJoined(0.0, ONE), NO_COMMANDS)
SUBMITTED = (JobsSubmitted(0.0, (A,)), NO_COMMANDS)
DISPATCHED = (JobsSubmitted(0.0, (A,)), [StartJob(A, 1, "one", 0)])
RUNNING = (JOINED, DISPATCHED)
CANCEL_A, RINGS = CancelRequested(1.0, ("a",)), AlarmRang(1.0)
CANCELLED_A = EndJob(A, "cancelled", 1, 0.0, 1.0, 0.0, None, "one", 0)
#: a job on a builder that cleans up ends
CLEANING = (
    (BuilderJoined(0.0, CLEAN), NO_COMMANDS),
    (JobsSubmitted(0.0, (A, B)), [StartJob(A, 1, "clean", 0)]),
    (JobFinished(10.0, "a", 1, "clean", "succeeded"), [replace(END_A, builder="clean")]),
)


def joined(builder: Builder, **changes: Any) -> Any:
    """Return the joining of a builder."""
    return BuilderJoined(0.0, replace(builder, **changes)), NO_COMMANDS


def told(*history: Any) -> Auditor:
    """Play a history to a new auditor."""
    auditor = Auditor()
    for event, commands in history:
        auditor(event, commands)
    return auditor


def test_a_sound_history_passes(history: Any) -> None:
    """False alarms would make the auditor useless."""
    told(*history).close()


def test_an_execution_may_outlive_the_job_that_led_it() -> None:
    """A cancelled job's execution continues while it serves another job of the same action."""
    lead, other = (replace(one, action="x") for one in (A, B))
    told(
        JOINED,
        (JobsSubmitted(0.0, (lead, other)), [StartJob(lead, 1, "one", 0)]),
        (CANCEL_A, [replace(CANCELLED_A, job=lead)]),
        (DONE_A, [replace(END_A, job=other, served_by="a")]),
    ).close()


def test_an_attempt_that_its_builder_lost_may_be_tried_again() -> None:
    """Requeueing after an event that voided the attempt is sound, on the same slot too."""
    again = [RequeueJob("a", 1, "one", "unknown"), StartJob(A, 2, "one", 0)]
    told(*RUNNING, (AttemptLost(1.0, "a", 1, "one"), again))


NEEDING = Job(id="n", service_time=10.0, platform=LINUX, needs=("a",))
#: a job that needs the running one
BLOCKED = (*RUNNING, (JobsSubmitted(1.0, (NEEDING,)), NO_COMMANDS))
START_N = StartJob(NEEDING, 1, "one", 0)
SKIPPED_N = EndJob(NEEDING, "cancelled", 0, 1.0, 10.0, cause=Cause.SKIPPED)
FAILED_A = (JobFinished(10.0, "a", 1, "one", "failed"), [replace(END_A, outcome="failed")])
DONE_N = JobFinished(20.0, "n", 1, "one", "succeeded")
END_N = EndJob(NEEDING, "succeeded", 1, 1.0, 20.0, 10.0, 10.0, "one", 0, released_at=10.0)


def test_a_sound_history_of_needs_passes() -> None:
    """Released after what it needs; or skipped in the event that made that impossible."""
    told(*BLOCKED, (DONE_A, [END_A, START_N]), (DONE_N, [END_N])).close()
    told(*BLOCKED, (FAILED_A[0], [*FAILED_A[1], SKIPPED_N])).close()
    ended = JobsSubmitted(11.0, (NEEDING,), {"a": "succeeded"})
    told(*RUNNING, (DONE_A, [END_A]), (ended, [START_N]))


TWO = replace(ONE, slots=2)


def in_group(name: str, group: str, **more: Any) -> Job:
    """Return a job of 10 s in a concurrency group."""
    return Job(id=name, service_time=10.0, platform=LINUX, group=group, **more)


def superseded(job: Job, by: str, at: float, **more: Any) -> EndJob:
    """Return the end of a job that a newer run cancels, by default before it ran."""
    told = {"cause": Cause.SUPERSEDED, "reason": f"superseded by {by}", **more}
    return EndJob(job, "cancelled", told.pop("attempts", 0), 0.0, at, **told)


OLD, NEW = in_group("old", "main:cancel"), in_group("new", "main:cancel")
HELD, NEXT = in_group("held", "main:latest"), in_group("next", "main:latest")
RUNS = in_group("runs", "main:latest")
#: a run of a group runs, and two jobs come that wait for its place
PLACE_TAKEN = (joined(TWO), (JobsSubmitted(0.0, (RUNS,)), [StartJob(RUNS, 1, "one", 0)]))
STOPPED = JobFinished(2.0, "old", 1, "one", "cancelled")
END_OLD = superseded(OLD, "new", 2.0, attempts=1, dispatched_at=0.0, builder="one", slot=0)


def test_a_sound_history_of_groups_passes() -> None:
    """Newer runs stop what runs, and end what waits; a limit is kept, and its place is used."""
    came = (JobsSubmitted(0.0, (OLD,)), [StartJob(OLD, 1, "one", 0)])
    stop = (JobsSubmitted(1.0, (NEW,)), [CancelJob("old", 1, "one")])
    told(JOINED, came, stop, (STOPPED, [END_OLD, StartJob(NEW, 1, "one", 0)]))
    told(JOINED, (JobsSubmitted(0.0, (OLD, NEW)), [superseded(OLD, "new", 0.0)]))
    waits = (JobsSubmitted(0.0, (HELD, NEXT)), [superseded(HELD, "next", 0.0)])
    told(*PLACE_TAKEN, waits)


CONTRADICTIONS: dict[str, tuple[Any, ...]] = {
    "dispatched though it waits for a": (
        joined(ONE, slots=2),
        DISPATCHED,
        (JobsSubmitted(1.0, (NEEDING,)), [replace(START_N, slot=1)]),
    ),
    "its needs can no longer be met": (*BLOCKED, FAILED_A),
    "skipped, though its needs can be met": (*BLOCKED, (DONE_A, [END_A, SKIPPED_N])),
    "which was never submitted": (JOINED, (JobsSubmitted(0.0, (NEEDING,)), NO_COMMANDS)),
    "the event has that 'a' failed; it succeeded": (
        *RUNNING,
        (DONE_A, [END_A]),
        (JobsSubmitted(11.0, (NEEDING,), {"a": "failed"}), [replace(SKIPPED_N, submitted_at=11.0)]),
    ),
    "its needs were met at 10": (
        *BLOCKED,
        (DONE_A, [END_A, START_N]),
        (DONE_N, [replace(END_N, released_at=5.0)]),
    ),
    "never released, and that it ran": (
        *BLOCKED,
        (DONE_A, [END_A, START_N]),
        (DONE_N, [replace(END_N, released_at=None)]),
    ),
    "that it was never released; its needs were met at 10": (
        *BLOCKED,
        (DONE_A, [END_A]),
        (
            CancelRequested(12.0, ("n",)),
            [replace(SKIPPED_N, finished_at=12.0, cause=Cause.REQUESTED)],
        ),
    ),
    r"a release at 11.0; its needs were met at 10": (
        *BLOCKED,
        (DONE_A, [END_A]),
        (AlarmRang(11.0), [START_N]),
        (DONE_N, [replace(END_N, released_at=11.0, dispatched_at=11.0, started_at=11.0)]),
    ),
    "dispatched as one of 2 of its group 'deploy'": (
        joined(TWO),
        (
            JobsSubmitted(0.0, (in_group("v", "deploy"), in_group("w", "deploy"))),
            [
                StartJob(in_group("v", "deploy"), 1, "one", 0),
                StartJob(in_group("w", "deploy"), 1, "one", 1),
            ],
        ),
    ),
    "dispatched beside another run of its group 'main'": (
        *PLACE_TAKEN,
        (JobsSubmitted(1.0, (HELD,)), [StartJob(HELD, 1, "one", 1)]),
    ),
    "run 'new' supersedes it, yet it was not cancelled": (
        JOINED,
        (JobsSubmitted(0.0, (OLD,)), [StartJob(OLD, 1, "one", 0)]),
        (JobsSubmitted(1.0, (NEW,)), NO_COMMANDS),
    ),
    "job 'new': superseded, though no newer run": (
        JOINED,
        (JobsSubmitted(0.0, (OLD,)), NO_COMMANDS),
        (JobsSubmitted(0.0, (NEW,)), [superseded(OLD, "new", 0.0), superseded(NEW, "old", 0.0)]),
    ),
    "job 'v': superseded, though no newer run": (
        JOINED,
        (
            JobsSubmitted(0.0, (in_group("v", "main"), in_group("w", "main"))),
            [superseded(in_group("v", "main"), "w", 0.0)],
        ),
    ),
    "job 'next': superseded, though no newer run": (
        *PLACE_TAKEN,
        (JobsSubmitted(0.0, (HELD, NEXT)), [superseded(NEXT, "held", 0.0)]),
    ),
    "superseded by other; it was superseded by new": (
        JOINED,
        (JobsSubmitted(0.0, (OLD, NEW)), [superseded(OLD, "other", 0.0)]),
    ),
    "superseded, though its run has the place of its group": (
        *PLACE_TAKEN,
        (
            JobsSubmitted(1.0, (NEXT,)),
            [superseded(RUNS, "next", 1.0, attempts=1, dispatched_at=0.0)],
        ),
    ),
    "it needs no other job": (*RUNNING, (DONE_A, [replace(END_A, released_at=0.0)])),
    "time went backwards": (JOINED, (JobsSubmitted(-1.0, (A,)), NO_COMMANDS)),
    "holds 'a'": (*RUNNING, (JobsSubmitted(1.0, (B,)), [StartJob(B, 1, "one", 0)])),
    "has no slot 1": (JOINED, (JobsSubmitted(0.0, (A,)), [StartJob(A, 1, "one", 1)])),
    "cannot run amd64/virtual": (joined(ONE, processors=("arm64",)), DISPATCHED),
    "takes no jobs": (joined(ONE, takes_jobs=False), DISPATCHED),
    "whose slot 0 is being cleaned": (joined(ONE, cleans=True, claims=True), DISPATCHED),
    r"whose uses \(1\) are all taken": (
        joined(ONE, uses=1),
        DISPATCHED,
        (DONE_A, [END_A]),
        (JobsSubmitted(11.0, (B,)), [StartJob(B, 1, "one", 0)]),
    ),
    "is not present": (DISPATCHED,),
    "is draining": (JOINED, (DrainRequested(0.0, "o*"), NO_COMMANDS), DISPATCHED),
    "which is not present": (JOINED, (BuilderLost(0.0, "one"), NO_COMMANDS), DISPATCHED),
    "never submitted": (JOINED, (AlarmRang(0.0), [StartJob(A, 1, "one", 0)])),
    "dispatched while not waiting": (
        *RUNNING,
        (DONE_A, [END_A]),
        (AlarmRang(11.0), [StartJob(A, 2, "one", 0)]),
    ),
    "attempt 2 follows attempt 0": (JOINED, (JobsSubmitted(0.0, (A,)), [StartJob(A, 2, "one", 0)])),
    "ended twice": (*RUNNING, (DONE_A, [END_A, END_A])),
    "neither ended nor requeued": (*RUNNING, (DONE_A, NO_COMMANDS)),
    "yet it was neither": (*RUNNING, (BuilderLost(1.0, "one"), NO_COMMANDS)),
    "no event voided": (*RUNNING, (RINGS, [RequeueJob("a", 1, "one", "why not")])),
    "not its last": (*RUNNING, (BuilderLost(1.0, "one"), [RequeueJob("a", 7, "one", "lost")])),
    "ended while its attempt is running": (*RUNNING, (CANCEL_A, [CANCELLED_A])),
    "a stale report was accepted": (*RUNNING, (JobStarted(1.0, "a", 2, "one"), NO_COMMANDS)),
    "not running": (JOINED, SUBMITTED, (CancelRequested(1.0), [CancelJob("a", 1, "one")])),
    "told to go, though": (*RUNNING, (RINGS, [RetireBuilder("one")])),
    "is being cleaned": (*CLEANING, (AlarmRang(10.0), [StartJob(B, 1, "clean", 0)])),
    "was not being cleaned": (JOINED, (SlotCleaned(0.0, "one", 0), NO_COMMANDS)),
    "joined twice": (JOINED, JOINED),
    "no builder reported it": (SUBMITTED, (CANCEL_A, [EndJob(A, "succeeded", 0, 0.0, 1.0)])),
    "3 attempts; there were 1": (*RUNNING, (DONE_A, [replace(END_A, attempts=3)])),
    "submission at 5": (*RUNNING, (DONE_A, [replace(END_A, submitted_at=5.0)])),
    "instants out of order": (*RUNNING, (DONE_A, [replace(END_A, dispatched_at=5.0)])),
}


@pytest.mark.parametrize("says", CONTRADICTIONS)
def test_a_contradiction_is_found(says: str) -> None:
    """Each of these would be a bug in the scheduler or in its world."""
    with pytest.raises(InvariantError, match=says):
        told(*CONTRADICTIONS[says])


def test_a_job_that_never_ends_is_found_at_the_end() -> None:
    """No job is lost, unless the run was cut short on purpose."""
    auditor = told(JOINED, DISPATCHED)
    auditor.close(expect_all_ended=False)
    with pytest.raises(InvariantError, match="1 of 1 jobs never ended: a"):
        auditor.close()


def test_stale_events_change_nothing() -> None:
    """A late report that the scheduler ignored is no contradiction."""
    late = JobFinished(11.0, "a", 1, "one", "failed")
    told(*RUNNING, (DONE_A, [END_A]), (late, IGNORED)).close()


def test_a_cleaned_slot_is_used_again() -> None:
    """Cleaning ends; then the slot takes the next job."""
    told(*CLEANING, (SlotCleaned(12.0, "clean", 0), [StartJob(B, 1, "clean", 0)]))


def test_the_message_has_the_jobs_history() -> None:
    """The failure shows the events that led to it."""
    with pytest.raises(InvariantError) as caught:
        told(*CONTRADICTIONS["ended twice"])
    text = str(caught.value)
    assert "job 'a': ended twice" in text
    assert "StartJob" in text
    assert "JobFinished" in text
