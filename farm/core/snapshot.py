"""The one read-only view of a farm: frozen, complete, and plain JSON on the wire.

Commands that look at a live farm, estimators and forks of the simulator share it;
``farm.core.restore`` builds a scheduler that goes on from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from farm.core.model import Builder, Job, Platform
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.queues.fair_share.tree_snapshot import TreeMemory
from farm.core.scheduler import Scheduler
from farm.core.state import BuilderState, JobState, PoolCounts

BuilderCondition = Literal["idle", "building", "draining", "cleaning", "failed", "stopping"]


class JobView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A live job. Waiting ones have no ``builder``; followers share their leader's execution."""

    job: Job
    serial: int
    key: tuple[Any, ...]
    submitted_at: float
    estimated_time: float
    status: str
    path: tuple[str, ...] = ()
    attempts: int = 0
    builder: str | None = None
    slot: int | None = None
    dispatched_at: float | None = None
    started_at: float | None = None
    leader: str | None = None
    abandoned: bool = False
    reason: str = ""
    #: what an attempt is expected to take on its builder, seconds (while it is on one)
    expected_time: float | None = None
    #: see JobState
    failures: int = 0
    resets: int = 0
    losses: int = 0


class BuilderView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A builder that is there."""

    builder: Builder
    condition: BuilderCondition
    joined_at: float
    active_at: float
    #: slots that run a job
    running: int = 0
    #: numbers of the slots that are being cleaned
    cleaning: tuple[int, ...] = ()
    draining: bool = False
    retiring: bool = False
    retired: bool = False
    overloaded: bool = False
    #: see BuilderState
    failures: int = 0
    failed: bool = False

    @property
    def busy(self) -> int:
        """Slots that run a job or are being cleaned."""
        return self.running + len(self.cleaning)


class PoolView(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a pool; ``requested`` maps builders that boot to when they were asked for."""

    name: str
    builders: int = 0
    slots: int = 0
    busy_slots: int = 0
    idle_builders: int = 0
    #: builders numbered so far
    made: int = 0
    requested: dict[str, float] = {}


class FarmSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The farm at one instant (farm time, s).

    ``waiting`` is in dispatch order lane by lane (the lanes as their platforms appeared);
    ``running`` in order of dispatch; ``builders`` in order of joining.
    """

    at: float
    waiting: tuple[JobView, ...]
    running: tuple[JobView, ...]
    builders: tuple[BuilderView, ...]
    pools: tuple[PoolView, ...]
    #: serial of the last job taken in
    serial: int
    #: builders numbered so far, in all pools together
    made: int = 0
    #: what each platform's fair-share tree remembers
    #: (heavy-light has one for the light jobs and one for the heavy)
    trees: tuple[tuple[Platform, bool, TreeMemory], ...] = ()


def snapshot_of(scheduler: Scheduler, at: float) -> FarmSnapshot:
    """Take a snapshot: O(n log n) in the waiting jobs; the scheduler is not touched."""
    lanes = scheduler.dispatcher.matching.lanes
    waiting: list[JobView] = []
    for lane in lanes:
        for state in lane.queue.in_order():
            waiting.append(_job_view(state))
            waiting.extend(_job_view(follower) for follower in state.followers)
    estimate = scheduler.estimator.estimate
    busy = [s for s in scheduler.jobs.values() if s.slot is not None]
    busy.sort(key=lambda s: (s.dispatched_at or 0.0, s.serial))
    running = [
        view
        for s in busy
        for view in (_job_view(s, estimate), *(_job_view(f) for f in s.followers))
    ]
    return FarmSnapshot(
        at=at,
        waiting=tuple(waiting),
        running=tuple(running),
        builders=tuple(builder_view(state) for state in scheduler.builders.values()),
        pools=tuple(_pool_view(pool) for pool in scheduler.pools.values()),
        serial=scheduler.book.serial,
        made=scheduler.keeper.made,
        trees=tuple(
            (lane.platform, lane.heavy, lane.queue.memory())
            for lane in lanes
            if isinstance(lane.queue, FairShareQueue)
        ),
    )


def _job_view(state: JobState, estimate: Callable[[Job, Builder], float] | None = None) -> JobView:
    slot = state.slot
    expected = None
    if slot is not None and estimate is not None:
        expected = estimate(state.job, slot.builder.builder)
    return JobView(
        job=state.job,
        serial=state.serial,
        key=state.key,
        submitted_at=state.submitted_at,
        estimated_time=state.estimated_time,
        status=state.status.value,
        path=state.path,
        attempts=state.attempts,
        builder=None if slot is None else slot.builder.builder.id,
        slot=None if slot is None else slot.number,
        dispatched_at=state.dispatched_at,
        started_at=state.started_at,
        leader=None if state.leader is None else state.leader.job.id,
        abandoned=state.abandoned,
        reason=state.reason,
        expected_time=expected,
        failures=state.failures,
        resets=state.resets,
        losses=state.losses,
    )


def condition_of(state: BuilderState) -> BuilderCondition:
    """Return what a builder is doing, in one word."""
    if state.retired:
        return "stopping"
    if state.failed or not state.builder.takes_jobs:
        return "failed"
    if state.draining:
        return "draining"
    if not state.busy:
        return "idle"
    for slot in state.slots:
        if slot.running is not None:
            return "building"
    return "cleaning"


def builder_view(state: BuilderState) -> BuilderView:
    """Return a builder as it is now."""
    return BuilderView(
        builder=state.builder,
        condition=condition_of(state),
        joined_at=state.joined_at,
        active_at=state.active_at,
        running=sum(slot.running is not None for slot in state.slots),
        cleaning=tuple(slot.number for slot in state.slots if slot.cleaning),
        draining=state.draining,
        retiring=state.retiring,
        retired=state.retired,
        overloaded=state.overloaded,
        failures=state.failures,
        failed=state.failed,
    )


def _pool_view(pool: PoolCounts) -> PoolView:
    return PoolView(
        name=pool.name,
        builders=pool.builders,
        slots=pool.slots,
        busy_slots=pool.busy_slots,
        idle_builders=pool.idle_builders,
        made=pool.made,
        requested=dict(pool.requested),
    )
