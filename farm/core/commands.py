"""Orders: what the scheduler decided. A world carries them out; nobody else decides.

``EndJob`` appears exactly once for every submitted job, whatever happens to it.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from farm.core.model import Builder, Job, Outcome


class _Order(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    kind: ClassVar[str]


class StartJob(_Order, frozen=True, gc=False, tag="job-dispatched", tag_field="event"):
    """Give this job to that slot, as this attempt (1 is the first)."""

    kind = "job-dispatched"
    job: Job
    attempt: int
    builder: str
    slot: int


class CancelJob(_Order, frozen=True, gc=False, tag="job-cancel-sent", tag_field="event"):
    """Stop a running attempt; the builder answers with JobFinished (cancelled, or too late)."""

    kind = "job-cancel-sent"
    job: str
    attempt: int
    builder: str
    reason: str = ""


class RequeueJob(_Order, frozen=True, gc=False, tag="job-requeued", tag_field="event"):
    """An attempt came to nothing; the job waits again at its old place in the queue."""

    kind = "job-requeued"
    job: str
    attempt: int
    builder: str
    reason: str


class EndJob(_Order, frozen=True, gc=False, omit_defaults=True, tag="job-ended", tag_field="event"):
    """The job is over; this is its whole story. Instants are None where it never got so far."""

    kind = "job-ended"
    job: Job
    outcome: Outcome
    attempts: int
    submitted_at: float
    finished_at: float
    dispatched_at: float | None = None
    started_at: float | None = None
    builder: str | None = None
    slot: int | None = None
    reason: str = ""
    #: the estimated run time that the policy ordered by, seconds
    estimated_time: float | None = None
    #: another job's id whose execution served this one too (same action, in flight together)
    served_by: str | None = None


class RequestBuilder(
    _Order, frozen=True, gc=False, omit_defaults=True, tag="builder-requested", tag_field="event"
):
    """Boot this builder; it answers with BuilderJoined."""

    kind = "builder-requested"
    builder: Builder
    #: a host of its own (a container) will play it
    outside: bool = False


class DrainBuilder(_Order, frozen=True, gc=False, tag="builder-draining", tag_field="event"):
    """The builder finishes what it runs and takes no more; when empty it is retired."""

    kind = "builder-draining"
    builder: str


class RetireBuilder(_Order, frozen=True, gc=False, tag="builder-drained", tag_field="event"):
    """The builder is empty and takes no more: shut it down; it answers with BuilderRetired."""

    kind = "builder-drained"
    builder: str


class LoseBuilder(_Order, frozen=True, gc=False, tag="builder-loss-sent", tag_field="event"):
    """Let the builder vanish without notice, as the scenario says; BuilderLost follows."""

    kind = "builder-loss-sent"
    builder: str


class SetAlarm(_Order, frozen=True, gc=False, tag="alarm-set", tag_field="event"):
    """Say AlarmRang once it is this late (farm time, s)."""

    kind = "alarm-set"
    rings_at: float


Command = (
    StartJob
    | CancelJob
    | RequeueJob
    | EndJob
    | RequestBuilder
    | DrainBuilder
    | RetireBuilder
    | LoseBuilder
    | SetAlarm
)

FAIL_FAST = "fail-fast: "
"""How the reason of a job begins that was cancelled because another one of its matrix failed."""

IGNORED: tuple[Command, ...] = ()
"""What handle() returns, by identity, for a fact about something that is over (a late report)."""

NO_COMMANDS: list[Command] = []
"""What handle() returns for a fact that was taken in and asks for nothing. Never append to it."""
