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
from farm.core.model import Builder, Job, Platform
from farm.results.audit.auditor import Auditor

LINUX = Platform("amd64", True)
A = Job(id="a", service_time=10.0, platform=LINUX)
B = Job(id="b", service_time=10.0, platform=LINUX)
ONE = Builder(id="one", pool="p", index=0, processors=("amd64",))
ARM = Builder(id="arm", pool="p", index=1, processors=("arm64",))
CLEAN = Builder(id="clean", pool="p", index=2, processors=("amd64",), cleans=True)
END_A = EndJob(A, "succeeded", 1, 0.0, 10.0, 0.0, 0.0, "one", 0)
DONE_A = JobFinished(10.0, "a", 1, "one", "succeeded")

JOINED = (BuilderJoined(0.0, ONE), NO_COMMANDS)
SUBMITTED = (JobsSubmitted(0.0, (A,)), NO_COMMANDS)
DISPATCHED = (JobsSubmitted(0.0, (A,)), [StartJob(A, 1, "one", 0)])
RUNNING = (JOINED, DISPATCHED)


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
    lead, other = (Job(id=name, service_time=9.0, action="x") for name in ("lead", "other"))
    builder = Builder(id="one", pool="p", index=0)
    told(
        (BuilderJoined(0.0, builder), NO_COMMANDS),
        (JobsSubmitted(0.0, (lead, other)), [StartJob(lead, 1, "one", 0)]),
        (
            CancelRequested(1.0, ("lead",)),
            [EndJob(lead, "cancelled", 1, 0.0, 1.0, 0.0, None, "one", 0)],
        ),
        (
            JobFinished(9.0, "lead", 1, "one", "succeeded"),
            [EndJob(other, "succeeded", 1, 0.0, 9.0, 0.0, 0.0, "one", 0, served_by="lead")],
        ),
    ).close()


def test_an_attempt_that_its_builder_lost_may_be_tried_again() -> None:
    """Requeueing after an event that voided the attempt is sound, on the same slot too."""
    told(
        *RUNNING,
        (
            AttemptLost(1.0, "a", 1, "one"),
            [RequeueJob("a", 1, "one", "unknown"), StartJob(A, 2, "one", 0)],
        ),
    )


CONTRADICTIONS: dict[str, tuple[Any, ...]] = {
    "time went backwards": (JOINED, (JobsSubmitted(-1.0, (A,)), NO_COMMANDS)),
    "holds 'a'": (*RUNNING, (JobsSubmitted(1.0, (B,)), [StartJob(B, 1, "one", 0)])),
    "has no slot 1": (JOINED, (JobsSubmitted(0.0, (A,)), [StartJob(A, 1, "one", 1)])),
    "cannot run amd64/virtual": (
        (BuilderJoined(0.0, ARM), NO_COMMANDS),
        (JobsSubmitted(0.0, (A,)), [StartJob(A, 1, "arm", 0)]),
    ),
    "takes no jobs": (
        (BuilderJoined(0.0, Builder(id="one", pool="p", index=0, takes_jobs=False)), NO_COMMANDS),
        DISPATCHED,
    ),
    "whose slot 0 is being cleaned": (
        (BuilderJoined(0.0, replace(ONE, cleans=True, claims=True)), NO_COMMANDS),
        DISPATCHED,
    ),
    r"whose uses \(1\) are all taken": (
        (BuilderJoined(0.0, replace(ONE, uses=1)), NO_COMMANDS),
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
    "no event voided": (*RUNNING, (AlarmRang(1.0), [RequeueJob("a", 1, "one", "why not")])),
    "not its last": (*RUNNING, (BuilderLost(1.0, "one"), [RequeueJob("a", 7, "one", "lost")])),
    "ended while its attempt is running": (
        *RUNNING,
        (CancelRequested(1.0, ("a",)), [EndJob(A, "cancelled", 1, 0.0, 1.0, 0.0, None, "one", 0)]),
    ),
    "a stale report was accepted": (*RUNNING, (JobStarted(1.0, "a", 2, "one"), NO_COMMANDS)),
    "not running": (JOINED, SUBMITTED, (CancelRequested(1.0), [CancelJob("a", 1, "one")])),
    "told to go, though": (*RUNNING, (AlarmRang(1.0), [RetireBuilder("one")])),
    "is being cleaned": (
        (BuilderJoined(0.0, CLEAN), NO_COMMANDS),
        (JobsSubmitted(0.0, (A, B)), [StartJob(A, 1, "clean", 0)]),
        (
            JobFinished(10.0, "a", 1, "clean", "succeeded"),
            [
                EndJob(A, "succeeded", 1, 0.0, 10.0, 0.0, 0.0, "clean", 0),
                StartJob(B, 1, "clean", 0),
            ],
        ),
    ),
    "was not being cleaned": (JOINED, (SlotCleaned(0.0, "one", 0), NO_COMMANDS)),
    "joined twice": (JOINED, JOINED),
    "no builder reported it": (
        SUBMITTED,
        (CancelRequested(1.0), [EndJob(A, "succeeded", 0, 0.0, 1.0)]),
    ),
    "3 attempts; there were 1": (
        *RUNNING,
        (DONE_A, [EndJob(A, "succeeded", 3, 0.0, 10.0, 0.0, 0.0, "one", 0)]),
    ),
    "submission at 5": (
        *RUNNING,
        (DONE_A, [EndJob(A, "succeeded", 1, 5.0, 10.0, 0.0, 0.0, "one", 0)]),
    ),
    "instants out of order": (
        *RUNNING,
        (DONE_A, [EndJob(A, "succeeded", 1, 0.0, 10.0, 5.0, 4.0, "one", 0)]),
    ),
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
    told(
        (BuilderJoined(0.0, CLEAN), NO_COMMANDS),
        (JobsSubmitted(0.0, (A, B)), [StartJob(A, 1, "clean", 0)]),
        (
            JobFinished(10.0, "a", 1, "clean", "succeeded"),
            [EndJob(A, "succeeded", 1, 0.0, 10.0, 0.0, 0.0, "clean", 0)],
        ),
        (SlotCleaned(12.0, "clean", 0), [StartJob(B, 1, "clean", 0)]),
    )


def test_the_message_has_the_jobs_history() -> None:
    """The failure shows the events that led to it."""
    with pytest.raises(InvariantError) as caught:
        told(*CONTRADICTIONS["ended twice"])
    text = str(caught.value)
    assert "job 'a': ended twice" in text
    assert "StartJob" in text
    assert "JobFinished" in text
