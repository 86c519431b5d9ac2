"""The scheduler's working memory: what it knows of each live job, builder and slot.

Only the scheduler and the queues that it owns write these; all others see snapshots.
"""

from __future__ import annotations

from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from farm.core.model import Builder, Cause, Job

if TYPE_CHECKING:
    from farm.core.dispatching.matching import BuilderGroup, Lane


class JobStatus(Enum):
    """Where a live job stands (an ended one is forgotten)."""

    ARRIVING = "arriving"  #: taken in, not yet queued
    WAITING = "waiting"  #: in its platform queue
    DISPATCHED = "dispatched"  #: given to a slot, not yet confirmed by the builder
    RUNNING = "running"  #: confirmed by the builder
    CANCELLING = "cancelling"  #: its builder was asked to stop it


class JobLife(msgspec.Struct, eq=False):
    """What is known of a live job, but for its relations to others.

    The scheduler's memory (``JobState``) and every snapshot of it (``JobRecord``) have these
    fields; a field added here is saved, shown and restored without further ado.

    ``key`` orders the waiting jobs of one queue: ``(-level, policy key, serial)``, smallest first.
    It is fixed when the job is queued, so a job that is requeued returns to its old place.
    """

    job: Job
    #: order of submission, unique: the last tie-breaker everywhere
    serial: int
    key: tuple[Any, ...]
    submitted_at: float
    #: estimated run time that the policy ordered by, seconds
    estimated_time: float
    #: invocation path, outermost first; () = no fair share
    path: tuple[str, ...] = ()
    status: JobStatus = JobStatus.ARRIVING
    #: attempts begun so far
    attempts: int = 0
    dispatched_at: float | None = None
    started_at: float | None = None
    #: it was cancelled itself, but its execution goes on for its followers
    abandoned: bool = False
    #: why it is being cancelled, if it is: for people, and for machines
    reason: str = ""
    cause: Cause = Cause.REQUESTED
    #: attempts that failed, and how often it was tried again because of that (judged failures)
    failures: int = 0
    resets: int = 0
    #: attempts that were lost and count against it (``retries``)
    losses: int = 0
    #: the builders that were lost while they ran it, in order (``max_builders_lost``)
    builders_lost: tuple[str, ...] = ()
    #: length and age of an execution that was handed to it by a job that left; None: its own
    inherited: tuple[float, float] | None = None

    @property
    def execution(self) -> tuple[float, float]:
        """Estimated run time and submission of its execution: what policies order by."""
        return self.inherited or (self.estimated_time, self.submitted_at)


class JobState(JobLife, eq=False, kw_only=True):
    """A live job in the scheduler's memory."""

    #: where the jobs of its platform wait
    lane: Lane
    slot: Slot | None = None
    #: jobs with the same action that this execution serves too
    followers: tuple[JobState, ...] = ()
    #: the job whose execution serves this one (None: it has its own)
    leader: JobState | None = None

    def __lt__(self, other: JobState) -> bool:
        """Void and live heap entries of one job have equal keys; any fixed order will do."""
        return self.serial < other.serial


class Slot:
    """Room for one job on a builder (the fair-share tree's "worker", in Buildbarn's words)."""

    __slots__ = ("builder", "cleaning", "number", "running")

    def __init__(self, builder: BuilderState, number: int) -> None:
        self.builder = builder
        self.number = number
        self.running: JobState | None = None
        #: True between a job's end and SlotCleaned
        self.cleaning = False


class BuilderRequest(msgspec.Struct, frozen=True):
    """A builder that was asked for at an instant and is not there yet."""

    builder: Builder
    at: float


class PoolCounts(msgspec.Struct):
    """The numbers of a pool, kept up to date so that a provisioner may ask every second."""

    name: str
    #: builders numbered so far: the next one's number follows
    made: int = 0
    #: builders asked for and not yet there, by id
    requested: dict[str, BuilderRequest] = {}
    #: builders that joined and are not gone
    builders: int = 0
    slots: int = 0
    busy_slots: int = 0
    #: builders that take jobs, and those of them with no busy slot
    accepting: int = 0
    idle_builders: int = 0
    #: builders that were asked to leave and have not left yet
    stopping: int = 0

    def opens(self, builder: BuilderState) -> None:
        """One of the builders takes jobs from now on."""
        self.accepting += 1
        self.idle_builders += builder.busy == 0

    def closes(self, builder: BuilderState) -> None:
        """One of the builders takes no more jobs."""
        self.accepting -= 1
        self.idle_builders -= builder.busy == 0


class BuilderLife(msgspec.Struct, eq=False):
    """What is known of a builder that is there, but for its slots; see ``JobLife``."""

    builder: Builder
    joined_at: float
    #: when it last took or finished a job, joined, or was undrained
    active_at: float
    draining: bool = False
    #: to be retired when empty
    retiring: bool = False
    #: RetireBuilder was sent
    retired: bool = False
    #: LoseBuilder was sent (``lost_at`` of its pool)
    losing: bool = False
    #: takes light jobs only (heavy-light), or said so (LoadReported)
    overloaded: bool = False
    #: attempts that failed here since one succeeded (judged failures), and whether it was
    #: taken out of service for them
    failures: int = 0
    failed: bool = False

    @property
    def takes_jobs(self) -> bool:
        """Whether it takes jobs (it may still be full)."""
        return self.builder.takes_jobs and not (self.draining or self.retired or self.failed)


class BuilderState(BuilderLife, eq=False, kw_only=True):
    """A builder that has joined and is not gone, in the scheduler's memory."""

    #: the builders of its kind
    group: BuilderGroup
    pool: PoolCounts
    #: the lanes that its slots serve now: its group's, or some of them
    lanes: list[Lane] = []
    slots: list[Slot] = []
    #: slots that run a job or are being cleaned
    busy: int = 0
    #: ``takes_jobs``, kept at hand
    accepts: bool = True
    #: its rank among the free builders (smallest is best); None: takes nothing now
    rank: float | None = None
    #: has an idle timer, or needs none
    timed: bool = True

    def __post_init__(self) -> None:
        self.slots = [Slot(self, number) for number in range(self.builder.slots)]
        self.accepts = self.builder.takes_jobs


job_life = attrgetter(*JobLife.__struct_fields__)
builder_life = attrgetter(*BuilderLife.__struct_fields__)
"""The values of these fields, in order: what makes a record of a state, or a state of a record."""
