"""The scheduler's state: live jobs, builders and slots.

Only the scheduler and its queues write these; everything else reads snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from farm.core.model import Builder, Cause, Job

if TYPE_CHECKING:
    from farm.core.dispatching.matching import BuilderGroup, Lane


class JobStatus(Enum):
    """The status of a live job (ended ones are removed)."""

    ARRIVING = "arriving"  #: accepted, not yet queued
    BLOCKED = "blocked"  #: its needs have not been met, its delay is not over, its group is full
    WAITING = "waiting"  #: in its platform queue
    DISPATCHED = "dispatched"  #: given to a slot, not yet confirmed by the builder
    RUNNING = "running"  #: confirmed by the builder
    CANCELLING = "cancelling"  #: its builder has been asked to stop it


class JobLife(msgspec.Struct, eq=False):
    """The data of a live job, without its relations to others.

    The scheduler's memory (``JobState``) and every snapshot of it (``JobRecord``) have these
    fields; a field added here is saved, shown and restored automatically.

    ``key`` sorts the waiting jobs of one queue: ``(-level, policy key, place)``, smallest first.
    It is fixed when the job is queued, so a job that is requeued returns to its old place.
    """

    job: Job
    #: order of submission, unique: the last tie-breaker everywhere
    serial: int
    key: tuple[int | float, ...]
    submitted_at: float
    #: estimated run time that the policy sorted by, seconds
    estimated_time: float
    #: invocation path, outermost first; () = no fair share
    path: tuple[str, ...] = ()
    status: JobStatus = JobStatus.ARRIVING
    #: attempts begun so far
    attempts: int = 0
    dispatched_at: float | None = None
    started_at: float | None = None
    #: the size that its builder was sent, if that estimates by itself (StartJob)
    sent_size: float | None = None
    #: cancelled itself, but its execution continues for its followers
    abandoned: bool = False
    #: why it is being cancelled, if it is: for people, and for programs
    reason: str = ""
    cause: Cause = Cause.REQUESTED
    #: failed attempts, and how often it was retried because of them (judged failures)
    failures: int = 0
    resets: int = 0
    #: lost attempts that count against it (``retries``)
    losses: int = 0
    #: the builders that were lost while running it, in order (``max_builders_lost``)
    builders_lost: tuple[str, ...] = ()
    #: length and age of an execution inherited from a job that left; None: its own
    inherited: tuple[float, float] | None = None
    #: while it is blocked: the jobs it needs that have not ended, and whether one that was to fail
    #: has failed
    unmet: tuple[str, ...] = ()
    failure_met: bool = False
    #: it has a place in its concurrency group, and the serial of its run's first job there
    has_place: bool = False
    run_serial: int = 0
    #: when it was released, or will be when its delay is over; its arrival, if its needs were met
    #: by then; None: they are not, or it has none
    released_at: float | None = None
    #: the longest path of estimated run times through the jobs that need it, seconds; 0: no job of
    #: its submission does
    below: float = 0.0
    #: its number in the order of arrivals and releases; 0: its serial, as no job was released yet
    place: int = 0

    @property
    def execution(self) -> tuple[float, float]:
        """Estimated run time and age of its execution, by which policies sort."""
        return self.inherited or (self.estimated_time, self.queued_at)

    @property
    def queued_at(self) -> float:
        """When it was first queued: at its release, or its submission."""
        return self.submitted_at if self.released_at is None else self.released_at

    @property
    def waits_since(self) -> float:
        """From when its waiting time counts: its release, or its intended arrival."""
        return self.job.arrival(self.submitted_at) if self.released_at is None else self.released_at

    @property
    def began_at(self) -> float | None:
        """When its attempt started, or was dispatched while the start is unconfirmed."""
        return self.dispatched_at if self.started_at is None else self.started_at


class JobState(JobLife, eq=False, kw_only=True):
    """A live job in the scheduler's state."""

    #: the lane of its platform
    lane: Lane
    slot: Slot | None = None
    #: jobs with the same action that this execution serves too
    followers: tuple[JobState, ...] = ()
    #: the job whose execution serves this one (None: it has its own)
    leader: JobState | None = None
    #: the number of its last entry in a plain queue; negative: that is void, as all others are
    entry: int = 0

    @property
    def waits_for_place(self) -> bool:
        """Whether nothing but its group blocks it."""
        is_blocked = self.status is JobStatus.BLOCKED and self.job.group is not None
        return is_blocked and not self.unmet and self.released_at is None

    def __lt__(self, other: JobState) -> bool:
        """Order jobs with equal keys: any fixed order will do, except among members of a group.

        Those of one run that take their places together go by it, in order of submission.
        """
        return self.serial < other.serial


