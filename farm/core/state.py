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
    status: JobStatus = JobStatus.WAITING
    #: attempts begun so far
    attempts: int = 0
    slot: Slot | None = None
    dispatched_at: float | None = None
    started_at: float | None = None
    #: jobs with the same action that this execution serves too
    followers: list[JobState] = []
    #: the job whose execution serves this one (None: it has its own)
    leader: JobState | None = None
    #: why it is being cancelled, if it is
    reason: str = ""


class Slot(msgspec.Struct, eq=False):
    """Room for one job on a builder. In the fair-share tree a slot is what Buildbarn calls a worker."""

    builder: BuilderState
    number: int
    running: JobState | None = None
    #: True between a job's end and SlotCleaned
    cleaning: bool = False


class BuilderState(msgspec.Struct, eq=False):
    """A builder that has joined and is not gone."""

    builder: Builder
    joined_at: float
    slots: list[Slot] = []
    #: slots that run a job or are being cleaned
    busy: int = 0
    #: since when no slot is busy (meaningless while busy > 0)
    idle_since: float = 0.0
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
