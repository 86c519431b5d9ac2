"""Events: what happened, with the time written on it. The scheduler's only input.

The live world stamps each event with farm time as it takes it in (a builder's clock never
enters an event); the simulated world writes the instant at which it happens.
"""

from __future__ import annotations

import re

import msgspec

from farm.core.model import Builder, Cause, Job, Outcome


def _log_name(name: str) -> str:
    """Return what an event's class is called in logs: ``BuilderJoined`` is ``builder-joined``."""
    return re.sub(r"\B[A-Z]", r"-\g<0>", name).lower()


class _Event(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag=_log_name, tag_field="event"
):
    """Base of all events; the tag is the event's name in the event log."""

    at: float


class JobsSubmitted(_Event, frozen=True, tag="job-submitted"):
    """Jobs were handed in together: they are all queued before any of them is dispatched."""

    jobs: tuple[Job, ...]


class JobStarted(_Event, frozen=True):
    """The builder began this attempt."""

    job: str
    attempt: int
    builder: str


class JobFinished(_Event, frozen=True):
    """The builder ended this attempt."""

    job: str
    attempt: int
    builder: str
    outcome: Outcome
    reason: str = ""


class CancelRequested(_Event, frozen=True):
    """These jobs, this matrix or this invocation (a key path) are to end.

    An empty ``reason``: what the cause says.
    """

    jobs: tuple[str, ...] = ()
    matrix: str | None = None
    invocation: tuple[str, ...] | None = None
    reason: str = ""
    cause: Cause = Cause.REQUESTED


class PriorityChanged(_Event, frozen=True):
    """A waiting job gets another level, score or priority (None: unchanged)."""

    job: str
    level: int | None = None
    score: float | None = None
    priority: int | None = None


class SchedulingChanged(_Event, frozen=True):
    """The farm goes on by another policy, ageing factor or weights (None: unchanged).

    Weights are those of fair-share invocations, named by their keys joined with ``/``; those not
    named keep theirs.
    """

    policy: str | None = None
    aging_factor: float | None = None
    weights: dict[str, float] | None = None


class FarmOpened(_Event, frozen=True):
    """The farm opens, or its scheduler goes on after a restart: pools get what they lack."""

    #: provisioned pools too begin with their minimum; False: a service of its own sizes them
    provisioned: bool = True


class ArrivalsEnded(_Event, frozen=True):
    """The workload is exhausted: a job that no builder will ever run may be given up."""


class BuilderJoined(_Event, frozen=True):
    """A builder is up and offers its slots."""

    builder: Builder


class SlotCleaned(_Event, frozen=True):
    """A builder that cleans between jobs has this slot ready again."""

    builder: str
    slot: int


class DrainRequested(_Event, frozen=True):
    """Builders whose id matches the shell pattern finish their jobs and take no more.

    With ``retire`` they go for good when empty; otherwise they stay until undrained.
    """

    pattern: str
    retire: bool = False


class UndrainRequested(_Event, frozen=True):
    """Drained builders whose id matches the pattern take jobs again."""

    pattern: str


class BuilderRetired(_Event, frozen=True):
    """A builder is gone on purpose."""

    builder: str


class BuilderLost(_Event, frozen=True):
    """A builder is gone without notice; its attempts are void."""

    builder: str
    reason: str = ""
    #: it was asked to leave: its attempts do not count against their jobs (``retries``)
    excused: bool = False


class AttemptLost(_Event, frozen=True):
    """A builder that is still there does not know an attempt that it should be running."""

    job: str
    attempt: int
    builder: str
    reason: str = ""


class LoadReported(_Event, frozen=True):
    """A builder says whether it has room for heavy jobs (the heavy-light balancer)."""

    builder: str
    load: float
    overloaded: bool


class AlarmRang(_Event, frozen=True):
    """The instant has come that a SetAlarm command asked for."""


class PoolPlanned(_Event, frozen=True):
    """The provisioner decided how many builders a pool should have, and what to do about it."""

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


class EstimateMade(_Event, frozen=True):
    """A dispatch-time estimate was given (a record that asks for nothing).

    ``dispatch_at`` is the estimate as an instant (of a distribution: its median); None: no builder
    can run the job. ``asked_at``: when it was asked for, if that was earlier than ``at``.
    """

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
    | SchedulingChanged
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
