"""A yard for fair-share queues: jobs and slots by name, one call an event."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import pytest

from farm.core.model import Builder, Job
from farm.core.queues.fair_share.invocation import Invocation, Operation
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.state.working_state import BuilderState, JobState, PoolCounts, Slot


class Yard:
    """Play scheduler for one queue; every method is one event at one time."""

    def __init__(
        self, stickiness: Sequence[float] = (), compatibility: Literal["buildbarn"] | None = None
    ) -> None:
        self.stickiness, self.compatibility = stickiness, compatibility
        self.queue = FairShareQueue(stickiness, compatibility=compatibility)
        self.jobs: dict[str, JobState] = {}
        self.slots: dict[str, Slot] = {}
        self.waiting: dict[str, JobState] = {}
        self.running: dict[str, JobState] = {}
        self.free: set[str] = set()
        self.serial = 0

    def job(self, name: str, path: str = "", priority: int = 0, level: int = 0) -> JobState:
        """Make a job; ``path`` is written a/b/c."""
        self.serial += 1
        keys = tuple(path.split("/")) if path else ()
        state = JobState(
            Job(id=name, service_time=1.0, priority=priority, level=level),
            serial=self.serial,
            key=(-level, (priority,), self.serial),
            submitted_at=0.0,
            estimated_time=1.0,
            lane=None,
            path=keys,
        )
        self.jobs[name] = state
        return state

    def wait(self, name: str, path: str = "", at: float = 0.0, **need: int) -> JobState:
        """A new job waits."""
        state = self.job(name, path, **need)
        self.queue.add(state, at)
        self.waiting[name] = state
        return state

    def follow(
        self, name: str, leader: str, path: str = "", at: float = 0.0, **need: int
    ) -> JobState:
        """A new job shares the execution of another."""
        state = self.job(name, path, **need)
        state.leader = self.jobs[leader]
        state.leader.followers = (*state.leader.followers, state)
        self.queue.joined(state, at)
        return state

    def arrive(self, name: str, path: str = "", at: float = 0.0, **need: int) -> str | None:
        """A new job gets the free slot that it prefers, which is returned, or waits."""
        state = self.job(name, path, **need)
        slot = self.queue.place(state, at)
        if slot is None:
            self.queue.add(state, at)
            self.waiting[name] = state
            return None
        self.dispatch(state, slot.builder.builder.id, at)
        return slot.builder.builder.id

    def slot(self, name: str) -> Slot:
        if name not in self.slots:
            builder = Builder(id=name, pool="p", index=len(self.slots))
            self.slots[name] = BuilderState(
                builder, 0.0, 0.0, group=None, pool=PoolCounts("p")
            ).slots[0]
        return self.slots[name]

    def dispatch(self, state: JobState, slot: str, at: float = 0.0) -> None:
        self.queue.dispatched(state, self.slot(slot), at)
        state.slot = self.slot(slot)
        self.running[slot] = state
        self.waiting.pop(state.job.id, None)
        self.free.discard(slot)

    def take(self, slot: str, at: float = 0.0) -> str | None:
        """A slot takes the next job, which is returned, or waits for one."""
        state = self.queue.choose(self.slot(slot), at)
        if state is None:
            self.queue.slot_free(self.slot(slot), at)
            self.free.add(slot)
            return None
        self.dispatch(state, slot, at)
        return state.job.id

    def end(self, slot: str, at: float = 0.0, *, completed: bool = True) -> JobState:
        state = self.running.pop(slot)
        self.queue.ended(state, self.slot(slot), at, completed=completed)
        state.slot = None
        return state

    def turn(self, slot: str, at: float) -> str | None:
        """The slot's job completes and it takes the next."""
        self.end(slot, at)
        return self.take(slot, at)

    def drain(self, slots: int, at: float = 0.0) -> list[str]:
        """Dispatch to this many new slots, one by one."""
        first = len(self.slots)
        taken = [self.take(f"s{first + n}", at + n) for n in range(slots)]
        return [name for name in taken if name is not None]

    def home(self, slot: str) -> str | None:
        """Return the slot's last invocation, written a/b/c."""
        for remembered in self.queue.memory().slots:
            if remembered.builder == slot:
                return None if remembered.last is None else "/".join(remembered.last)
        raise KeyError(slot)

    def executing(self, path: str) -> int:
        node = self.node(path)
        return 0 if node is None else len(node.executing)

    def node(self, path: str) -> Invocation | None:
        return self.queue._tree.find(tuple(path.split("/")) if path else ())

    def check(self) -> None:
        """Recompute every count from the operations and slots, and compare."""
        check(self.queue)


def check(queue: FairShareQueue) -> None:
    """Assert that the counts of every node follow from its queue, its slots and its children."""
    waiting: dict[tuple[str, ...], int] = {}
    executing: dict[tuple[str, ...], set[Slot]] = {}
    idle: dict[tuple[str, ...], int] = {}
    free: dict[tuple[str, ...], int] = {}
    seen: dict[int, Operation] = {id(op): op for op in queue._executions.operations.values()}
    for operation in seen.values():
        for above in _prefixes(operation.node.path):
            if operation.execution.slot is None:
                waiting[above] = waiting.get(above, 0) + 1
            else:
                executing.setdefault(above, set()).add(operation.execution.slot)
    for slot, record in queue._slots:
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
        assert node.idle == idle.get(path, 0), path
        assert node.free == free.get(path, 0), path
        assert node.waiting == len(node.queue) + sum(c.waiting for c in node.children.values())
        assert set(node.waiting_children) == {c for c in node.children.values() if c.waiting}
        assert set(node.free_children) == {c for c in node.children.values() if c.free}
        for child in node.waiting_children:
            assert node.waiting_children.key(child) == child.urgency(), path
            first = child.first()
            assert first is not None
            assert (child.level, child.priority) == (first.level, first.priority)
    executions = {id(op.execution) for op in seen.values() if op.execution.slot is None}
    assert len(queue) == len(executions)


def _prefixes(path: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [path[:depth] for depth in range(len(path) + 1)]


@pytest.fixture
def make_yard() -> Iterator[Callable[..., Any]]:
    """Make yards; the counts of each are checked when the test is over."""
    yards: list[Yard] = []

    def make(*args: Any, **kwargs: Any) -> Yard:
        yards.append(Yard(*args, **kwargs))
        return yards[-1]

    yield make
    for yard in yards:
        yard.check()


@pytest.fixture(scope="session")
def yard_type() -> type[Yard]:
    """The yard's class, for tests that make yards themselves."""
    return Yard


@pytest.fixture
def yard(make_yard: Callable[..., Yard]) -> Yard:
    """A yard without stickiness."""
    return make_yard()
