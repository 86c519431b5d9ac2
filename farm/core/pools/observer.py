"""Snapshots of a pool for provisioning algorithms, taken from the scheduler."""

from __future__ import annotations

import msgspec

from farm.core.dispatching.matching import Lane
from farm.core.model import Builder
from farm.core.pools.algorithm import PoolSnapshot
from farm.core.pools.spec import PoolSpec
from farm.core.scheduler import Scheduler
from farm.core.state.working_state import JobStatus


class PoolObserver:
    """Takes snapshots of one pool.

    Counts cost O(lanes). The estimates of work and time (``waiting_work``, ``next_slot_time``,
    ``oldest_wait_time``) and the blocked jobs require a pass over all jobs, so they are only made
    with ``closely``.
    """

    def __init__(self, scheduler: Scheduler, spec: PoolSpec, *, closely: bool = False) -> None:
        self._scheduler = scheduler
        self._spec = spec
        self._closely = closely
        self._sample: Builder = spec.builder(1, 0)

    def look(self, at: float) -> PoolSnapshot:
        """Return a snapshot of the pool at this instant (farm time, s)."""
        scheduler, spec = self._scheduler, self._spec
        pool = scheduler.pool(spec.name)
        lanes = scheduler.dispatcher.matching.served_by(self._sample)
        broken = pool.builders - pool.accepting
        draining = draining_jobs = 0
        cleaning = pool.cleaning_slots
        if broken:  # rare: count those that drain (or failed: they take no more jobs either)
            for state in scheduler.builders.values():
                leaving = (state.draining or state.failed) and not state.retired
                if state.builder.pool == spec.name and leaving:
                    draining += 1
                    cleaned = sum(slot.cleaning for slot in state.slots)
                    cleaning -= cleaned
                    draining_jobs += state.busy - cleaned
        never_taking = broken - draining - pool.stopping
        snapshot = PoolSnapshot(
            pool=spec.name,
            at=at,
            starts=spec.starts,
            slots=spec.slots,
            idle=pool.idle_builders + never_taking,
            busy=pool.accepting - pool.idle_builders,
            booting=len(pool.requested),
            draining=draining,
            stopping=pool.stopping,
            waiting_jobs=sum(lane.waiting for lane in lanes),
            draining_jobs=draining_jobs,
            running_jobs=pool.busy_slots - pool.cleaning_slots - draining_jobs,
            cleaning_slots=cleaning,
        )
        return self._closer(snapshot, lanes, at) if self._closely else snapshot

    def _closer(self, snapshot: PoolSnapshot, lanes: list[Lane], at: float) -> PoolSnapshot:
        """Add the estimates: O(waiting + running jobs)."""
        scheduler, sample, ours = self._scheduler, self._sample, frozenset(lanes)
        pool = scheduler.pool(self._spec.name)
        work, oldest_at, blocked = 0.0, at, 0
        next_slot_time: float | None = 0.0 if snapshot.free_slots else None
        for state in scheduler.jobs.values():
            slot = state.slot
            if slot is None:
                if state.leader is not None or state.lane not in ours:
                    continue
                if state.status is JobStatus.BLOCKED:
                    blocked += 1
                else:
                    work += scheduler.estimator.estimate(state.job, sample)
                    oldest_at = min(oldest_at, state.queued_at)
            elif next_slot_time != 0.0 and slot.builder.accepts and slot.builder.pool is pool:
                began_at = at if state.began_at is None else state.began_at
                expected = scheduler.estimator.estimate(state.job, slot.builder.builder)
                left = max(0.0, began_at + expected - at)
                next_slot_time = left if next_slot_time is None else min(next_slot_time, left)
        wait = at - oldest_at
        return msgspec.structs.replace(
            snapshot,
            blocked_jobs=blocked,
            waiting_work=work,
            oldest_wait_time=wait,
            next_slot_time=next_slot_time,
        )
