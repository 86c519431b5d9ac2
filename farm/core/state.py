"""The scheduler's working memory: what it knows of each live job, builder and slot.

Only the scheduler and the queues that it owns write these; everybody else sees snapshots.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from farm.core.model import Builder, Job


class JobStatus(Enum):
    """Where a live job stands (an ended one is forgotten)."""

    ARRIVING = "arriving"  #: taken in, not yet queued
    WAITING = "waiting"  #: in its platform queue
    DISPATCHED = "dispatched"  #: given to a slot, not yet confirmed by the builder
    RUNNING = "running"  #: confirmed by the builder
    CANCELLING = "cancelling"  #: the builder was told to stop it


class JobState(msgspec.Struct, eq=False):
    """A live job.

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
    #: the Lane of its platform
    lane: Any
    #: invocation path, outermost first; () = no fair share
    path: tuple[str, ...] = ()
    status: JobStatus = JobStatus.ARRIVING
    #: attempts begun so far
    attempts: int = 0
    slot: Slot | None = None
    dispatched_at: float | None = None
    started_at: float | None = None
    #: jobs with the same action that this execution serves too
    followers: tuple[JobState, ...] = ()
    #: the job whose execution serves this one (None: it has its own)
    leader: JobState | None = None
    #: it was cancelled itself, but its execution goes on for its followers
    abandoned: bool = False
    #: why it is being cancelled, if it is
    reason: str = ""
    #: attempts that failed, and how often it was tried again because of that (judged failures)
    failures: int = 0
    resets: int = 0
    #: attempts that were lost and count against it (``retries``)
    losses: int = 0

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


class PoolCounts:
    """The numbers of a pool, kept up to date so that a provisioner may ask every second."""

    __slots__ = (
        "accepting",
        "builders",
        "busy_slots",
        "idle_builders",
        "made",
        "name",
        "requested",
        "slots",
        "stopping",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        #: builders numbered so far: the next one's number follows
        self.made = 0
        #: builders asked for and not yet there, with the instant of the request
        self.requested: dict[str, float] = {}
        #: builders that joined and are not gone
        self.builders = 0
        self.slots = 0
        self.busy_slots = 0
        #: builders that take jobs, and those of them with no busy slot
        self.accepting = 0
        self.idle_builders = 0
        #: builders that were ordered to go and are not gone yet
        self.stopping = 0

    def opens(self, builder: BuilderState) -> None:
        """One of the builders takes jobs from now on."""
        self.accepting += 1
        self.idle_builders += builder.busy == 0

    def closes(self, builder: BuilderState) -> None:
        """One of the builders takes no more jobs."""
        self.accepting -= 1
        self.idle_builders -= builder.busy == 0


class BuilderState:
    """A builder that has joined and is not gone."""

    __slots__ = (
        "accepts",
        "active_at",
        "builder",
        "busy",
        "draining",
        "failed",
        "failures",
        "group",
        "joined_at",
        "lanes",
        "overloaded",
        "pool",
        "rank",
        "retired",
        "retiring",
        "slots",
        "timed",
    )

    def __init__(self, builder: Builder, joined_at: float, group: Any, pool: PoolCounts) -> None:
        self.builder = builder
        self.joined_at = joined_at
        #: the builders of its kind (a BuilderGroup), and the numbers of its pool
        self.group = group
        self.pool = pool
        #: the lanes that its slots serve now: its group's, or some of them
        self.lanes: list[Any] = [] if group is None else group.lanes
        self.slots = [Slot(self, number) for number in range(builder.slots)]
        #: slots that run a job or are being cleaned
        self.busy = 0
        #: takes jobs (it may still be full): neither broken, draining nor retired
        self.accepts = builder.takes_jobs
        #: when it last took or finished a job, or joined
        self.active_at = joined_at
        #: its rank among the free builders (smallest is best); None: takes nothing now
        self.rank: Any = None
        self.draining = False
        #: told to go when empty
        self.retiring = False
        #: RetireBuilder was ordered
        self.retired = False
        #: attempts that failed here since one succeeded (judged failures), and whether it was
        #: taken out of service for them
        self.failures = 0
        self.failed = False
        #: has an idle timer, or needs none
        self.timed = True
        #: takes light jobs only (heavy-light), or said so (LoadReported)
        self.overloaded = False
