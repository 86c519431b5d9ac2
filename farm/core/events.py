"""Facts: what happened, with the time written on it. The scheduler's only input.

The live world stamps each fact with farm time as it takes it in (a builder's clock never
enters an event); the simulated world writes the instant at which it happens.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from farm.core.model import Builder, Job, Outcome


class _Fact(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Base of all facts; ``kind`` is the event's name in the event log."""

    kind: ClassVar[str]

    at: float


class JobsSubmitted(_Fact, frozen=True, gc=False, tag="job-submitted", tag_field="event"):
    """Jobs were handed in together: they are all queued before any of them is dispatched."""

    kind = "job-submitted"
    jobs: tuple[Job, ...]


class JobStarted(_Fact, frozen=True, gc=False, tag="job-started", tag_field="event"):
    """The builder began this attempt."""

    kind = "job-started"
    job: str
    attempt: int
    builder: str


class JobFinished(
    _Fact, frozen=True, gc=False, omit_defaults=True, tag="job-finished", tag_field="event"
):
    """The builder ended this attempt."""

    kind = "job-finished"
    job: str
    attempt: int
    builder: str
    outcome: Outcome
    reason: str = ""


class CancelRequested(
    _Fact, frozen=True, gc=False, omit_defaults=True, tag="cancel-requested", tag_field="event"
):
    """Somebody wants these jobs, this matrix or this invocation (a key path) to end."""

    kind = "cancel-requested"
    jobs: tuple[str, ...] = ()
    matrix: str | None = None
    invocation: tuple[str, ...] | None = None
    reason: str = "cancelled by request"


class PriorityChanged(_Fact, frozen=True, gc=False, tag="priority-changed", tag_field="event"):
    """A waiting job gets another level, score or priority (None: unchanged)."""

    kind = "priority-changed"
    job: str
    level: int | None = None
    score: float | None = None
    priority: int | None = None


class FarmOpened(
    _Fact, frozen=True, gc=False, omit_defaults=True, tag="farm-opened", tag_field="event"
):
    """The farm opens, or its scheduler goes on after a restart: pools get what they lack."""

    kind = "farm-opened"
    #: provisioned pools too begin with their minimum; False: a service of its own sizes them
    provisioned: bool = True


class ArrivalsEnded(_Fact, frozen=True, gc=False, tag="arrivals-ended", tag_field="event"):
    """The workload is exhausted: a job that no builder will ever run may be given up."""

    kind = "arrivals-ended"


class BuilderJoined(_Fact, frozen=True, gc=False, tag="builder-joined", tag_field="event"):
    """A builder is up and offers its slots."""

    kind = "builder-joined"
    builder: Builder


class SlotCleaned(_Fact, frozen=True, gc=False, tag="slot-cleaned", tag_field="event"):
    """A builder that cleans between jobs has this slot ready again."""

    kind = "slot-cleaned"
    builder: str
    slot: int


class DrainRequested(
    _Fact, frozen=True, gc=False, omit_defaults=True, tag="drain-requested", tag_field="event"
):
    """Builders whose id matches the shell pattern finish their jobs and take no more.

    With ``retire`` they go for good when empty; otherwise they stay until undrained.
    """

    kind = "drain-requested"
    pattern: str
    retire: bool = False


class UndrainRequested(_Fact, frozen=True, gc=False, tag="undrain-requested", tag_field="event"):
    """Drained builders whose id matches the pattern take jobs again."""

    kind = "undrain-requested"
    pattern: str


class BuilderRetired(_Fact, frozen=True, gc=False, tag="builder-retired", tag_field="event"):
    """A builder is gone on purpose."""

    kind = "builder-retired"
    builder: str


class BuilderLost(
    _Fact, frozen=True, gc=False, omit_defaults=True, tag="builder-lost", tag_field="event"
):
    """A builder is gone without notice; its attempts are void."""

    kind = "builder-lost"
    builder: str
    reason: str = ""
    #: it was told to go: its attempts do not count against their jobs (``retries``)
    excused: bool = False


class AttemptLost(
    _Fact, frozen=True, gc=False, omit_defaults=True, tag="attempt-lost", tag_field="event"
):
    """A builder that is still there does not know an attempt that it should be running."""

    kind = "attempt-lost"
    job: str
    attempt: int
    builder: str
    reason: str = ""


class LoadReported(_Fact, frozen=True, gc=False, tag="load-reported", tag_field="event"):
    """A builder says whether it has room for heavy jobs (the heavy-light balancer)."""

    kind = "load-reported"
    builder: str
    load: float
    overloaded: bool


class AlarmRang(_Fact, frozen=True, gc=False, tag="alarm-rang", tag_field="event"):
    """The instant has come that a SetAlarm command asked for."""

    kind = "alarm-rang"


class PoolPlanned(
    _Fact, frozen=True, gc=False, omit_defaults=True, tag="pool-planned", tag_field="event"
):
    """The provisioner decided how many builders a pool should have, and what to do about it."""

    kind = "pool-planned"
    pool: str
    desired: int
    #: what it was decided upon: builders requested (the new ones too) and there, jobs waiting
    requested: int
    running: int
    waiting: int
    #: builders to request
    start: int = 0
    #: builders to drain and retire, idle ones first
    stop: int = 0
    #: hosts of their own (containers) will play the new builders
    outside: bool = False


class EstimateMade(
    _Fact, frozen=True, gc=False, omit_defaults=True, tag="estimate-made", tag_field="event"
):
    """A dispatch-time estimate was given to somebody (a record, not an order).

    ``dispatch_at`` is the estimate as an instant (of a distribution: its median); None: no builder
    can run the job. ``asked_at``: when it was asked for, if that was earlier than ``at``.
    """

    kind = "estimate-made"
    job: str
    #: who estimated: a rule set of the dispatch estimator, or ``rollout``
    rules: str
    dispatch_at: float | None
    #: which runtime estimator's run times went in
    run_times: str = ""
    #: jobs that waited on all platforms together when it was given, this one included; 0: it was
    #: dispatched at once
    waiting: int = 0
    #: of a distribution: its mean, and its quantiles 0.1, 0.2, … 0.9
    mean_at: float | None = None
    quantiles_at: tuple[float, ...] = ()
    asked_at: float | None = None


Event = (
    FarmOpened
    | ArrivalsEnded
    | JobsSubmitted
    | JobStarted
    | JobFinished
    | CancelRequested
    | PriorityChanged
    | BuilderJoined
    | SlotCleaned
    | DrainRequested
    | UndrainRequested
    | BuilderRetired
    | BuilderLost
    | AttemptLost
    | LoadReported
    | AlarmRang
    | PoolPlanned
    | EstimateMade
)
