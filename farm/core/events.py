"""Events: what happened, with the time written on it. The scheduler's only input.

The live world stamps each event with farm time when it receives it (a builder's clock never
appears in an event); the simulated world writes the instant at which it happens.
"""

from __future__ import annotations

import re

import msgspec

from farm.core.model import Builder, Cause, Job, Outcome


def _log_name(name: str) -> str:
    """Return the name of an event class in logs: ``BuilderJoined`` is ``builder-joined``."""
    return re.sub(r"\B[A-Z]", r"-\g<0>", name).lower()


class _Event(
    msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag=_log_name, tag_field="event"
):
    """Base of all events; the tag is the event's name in the event log."""

    at: float


class JobsSubmitted(_Event, frozen=True, tag="job-submitted"):
    """Jobs were submitted together: all are queued before any of them is dispatched."""

    jobs: tuple[Job, ...]
    #: how those jobs ended that these need and that are over, by id: the scheduler forgets them
    ended: dict[str, Outcome] = {}


class JobStarted(_Event, frozen=True):
    """The builder began this attempt."""

    job: str
    attempt: int
    builder: str
    #: how long it will take by the builder's own estimate (s), if the builder was sent a size
    expected_time: float | None = None


class JobFinished(_Event, frozen=True):
    """The builder ended this attempt."""

    job: str
    attempt: int
    builder: str
    outcome: Outcome
    reason: str = ""


class CancelRequested(_Event, frozen=True):
    """Cancel these jobs, this matrix or this invocation (a key path).

    If ``reason`` is empty, the text of the cause is used.
    """

    jobs: tuple[str, ...] = ()
    matrix: str | None = None
    invocation: tuple[str, ...] | None = None
    reason: str = ""
    cause: Cause = Cause.REQUESTED


class PriorityChanged(_Event, frozen=True):
    """Change a waiting job's level, score or priority (None: unchanged)."""

    job: str
    level: int | None = None
    score: float | None = None
    priority: int | None = None


class PoolSize(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pool's size that was chosen while the farm runs (None: the scenario's)."""

    #: of a fixed pool
    builders: int | None = None
    #: limits of a provisioned one
    min: int | None = None
    max: int | None = None


class SchedulingChanged(_Event, frozen=True):
    """Change the policy, ageing factor, weights or pools' sizes (None: unchanged).

    Weights are given for fair-share invocations, named by their keys joined with ``/``, sizes by
    the pools' names; those not named keep theirs.
    """

    policy: str | None = None
    aging_factor: float | None = None
    weights: dict[str, float] | None = None
    pools: dict[str, PoolSize] | None = None


class FarmOpened(_Event, frozen=True):
    """The farm opens, or its scheduler resumes after a restart.

    Missing builders are requested; alarms, which do not outlive a scheduler, are set again.
    """

    #: provisioned pools start with their minimum too; False: a separate service sizes them
    provisioned: bool = True
    #: the sizes of fixed pools have changed: surplus builders go, too (a what-if)
    resized: bool = False


class ArrivalsEnded(_Event, frozen=True):
    """The workload is exhausted: jobs that no builder will ever run may be given up."""


class BuilderJoined(_Event, frozen=True):
    """A builder is up and offers its slots."""

    builder: Builder


class SlotCleaned(_Event, frozen=True):
    """A builder that cleans between jobs has this slot ready again, or claims work for it."""

    builder: str
    slot: int


class DrainRequested(_Event, frozen=True):
    """Drain the builders whose id matches the shell pattern.

    With ``retire`` they leave for good when empty; otherwise they stay until undrained.
    """

    pattern: str
    retire: bool = False


class UndrainRequested(_Event, frozen=True):
    """Undrain the builders whose id matches the pattern: they take jobs again."""

    pattern: str


class BuilderRetired(_Event, frozen=True):
    """A builder has left as it was asked to."""

    builder: str


class BuilderLost(_Event, frozen=True):
    """A builder has left without notice; its attempts are void."""

    builder: str
    reason: str = ""
    #: it was asked to leave: its attempts do not count against their jobs (which losses are such:
    #: ``farm.core.jobs.requeueing``)
    excused: bool = False
    #: its machine was stopped for a while: in a fixed pool what replaces it has its name, so that
    #: what is known of the machine by that name stays true
    returns: bool = False


class AttemptLost(_Event, frozen=True):
    """A builder that is still present does not know of an attempt that it should be running."""

    job: str
    attempt: int
    builder: str
    reason: str = ""


class LoadReported(_Event, frozen=True):
    """A builder reports whether it has room for heavy jobs (for the heavy-light balancer)."""

    builder: str
    load: float
    overloaded: bool


class AlarmRang(_Event, frozen=True):
    """The instant of a SetAlarm command has come."""


class PoolPlanned(_Event, frozen=True):
    """The provisioner decided how many builders a pool should have, and what to do about it."""

    pool: str
    desired: int
    #: the counts that it was based on: builders requested (with the new ones) and running, jobs
    #: waiting
    requested: int
    running: int
    waiting: int
    #: builders to request; no more are than the pool may have and start together
    start: int = 0
    #: builders to drain and retire, idle ones first
    stop: int = 0
    #: separate hosts (containers) will run the new builders
    outside: bool = False


class EstimateMade(_Event, frozen=True):
    """A dispatch-time estimate was made (only recorded).

    ``dispatch_at`` is the estimate as an instant (of a distribution the median, or the mean where
    others may overtake); None: no builder can run the job. ``asked_at``: when it was requested, if
    that was earlier than ``at``.
    """

    job: str
    #: the method: a rule set of the dispatch estimator, or ``rollout``
    rules: str
    dispatch_at: float | None
    #: the runtime estimator whose run times were used
    run_times: str = ""
    #: jobs waiting on all platforms together when it was made, with this one; 0: it was
    #: dispatched immediately
    waiting: int = 0
    #: the mean of a distribution, and its quantiles 0.1, 0.2, … 0.9
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


def pattern_of(builder: str) -> str:
    """Return the pattern (of ``DrainRequested``) that matches only this builder."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in builder)
