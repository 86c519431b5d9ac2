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


class Slot(msgspec.Struct, eq=False):
    """Room for one job on a builder (the fair-share tree's "worker", in Buildbarn's words)."""

    builder: BuilderState
    number: int
    running: JobState | None = None
    #: True between a job's end and SlotCleaned
    cleaning: bool = False


class PoolCounts(msgspec.Struct, eq=False):
    """The numbers of a pool, kept up to date so that a provisioner may ask every second."""

    name: str
    #: builders asked for and not yet there, with the instant of the request
    requested: dict[str, float] = {}
    #: builders that joined and are not gone
    builders: int = 0
    slots: int = 0
    busy_slots: int = 0
    #: builders with no busy slot that take jobs
    idle_builders: int = 0


class BuilderState(msgspec.Struct, eq=False):
    """A builder that has joined and is not gone."""

    builder: Builder
    joined_at: float
    #: the builders of its kind (a BuilderGroup), and the numbers of its pool
    group: Any
    pool: PoolCounts
    slots: list[Slot] = []
    #: slots that run a job or are being cleaned
    busy: int = 0
    #: when it last took or finished a job, or joined
    active_at: float = 0.0
    #: its rank among the free builders (smallest is best); None: takes nothing now
    rank: Any = None
    draining: bool = False
    #: told to go when empty
    retiring: bool = False
    #: RetireBuilder was ordered
    retired: bool = False
    #: last LoadReported said: no room for heavy jobs
    overloaded: bool = False

    @property
    def accepts(self) -> bool:
        """Whether the builder takes jobs at all (it may still be full)."""
        return self.builder.takes_jobs and not self.draining and not self.retired
