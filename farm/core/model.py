"""The values that all modules share: jobs, builders, platforms.

Instants end in ``_at`` and spans in ``_time``; both are float seconds of farm time.
Values are msgspec structs: immutable, comparable, ten times cheaper to make than frozen
dataclasses (a simulated job makes half a dozen of them), and their JSON form is the wire
form and the event log's form.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from enum import Enum
from hashlib import blake2b
from typing import Annotated, Literal, TypeVar

import msgspec

from farm.core.fields import fields_of, limit

T = TypeVar("T")

Column = Annotated[T, msgspec.Meta(extra={"jobs_csv": True})]
"""A field of Job, of this type, that has a column in jobs.csv: ``colour: Column[str]``.

The event log, snapshots and Redis contain every field of a job anyway.
"""

Outcome = Literal["succeeded", "failed", "cancelled"]
"""How a job ends. Every submitted job ends exactly once, with exactly one of these."""


class Cause(Enum):
    """Why a job ended, for programs and statistics; ``text`` says the same to people."""

    FINISHED = "finished"  #: its attempt succeeded
    FAILED = "failed"  #: its attempt failed
    LOST = "lost"  #: it lost more attempts than its retries allow
    POISONOUS = "poisonous"  #: too many builders were lost while running it
    REQUESTED = "requested"  #: an operator or the workload cancelled it
    FAIL_FAST = "fail-fast"  #: another job of its matrix failed
    UNRUNNABLE = "unrunnable"  #: no builder will ever be able to run it
    STOPPED = "stopped"  #: the run was stopped
    SKIPPED = "skipped"  #: its needs can no longer be met
    SUPERSEDED = "superseded"  #: a newer run of its concurrency group came

    @property
    def text(self) -> str:
        """Return the default reason; empty if the outcome says everything."""
        return _TEXTS.get(self.value, "")


_TEXTS = {
    "requested": "cancelled by request",
    "unrunnable": "no builder will ever be able to run it",
    "stopped": "the run was stopped",
}


class Platform(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a job needs: a processor (None: any) and a virtualization.

    ``virtualized`` is True, False or None; None (unspecified) means virtual builders only.

    >>> farm.Platform.parse("arm64/native") == farm.Platform("arm64", virtualized=False)
    True
    """

    processor: str | None = None
    virtualized: bool | None = None

    @property
    def needs_virtual(self) -> bool:
        """Return whether the job needs a virtual builder (True) or a native one (False)."""
        return self.virtualized is not False

    @classmethod
    def parse(cls, text: str) -> Platform:
        """Parse a platform; the ValueError says what is allowed.

        ``/any`` leaves the virtualization unspecified.
        """
        processor, _, sort = text.rpartition("/")
        if not processor or sort not in ("virtual", "native", "any"):
            raise ValueError("processor/virtual or processor/native, with any for no processor")
        virtualized = None if sort == "any" else sort == "virtual"
        return cls(None if processor == "any" else processor, virtualized)

    def runs_on(self, processors: Collection[str], *, virtualized: bool) -> bool:
        """Return whether builders with these properties can run its jobs."""
        return virtualized == self.needs_virtual and (
            self.processor is None or self.processor in processors
        )

    def normalised(self) -> Platform:
        """Return the same platform with explicit virtualization."""
        return self if self.virtualized is not None else Platform(self.processor, True)

    def __str__(self) -> str:
        return f"{self.processor or 'any'}/{'virtual' if self.needs_virtual else 'native'}"


LEAST_LEVEL, MAX_LEVEL = -(2**31), 2**31 - 1
"""The smallest and the largest level or fair-share priority: those of REv2, with 32 bits."""
MODES = ("timed", "stress", "memory", "mixed")
"""How a live builder runs a job: by letting time pass, or by real load."""

