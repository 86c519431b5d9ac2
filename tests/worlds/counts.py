"""Every count of a scheduler, and of its fair-share trees, computed anew by brute force."""

from __future__ import annotations

from typing import Any

from farm.core.queues.fair_share.accounting import Operation
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.queues.plain import PlainQueue
from farm.core.scheduler import Scheduler
from farm.core.state.working_state import JobState, JobStatus, Slot

WITHOUT_SLOT = (JobStatus.BLOCKED, JobStatus.WAITING, JobStatus.ARRIVING)


def check(scheduler: Scheduler) -> None:
    """Recompute every count by brute force, and compare with the scheduler's."""
    jobs = scheduler.jobs
    builders = list(scheduler.builders.values())
    matching = scheduler.dispatcher.matching
    for lane in matching.lanes:
        waiting = [s for s in jobs.values() if _waits(s) and s.lane is lane]
        assert lane.waiting == len(lane.queue) == len(waiting)
        in_order = list(lane.queue.in_order())
        assert sorted(s.serial for s in in_order) == sorted(s.serial for s in waiting)
        if isinstance(lane.queue, PlainQueue):
            assert in_order == sorted(waiting, key=lambda s: s.key)
            assert lane.queue.first(3) == in_order[:3]
        elif isinstance(lane.queue, FairShareQueue):
            check_tree(lane.queue)
            records = lane.queue._slots._records.items()
            serving = [b for b in builders if b.accepts and lane in b.lanes]
            assert {slot for slot, record in records if record.free} == {
                slot
                for b in serving
                for slot in b.slots
                if slot.running is None and not slot.cleaning
            }
        if scheduler.rules.by_speed or scheduler.rules.heavy_light:
            continue  # these may hold jobs back
        able = [b for b in builders if b.builder.can_run(lane.platform) and _has_room(b)]
        assert not (waiting and able), "work conservation: a job waits beside a free builder"
        best = min(able, key=lambda b: (scheduler.rules.ranking(b), b.builder.index), default=None)
        assert lane.best_builder() is best
    for group in matching.groups.values():
        assert group.slots.keys() == {number for _, number in group.ends}
    for builder in builders:
        slots = builder.slots
        assert builder.busy == sum(s.running is not None or s.cleaning for s in slots)
        assert not any(s.running is not None and s.cleaning for s in slots)
        assert (builder.rank is not None) == _has_room(builder)
        assert not (builder.accepts and (builder.draining or builder.retired))
        assert builder.used <= (builder.builder.uses or builder.used)
        assert not builder.used_up or (builder.retiring and builder.busy + builder.retired > 0)
    for state in jobs.values():
        assert state.slot is None or state.slot.running is state
        assert (state.slot is None) == (state.status in WITHOUT_SLOT)
        assert all(name in jobs for name in state.unmet)
        for follower in state.followers:
            assert follower.leader is state
            assert jobs[follower.job.id] is follower
        if state.leader is not None:
            assert state in state.leader.followers
            assert jobs[state.leader.job.id] is state.leader
        if state.abandoned:
            assert state.followers or state.status is JobStatus.CANCELLING
    blocked = [s for s in jobs.values() if s.status is JobStatus.BLOCKED]
    assert list(scheduler.blocked.states.values()) == sorted(blocked, key=lambda s: s.serial)
    assert all(s.unmet or s.released_at is not None or s.job.group for s in blocked)
    for pool in scheduler.pools.values():
        mine = [b for b in builders if b.pool is pool]
        assert pool.builders == len(mine)
        assert pool.slots == sum(len(b.slots) for b in mine)
        assert pool.busy_slots == sum(b.busy for b in mine)
        assert pool.cleaning_slots == sum(slot.cleaning for b in mine for slot in b.slots)
        assert pool.accepting == sum(b.accepts for b in mine)
        assert pool.idle_builders == sum(b.accepts and not b.busy for b in mine)
        assert pool.stopping == sum(b.retired for b in mine)
        assert not set(pool.requested) & set(scheduler.builders)


def _waits(state: JobState) -> bool:
    return state.status is JobStatus.WAITING and state.leader is None


def _has_room(builder: Any) -> bool:
    return builder.accepts and builder.busy < len(builder.slots)


def check_tree(queue: FairShareQueue) -> None:
    """Assert that the counts of every node follow from its queue, its slots and its children."""
    waiting: dict[tuple[str, ...], int] = {}
    executing: dict[tuple[str, ...], set[Slot]] = {}
    idle: dict[tuple[str, ...], int] = {}
    free: dict[tuple[str, ...], int] = {}
    running = [
        op for execution in queue._executions.running.values() for op in execution.operations
    ]
    seen: dict[int, Operation] = {
        id(op): op for op in (*queue._executions.operations.values(), *running)
    }
    for operation in seen.values():
        for above in _prefixes(operation.node.path):
            if operation.execution.slot is None:
                waiting[above] = waiting.get(above, 0) + 1
            else:
                executing.setdefault(above, set()).add(operation.execution.slot)
    for slot, record in queue._slots._records.items():
        assert (record.last is None) == (slot in queue._executions.running)
        for above in _prefixes(record.last.path) if record.last is not None else ():
            idle[above] = idle.get(above, 0) + 1
            free[above] = free.get(above, 0) + record.free
    nodes = {node.path: node for node in queue._tree.root.subtree()}
    needed = {()} | waiting.keys() | executing.keys() | idle.keys()
    assert nodes.keys() == needed, "nodes exist only while they are needed"
    for path, node in nodes.items():
        assert node.waiting == waiting.get(path, 0), path
        assert set(node.executing) == executing.get(path, set()), path
        assert node.idle_slots == idle.get(path, 0), path
        assert node.free_slots == free.get(path, 0), path
        assert node.waiting == len(node.queue) + sum(c.waiting for c in node.children.values())
        assert set(node.waiting_children) == {c for c in node.children.values() if c.waiting}
        assert set(node.free_children) == {c for c in node.children.values() if c.free_slots}
        for child in node.waiting_children:
            assert node.waiting_children.key(child) == child.urgency(), path
            first = child.first()
            assert first is not None
            assert (child.level, child.priority) == (first.level, first.priority)
    executions = {id(op.execution) for op in seen.values() if op.execution.slot is None}
    assert len(queue) == len(executions)


def _prefixes(path: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [path[:depth] for depth in range(len(path) + 1)]
