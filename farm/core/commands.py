"""Commands: what the scheduler decided. A world carries them out; nothing else decides.

``EndJob`` appears exactly once for every submitted job, whatever happens to it.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import msgspec

from farm.core.model import Builder, Cause, Job, Outcome


class _Command(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="event"):
    """Base of all commands; the tag is the command's name in the event log."""


class StartJob(_Command, frozen=True, tag="job-dispatched"):
    """Give this job to that slot, as this attempt (1 is the first)."""

    job: Job
    attempt: int
    builder: str
    slot: int


class CancelJob(_Command, frozen=True, tag="job-cancel-sent"):
    """Stop a running attempt; the builder answers with JobFinished (cancelled, or too late)."""

    job: str
    attempt: int
    builder: str
    reason: str = ""


class RequeueJob(_Command, frozen=True, tag="job-requeued"):
    """An attempt came to nothing; the job waits again at its old place in the queue."""

    job: str
    attempt: int
    builder: str
    reason: str


class EndJob(_Command, frozen=True, tag="job-ended"):
    """The job is over; this is its whole story. Instants are None where it never got so far."""

    job: Job
    outcome: Outcome
    attempts: int
    submitted_at: float
    finished_at: float
    dispatched_at: float | None = None
    started_at: float | None = None
    builder: str | None = None
    slot: int | None = None
    #: for people
    reason: str = ""
    #: the estimated run time that the policy ordered by, seconds
    estimated_time: float | None = None
    #: another job's id whose execution served this one too (same action, in flight together)
    served_by: str | None = None
    #: for machines
    cause: Cause = Cause.FINISHED


class RequestBuilder(_Command, frozen=True, tag="builder-requested"):
    """Boot this builder; it answers with BuilderJoined."""

    builder: Builder
    #: a host of its own (a container) will play it
    outside: bool = False


class DrainBuilder(_Command, frozen=True, tag="builder-draining"):
    """The builder finishes what it runs and takes no more; when empty it is retired."""

    builder: str


class RetireBuilder(_Command, frozen=True, tag="builder-drained"):
    """The builder is empty and takes no more: shut it down; it answers with BuilderRetired."""

    builder: str


class LoseBuilder(_Command, frozen=True, tag="builder-loss-sent"):
    """Let the builder vanish without notice, as the scenario says; BuilderLost follows."""

    builder: str


class SetAlarm(_Command, frozen=True, tag="alarm-set"):
    """Send AlarmRang at this instant (farm time, s)."""

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


class Ignored(tuple[Command, ...]):
    """The answer to an event about something that is over (a late or repeated report): empty."""

    __slots__ = ()


IGNORED: Final = Ignored()

NO_COMMANDS: Final[tuple[Command, ...]] = ()
"""The answer to an event that was taken in and asks for nothing."""


@cache
def log_name(kind: type[msgspec.Struct]) -> str:
    """Return what an event or a command of this class is called in the event log."""
    return str(kind.__struct_config__.tag)