class Slot:
    """Room for one job on a builder (the fair-share tree's "worker", in Buildbarn's words)."""

    __slots__ = ("builder", "cleaning", "number", "running")

    def __init__(self, builder: BuilderState, number: int) -> None:
        self.builder = builder
        self.number = number
        self.running: JobState | None = None
        #: True from a job's end until SlotCleaned
        self.cleaning = False


class BuilderRequest(msgspec.Struct, frozen=True):
    """A builder that was requested at an instant and has not joined yet."""

    builder: Builder
    at: float


class PoolCounts(msgspec.Struct):
    """The counts of a pool, kept up to date so that they cost nothing to read."""

    name: str
    #: builders numbered so far: the next one's number follows
    made: int = 0
    #: requested builders that have not joined yet, by id
    requested: dict[str, BuilderRequest] = {}
    #: builders that have joined and not left
    builders: int = 0
    slots: int = 0
    #: slots that run a job or are being cleaned, and the latter alone
    busy_slots: int = 0
    cleaning_slots: int = 0
    #: builders that take jobs, and those of them with no busy slot
    accepting: int = 0
    idle_builders: int = 0
    #: builders that have been asked to leave and have not left yet
    stopping: int = 0

    def opens(self, builder: BuilderState) -> None:
        """Count a builder that now takes jobs."""
        self.accepting += 1
        self.idle_builders += builder.busy == 0

    def closes(self, builder: BuilderState) -> None:
        """Count a builder that takes no more jobs."""
        self.accepting -= 1
        self.idle_builders -= builder.busy == 0


class BuilderLife(msgspec.Struct, eq=False):
    """The data of a present builder, without its slots; see ``JobLife``."""

    builder: Builder
    joined_at: float
    #: when it last took or finished a job, joined, or was undrained
    active_at: float
    draining: bool = False
    #: attempts dispatched to it so far
    used: int = 0
    #: to be retired when empty
    retiring: bool = False
    #: RetireBuilder was sent
    retired: bool = False
    #: LoseBuilder was sent (``lost_at`` of its pool)
    losing: bool = False
    #: takes light jobs only (heavy-light), or reported so (LoadReported)
    overloaded: bool = False
    #: failed attempts since one succeeded (judged failures), and whether it was taken out of
    #: service for them
    failures: int = 0
    failed: bool = False

    @property
    def takes_jobs(self) -> bool:
        """Whether it takes jobs now: its boot did not fail, nor is it drained, leaving or failed.

        It may still be full.
        """
        return self.builder.takes_jobs and not (self.draining or self.retired or self.failed)

    @property
    def used_up(self) -> bool:
        """Whether it has taken as many attempts as it may: it is drained, and then retired."""
        return self.used == self.builder.uses


class BuilderState(BuilderLife, eq=False, kw_only=True):
    """A builder that has joined and not left, in the scheduler's state."""

    #: the builders of its kind
    group: BuilderGroup
    pool: PoolCounts
    #: the lanes that its slots serve now: all or some of its group's
    lanes: list[Lane] = []
    slots: list[Slot] = []
    #: slots that run a job or are being cleaned
    busy: int = 0
    #: ``takes_jobs``, cached
    accepts: bool = True
    #: its rank among the free builders (smallest is best); None: takes no jobs now
    rank: float | None = None
    #: whether it has an idle timer, or needs none
    timed: bool = True

    def __post_init__(self) -> None:
        self.slots = [Slot(self, number) for number in range(self.builder.slots)]
        self.accepts = self.builder.takes_jobs

    @property
    def may_retire(self) -> bool:
        """Whether it is empty and its slots are clean; a claim that it owes is not awaited."""
        claims = self.builder.claims
        return not self.busy or (claims and all(slot.running is None for slot in self.slots))

    def clean(self, numbers: Iterable[int]) -> None:
        """Count free slots as being cleaned, or, of a builder that claims work, as not claimed."""
        for number in numbers:
            self.slots[number].cleaning = True
            self.busy += 1
            self.pool.busy_slots += 1
            self.pool.cleaning_slots += 1


job_life = attrgetter(*JobLife.__struct_fields__)
builder_life = attrgetter(*BuilderLife.__struct_fields__)
"""The fields of a record, to convert states to records and back."""
