"""Restoring a scheduler from a snapshot: after a restart, or to fork a farm into a simulation."""

from __future__ import annotations

from collections.abc import Iterable

from farm.core.dispatching.matching import Lane
from farm.core.policies import Key, asks_for_path, sort_key
from farm.core.pools.spec import PoolSpec
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.rules import Estimator, SchedulingRules
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import BuilderRecord, FarmSnapshot, JobRecord
from farm.core.state.working_state import (
    BuilderLife,
    JobState,
    JobStatus,
    Slot,
    builder_life,
    job_life,
)


def restored(
    snapshot: FarmSnapshot,
    rules: SchedulingRules,
    estimator: Estimator,
    *,
    pools: Iterable[PoolSpec] = (),
    rekey: bool = False,
) -> Scheduler:
    """Return a scheduler that continues from the snapshot: the same events give the same commands.

    ``rekey``: the rules differ from those of the snapshot, so the jobs are sorted and charged
    again, in order of submission (a what-if on a running farm).
    """
    scheduler = Scheduler(rules, estimator, pools)
    restore(scheduler, snapshot, rekey=rekey)
    return scheduler


def restore(scheduler: Scheduler, snapshot: FarmSnapshot, *, rekey: bool = False) -> None:
    """Restore the snapshot in a new scheduler; see ``restored``."""
    if not rekey:
        scheduler.dispatcher.held.update(snapshot.held)
        if snapshot.choices is not None:
            scheduler.adopt(snapshot.choices)
    rules = scheduler.rules
    scheduler.book.serial = snapshot.serial
    scheduler.book.releases = snapshot.releases
    scheduler.keeper.made = snapshot.made
    scheduler.keeper.taken_back.update(snapshot.taken_back)
    for known in snapshot.pools:
        pool = scheduler.pool(known.name)
        pool.made = known.made
        pool.requested.update(known.requested)
    for builder in snapshot.builders:
        _put_builder(scheduler, builder)
    for platform, heavy, _ in snapshot.trees:
        scheduler.dispatcher.matching.lane(platform, heavy=heavy)
    records = (*snapshot.running, *snapshot.waiting, *snapshot.blocked)
    keys = {record.serial: record.key for record in records}
    named = {record.job.id: record for record in records}
    for record in sorted(records, key=lambda record: record.serial):
        job, serial = record.job, record.serial
        # also if the old keys are kept: a policy may remember matrices that it has seen
        runs = record if record.leader is None else named[record.leader]
        estimate, at = runs.execution
        if record.below and asks_for_path(rules.policy):
            estimate += record.below
        key = rules.policy(job, estimate, at, serial)
        first, last = snapshot.unsorted or (0, -1)
        if rekey or first <= serial <= last:
            keys[serial] = sort_key(job, key, record.place or serial)
    states = [_put_job(scheduler, record, keys[record.serial], rekey=rekey) for record in records]
    scheduler.jobs.clear()
    for state in sorted(states, key=lambda state: state.serial):
        scheduler.book.enter(state)  # many jobs are cancelled in order of submission
        if state.status is JobStatus.BLOCKED:
            scheduler.blocked.restore(state)
    first_waiting = len(snapshot.running)
    last_waiting = first_waiting + len(snapshot.waiting)
    _fill_lanes(scheduler, snapshot, states[first_waiting:last_waiting])
    _resume_work(scheduler, snapshot)


def _resume_work(scheduler: Scheduler, snapshot: FarmSnapshot) -> None:
    """Go on measuring attempts; of one that was not measured all time since its start is work."""
    for record in snapshot.running:
        builder = scheduler.builders.get(record.builder or "")
        if builder is not None and record.started_at is not None and record.leader is None:
            work = record.work_done
            done = snapshot.at - record.started_at if work is None else work
            scheduler.meter.started(builder.builder, record.job, snapshot.at, done)


def _put_builder(scheduler: Scheduler, record: BuilderRecord) -> None:
    state = scheduler.builder_book.add(record.builder, record.joined_at)
    for name, value in zip(BuilderLife.__struct_fields__, builder_life(record), strict=True):
        setattr(state, name, value)
    state.accepts = state.takes_jobs
    state.pool.stopping += record.retired
    state.clean(record.cleaning)


def _put_job(scheduler: Scheduler, record: JobRecord, key: Key, *, rekey: bool) -> JobState:
    job, rules = record.job, scheduler.rules
    lane = scheduler.dispatcher.matching.lane(job.platform, heavy=job.heavy)
    state = JobState(*job_life(record), lane=lane)
    state.key = key
    if rekey:
        state.path = () if rules.path is None else rules.path(job)
    if record.leader is not None:
        leader = scheduler.jobs[record.leader]
        state.leader = leader
        leader.followers = (*leader.followers, state)
    elif record.builder is not None and record.slot is not None:
        slot = scheduler.builders[record.builder].slots[record.slot]
        state.slot, slot.running = slot, state
        slot.builder.busy += 1
        slot.builder.pool.busy_slots += 1
    elif record.status is not JobStatus.BLOCKED:
        state.status = JobStatus.WAITING
    scheduler.jobs[job.id] = state
    return state


def _fill_lanes(scheduler: Scheduler, snapshot: FarmSnapshot, waiting: list[JobState]) -> None:
    """Queue the waiting jobs in their lanes and offer the free builders."""
    memories = {(platform, heavy): memory for platform, heavy, memory in snapshot.trees}
    for lane in scheduler.dispatcher.matching.lanes:
        states = [state for state in waiting if state.lane is lane]
        leaders = [state for state in states if state.leader is None]
        lane.waiting = len(leaders)
        queue, memory = lane.queue, memories.get((lane.platform, lane.heavy))
        if isinstance(queue, FairShareQueue) and memory is not None:
            slots = [slot for group in lane.groups for slot in group.all_slots()]
            running = [s.running for s in slots if s.running and s.running.lane is lane]
            queue.restore(memory, slots, states, running)
            if snapshot.trees_are_older:
                _offer_as_it_is_now(queue, slots, snapshot.at)
        else:
            _fill_afresh(lane, leaders, snapshot.at)
    for builder in scheduler.builders.values():
        scheduler.dispatcher.reoffer(builder)


def _offer_as_it_is_now(queue: FairShareQueue, slots: list[Slot], at: float) -> None:
    for slot in slots:
        if slot.builder.accepts and not slot.cleaning and slot.running is None:
            queue.slot_free(slot, at)
        else:
            queue.slot_unavailable(slot, at, gone=False)


def _fill_afresh(lane: Lane, waiting: list[JobState], at: float) -> None:
    """Fill a queue without memory (plain, or a tree that is not in the snapshot)."""
    for group in lane.groups:
        for slot in group.all_slots():
            if slot.running is not None and slot.running.lane is lane:
                lane.queue.dispatched(slot.running, slot, at)
            elif slot.builder.accepts and not slot.cleaning and slot.running is None:
                lane.queue.slot_free(slot, at)
    for state in waiting:
        lane.queue.add(state, at)
