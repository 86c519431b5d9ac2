"""A read-only snapshot of a farm: frozen, complete, and plain JSON on the wire.

Commands that show a live farm, estimators and forks of the simulator share it;
``farm.core.state.restore`` builds a scheduler that continues from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from farm.core.model import Builder, Job, Platform
from farm.core.queues.fair_share.tree_snapshot import TreeMemory
from farm.core.rules import Choices
from farm.core.state.working_state import (
    BuilderLife,
    BuilderState,
    JobLife,
    JobState,
    PoolCounts,
    builder_life,
    job_life,
)

if TYPE_CHECKING:  # who only reads what a farm wrote needs no scheduler
    from farm.core.scheduler import Scheduler

BuilderCondition = Literal["idle", "building", "draining", "cleaning", "failed", "stopping"]


class JobRecord(JobLife, eq=True, kw_only=True, omit_defaults=True):
    """A live job as a value: related objects are given by their ids.

    Waiting jobs have no ``builder``; followers share their leader's execution.
    """

    builder: str | None = None
    #: the builder's
    pool: str | None = None
    slot: int | None = None
    leader: str | None = None
    #: expected run time of the attempt on its builder, seconds (while it is on one)
    expected_time: float | None = None
    #: of a running attempt that others slow down: its work so far, seconds alone on its builder
    work_done: float | None = None


class BuilderRecord(BuilderLife, eq=True, kw_only=True, omit_defaults=True):
    """A present builder as a value."""

    condition: BuilderCondition
    #: slots that run a job
    running: int = 0
    #: numbers of the slots that are being cleaned
    cleaning: tuple[int, ...] = ()

    @property
    def busy(self) -> int:
        """Slots that run a job or are being cleaned."""
        return self.running + len(self.cleaning)


class FarmSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The farm at one instant (farm time, s).

    ``blocked`` is in order of submission; ``waiting`` in dispatch order lane by lane (lanes in the
    order in which they appeared); ``running`` in order of dispatch; ``builders`` in order of
    joining.
    """

    at: float
    waiting: tuple[JobRecord, ...]
    running: tuple[JobRecord, ...]
    builders: tuple[BuilderRecord, ...]
    pools: tuple[PoolCounts, ...]
    #: serial of the last accepted job
    serial: int
    #: the choices made while the farm ran; None: those of its rules
    choices: Choices | None = None
    #: serials, first and last, of jobs that a sorting in progress has not given new keys yet
    unsorted: tuple[int, int] | None = None
    #: builders numbered so far, in all pools together
    made: int = 0
    #: builders that leave as soon as they have joined: their requests were taken back
    taken_back: tuple[str, ...] = ()
    #: instants since or until which the balancer holds jobs back, by platform or job
    held: dict[str, float] = {}
    #: what each platform's fair-share tree remembers
    #: (with heavy-light: one for the light jobs and one for the heavy ones)
    trees: tuple[tuple[Platform, bool, TreeMemory], ...] = ()
    #: the trees are of an earlier instant than the jobs and slots
    trees_are_older: bool = False
    #: jobs whose needs have not been met, whose delay after them is not over, or that wait for a
    #: place in their group
    blocked: tuple[JobRecord, ...] = ()
    #: jobs released so far (``JobLife.place``)
    releases: int = 0


def trees_of(scheduler: Scheduler) -> tuple[tuple[Platform, bool, TreeMemory], ...]:
    """Return what each platform's fair-share tree remembers."""
    return tuple(
        (lane.platform, lane.heavy, tree.memory())
        for lane, tree in scheduler.dispatcher.matching.with_trees()
    )


def snapshot_of(scheduler: Scheduler, at: float) -> FarmSnapshot:
    """Take a snapshot: O(n log n) in the waiting jobs; the scheduler is not changed."""
    waiting: list[JobRecord] = []
    for lane in scheduler.dispatcher.matching.with_jobs():
        for state in lane.queue.in_order():
            waiting.append(job_record(state))
            waiting.extend(job_record(follower) for follower in state.followers)
    estimate = scheduler.estimator.estimate
    busy = [s for s in scheduler.jobs.values() if s.slot is not None]
    busy.sort(key=lambda s: (s.dispatched_at or 0.0, s.serial))
    running = [
        record
        for s in busy
        for record in (job_record(s, estimate), *(job_record(f) for f in s.followers))
    ]
    for record in running:
        record.work_done = scheduler.meter.done(record.builder or "", record.job.id, at)
    pools = scheduler.pools.values()
    return FarmSnapshot(
        at=at,
        waiting=tuple(waiting),
        running=tuple(running),
        builders=tuple(builder_record(state) for state in scheduler.builders.values()),
        pools=tuple(msgspec.structs.replace(one, requested={**one.requested}) for one in pools),
        serial=scheduler.book.serial,
        choices=scheduler.rules.choices,
        unsorted=scheduler.reorderer.unsorted,
        made=scheduler.keeper.made,
        taken_back=tuple(sorted(scheduler.keeper.taken_back)),
        held=dict(scheduler.dispatcher.held),
        trees=trees_of(scheduler),
        blocked=tuple(job_record(state) for state in scheduler.blocked.states.values()),
        releases=scheduler.book.releases,
    )


def job_record(
    state: JobState, estimate: Callable[[Job, Builder], float] | None = None
) -> JobRecord:
    """Return a record of the job now; ``estimate``: its expected run time on its builder."""
    record, slot = JobRecord(*job_life(state)), state.slot
    if slot is not None:
        builder = slot.builder.builder
        record.builder, record.pool, record.slot = builder.id, builder.pool, slot.number
        record.expected_time = None if estimate is None else estimate(state.job, builder)
    if state.leader is not None:
        record.leader = state.leader.job.id
    return record


def condition_of(state: BuilderState) -> BuilderCondition:
    """Return what a builder is doing, in one word."""
    if state.retired:
        return "stopping"
    if state.failed or not state.builder.takes_jobs:
        return "failed"
    if state.draining and not state.used_up:  # its last job is one like the others
        return "draining"
    if not state.busy:
        return "idle"
    for slot in state.slots:
        if slot.running is not None:
            return "building"
    return "cleaning"


def count_builders(scheduler: Scheduler) -> dict[str, Counter[str]]:
    """Return, by pool, how many builders do what; requested ones are booting."""
    pools = scheduler.pools.values()
    counts = {pool.name: Counter[str](booting=len(pool.requested)) for pool in pools}
    for state in scheduler.builders.values():
        counts[state.pool.name][condition_of(state)] += 1
    return counts


def builder_record(state: BuilderState) -> BuilderRecord:
    """Return a record of the builder now."""
    return BuilderRecord(
        *builder_life(state),
        condition=condition_of(state),
        running=sum(slot.running is not None for slot in state.slots),
        cleaning=tuple(slot.number for slot in state.slots if slot.cleaning),
    )
