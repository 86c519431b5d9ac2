"""Commands: what the scheduler decided. A world carries them out and decides nothing itself.

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
    #: for a builder that estimates by itself: the job's size (s at speed 1), scaled for it
    size: float | None = None


class CancelJob(_Command, frozen=True, tag="job-cancel-sent"):
    """Stop a running attempt; the builder answers with JobFinished (cancelled, or too late)."""

    job: str
    attempt: int
    builder: str
    reason: str = ""


class RequeueJob(_Command, frozen=True, tag="job-requeued"):
    """An attempt was void; the job waits again at its old place in the queue."""

    job: str
    attempt: int
    builder: str
    reason: str


class EndJob(_Command, frozen=True, tag="job-ended"):
    """The job has ended; this is its whole record. Instants that it never reached are None."""

    job: Job
    outcome: Outcome
    attempts: int
    submitted_at: float
    finished_at: float
    dispatched_at: float | None = None
    started_at: float | None = None
    builder: str | None = None
    slot: int | None = None
    #: the explanation for people
    reason: str = ""
    #: the estimated run time that the policy sorted by, seconds
    estimated_time: float | None = None
    #: id of the job whose execution also served this one (same action, in flight together)
    served_by: str | None = None
    #: when nothing blocked it any more: its needs were met, their delay was over, and its group had
    #: a place, farm time; None: nothing ever blocked it, or it was never released
    released_at: float | None = None
    #: the reason for programs
    cause: Cause = Cause.FINISHED
    #: the builder's pool (not in event logs: their readers know it from the builder)
    pool: str | None = None


class RequestBuilder(_Command, frozen=True, tag="builder-requested"):
    """Boot this builder; it answers with BuilderJoined."""

    builder: Builder
    #: a separate host (a container) will run it
    outside: bool = False


class DrainBuilder(_Command, frozen=True, tag="builder-draining"):
    """Let the builder finish what it runs and take no more jobs; when empty it is retired."""

    builder: str


class RetireBuilder(_Command, frozen=True, tag="builder-drained"):
    """Shut down a drained builder, which is empty; it answers with BuilderRetired."""

    builder: str


class LoseBuilder(_Command, frozen=True, tag="builder-loss-sent"):
    """Make the builder disappear without notice, as the scenario plans it; BuilderLost follows."""

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

Out = list[Command]
"""The commands of the event that is being handled.

The parts of a scheduler share one, and append to it; ``Scheduler.handle`` empties it.
"""


class Ignored(tuple[Command, ...]):
    """The empty answer to a stale event: a late or repeated report."""

    __slots__ = ()


IGNORED: Final = Ignored()


class StaleEventError(Exception):
    """Raised by a handler that changes nothing, because its event is stale."""


NO_COMMANDS: Final[tuple[Command, ...]] = ()
"""The answer to an event that was accepted and needs no command."""


@cache
def log_name(kind: type[msgspec.Struct]) -> str:
    """Return the name of this event or command class in the event log."""
    return str(kind.__struct_config__.tag)