AMOUNT = limit("a finite number, 0 or more", lambda found: 0.0 <= found < math.inf)
LEVEL = limit(
    f"a whole number, from {LEAST_LEVEL} to {MAX_LEVEL}",
    lambda found: LEAST_LEVEL <= found <= MAX_LEVEL,
)
MODE = limit(", ".join(MODES), MODES.__contains__)
#: needs of a job: what names more of them is a mistake, or means to flood the farm
MAX_NEEDS = 1000
NEEDS = limit(
    f"at most {MAX_NEEDS:,} ids of other jobs, each perhaps with :succeeded, :ended or :failed",
    lambda found: len(found) <= MAX_NEEDS and all(found),
)
GROUP = limit("a name, perhaps with :N, :latest or :cancel", bool)
#: threads of a job: each is a process of its builder's host, which a job must not flood
MAX_THREADS = 256
THREADS = limit(f"a whole number, from 1 to {MAX_THREADS}", lambda found: 1 <= found <= MAX_THREADS)


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A unit of build work, submitted once.

    ``service_time`` and ``fails`` are the truth about the job. Only the worlds (which run the job)
    and the ``oracle`` estimator may read them; policies see estimates.

    >>> jobs = [farm.Job(id=name, service_time=60.0, arrived_at=0.0) for name in ("a", "b")]
    >>> farm.simulate("mm1", jobs=jobs).jobs["response_time_s"].tolist()
    [60.0, 120.0]
    """

    id: str
    #: seconds of work, alone on a builder of speed 1
    service_time: Annotated[float, AMOUNT]
    platform: Platform = Platform()
    #: run time that the submitter declares, seconds; None: not declared
    declared_time: Annotated[float | None, AMOUNT] = None
    #: its intended arrival (farm time); None: when it was received. Response times count from
    #: here, so that a slow scheduler does not hide its own queueing.
    arrived_at: Annotated[float | None, AMOUNT] = None
    #: the kind of work; runtime estimators keep one history per kind
    kind: str = "job"
    #: static priority level: a higher level always goes first, above any policy
    level: Annotated[int, LEVEL] = 0
    #: Launchpad's score: higher goes first under the ``score`` policy
    score: float = 0.0
    #: fair-share weight as in REv2: smaller is more urgent; 100 points are a factor of two
    priority: Annotated[int, LEVEL] = 0
    #: the jobs released together by one commit share this name
    matrix: str | None = None
    #: user, team, project, build, image, …: the source of fair-share keys
    attributes: dict[str, str] = {}
    #: counts as CPU-heavy on its builder (contention)
    heavy: bool = False
    #: counts as memory-bus-heavy on its builder (contention)
    memory_heavy: bool = False
    #: work size in any unit, for estimators that scale by size (BOINC's fpops_est)
    size: Annotated[float | None, AMOUNT] = None
    #: jobs with the same action that are in flight together run only once
    action: str | None = None
    #: truth: the attempt fails at the end of its service time
    fails: bool = False
    #: how a live builder spends the service time: timed, stress, memory or mixed
    mode: Annotated[str, MODE] = "timed"
    #: processes that a stress job keeps busy
    threads: Annotated[int, THREADS] = 1
    #: the jobs that must end before this one may wait for a builder, each perhaps with how:
    #: ``build`` (succeeded), ``build:ended``, ``build:failed`` (``farm.core.jobs.needs``)
    needs: Annotated[tuple[str, ...], NEEDS] = ()
    #: from the end of the last of them until then, seconds
    needs_delay: Annotated[float, AMOUNT] = 0.0
    #: its concurrency group, perhaps with how many of it may be there at once, or with what a newer
    #: run does: ``deploy``, ``deploy:3``, ``main:latest``, ``main:cancel``
    #: (``farm.core.jobs.groups``)
    group: Annotated[str | None, GROUP] = None
    #: what tells its submission from others, where the other fields do not: of a job that an
    #: operator has changed since, or of a retry, which is never the same as an equal one; empty:
    #: they do. See ``content_digest``; no file and no user gives it
    digest: str = ""

    def arrival(self, submitted_at: float) -> float:
        """Return the intended arrival, or when it was received if there is none."""
        return submitted_at if self.arrived_at is None else self.arrived_at


def run_of(job: Job) -> str:
    """Return the run that a job belongs to: its matrix, or itself."""
    return job.id if job.matrix is None else job.matrix


JOB_FIELDS = {name: field for name, field in fields_of(Job).items() if name != "digest"}
"""The fields of a job, as they come in: see ``farm.core.fields``."""

_encode_in_order = msgspec.json.Encoder(order="deterministic").encode


def content_digest(job: Job) -> str:
    """Return what two submissions of one id share if they are of the same job.

    When it arrives is no part of a job's content, nor what operators have changed since.
    """
    if job.digest:
        return job.digest
    content = _encode_in_order(msgspec.structs.replace(job, arrived_at=None))
    return blake2b(content, digest_size=8).hexdigest()


class Builder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A machine, real or emulated, that offers slots."""

    id: str
    pool: str
    #: position among the farm's builders: the tie-breaker of balancers (lowest first); negative:
    #: it was not requested, and the scheduler assigns the next one
    index: int
    processors: tuple[str, ...] = ()
    virtualized: bool = True
    slots: int = 1
    #: processors that its burning jobs may use (live world only); None: all of its host's
    cores: int | None = None
    #: service time = job's ÷ speed
    speed: float = 1.0
    #: False: it boots and joins, but never takes a job (a failed boot). Nothing reports that: only
    #: its pool's ``idle_timeout`` retires it. One that never joins is given up by its provisioner
    takes_jobs: bool = True
    #: how much longer it boots than the others of its pool, farm seconds
    boot_delay: float = 0.0
    #: how many attempts it takes in its life, then it is retired; None: any number
    uses: int | None = None
    #: truth: how long after joining it is lost, farm seconds; None: it is not
    lifetime: float | None = None
    #: True: after each job the slot is cleaned and becomes free only at SlotCleaned
    cleans: bool = False
    #: True: a slot counts as being cleaned, from the start and after each job, until its builder
    #: claims work for it (SlotCleaned); only for one that ``cleans``
    claims: bool = False
    #: the Celery process that runs it (live world only)
    host: str = ""
    labels: dict[str, str] = {}

    def can_run(self, platform: Platform) -> bool:
        """Return whether a job of this platform may run here, whatever the builder's state."""
        return platform.runs_on(self.processors, virtualized=self.virtualized)
