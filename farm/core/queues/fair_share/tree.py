"""The fair-share tree: invocations, to which waiting and running jobs are charged.

Nodes are created on demand and dropped when not needed. Counts named without "own" cover a node's
whole subtree. A slot corresponds to a worker in Buildbarn: "executing" counts slots, not builders.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Protocol

import msgspec

from farm.core.policies import Key
from farm.core.queues.fair_share.node_score import Instant, Urgency, urgency
from farm.core.queues.fair_share.tree_snapshot import NodeMemory
from farm.core.queues.heap import UpdatableHeap
from farm.core.state.working_state import JobState, Slot


class Operation(msgspec.Struct, eq=False):
    """One execution's entry in one node, for which jobs of that node wait."""

    node: Invocation
    execution: Execution
    #: its key in the node's own queue
    key: Key
    level: int
    priority: int
    #: the jobs that wait for it: those of this node with the same action, oldest first
    states: list[JobState]

    def rekeyed(self, state: JobState) -> Operation:
        """Replace it by another operation, with the key and urgency of this job.

        This one stays unchanged: a kept order (``Replay``) may still need it.
        """
        job, places = state.job, self.execution.operations
        moved = Operation(
            self.node, self.execution, state.key, job.level, job.priority, self.states
        )
        places[places.index(self)] = moved
        return moved


class Execution(msgspec.Struct, eq=False):
    """What one slot runs once, on behalf of one operation per interested node."""

    operations: list[Operation] = []
    #: where it runs; None while it waits
    slot: Slot | None = None

    @property
    def leader(self) -> JobState:
        """The job in whose name it is dispatched."""
        state = self.operations[0].states[0]
        return state if state.leader is None else state.leader


class FreeSlots:
    """The free slots of one node, in the order in which they are taken.

    They are followed by those of its children, the least used child's first.
    """

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: OrderedDict[Slot, None] = OrderedDict()

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    def append(self, slot: Slot) -> None:
        """The slot became free just now."""
        self._slots[slot] = None

    def remove(self, slot: Slot) -> None:
        """The slot is taken or gone."""
        del self._slots[slot]

    def least_used(self, children: UpdatableHeap[Invocation]) -> Invocation | None:
        """Return the child, of those with free slots, whose slot is taken."""
        return children.first()


class SwappingFreeSlots(FreeSlots):
    """Upstream's order: taking one moves the last to its place (three are taken as 0, 2, 1).

    The choice of a child is upstream's too: by what its subtree executes and the child's *own*
    free slots, so that children whose free slots all lie deeper tie, and the one that ended first
    is taken.
    """

    __slots__ = ("_at", "_list")

    def __init__(self) -> None:
        super().__init__()
        self._list: list[Slot] = []
        self._at: dict[Slot, int] = {}

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._list)

    def __len__(self) -> int:
        return len(self._list)

    def append(self, slot: Slot) -> None:
        """The slot became free just now."""
        self._at[slot] = len(self._list)
        self._list.append(slot)

    def remove(self, slot: Slot) -> None:
        """The slot is taken or gone."""
        hole = self._at.pop(slot)
        last = self._list.pop()
        if last is not slot:
            self._list[hole] = last
            self._at[last] = hole

    def least_used(self, children: UpdatableHeap[Invocation]) -> Invocation | None:
        """Return the child, of those with free slots, whose slot is taken."""
        return min(children, key=cmp_to_key(_own_utilization), default=None)


def _own_utilization(one: Invocation, other: Invocation) -> int:
    ours, theirs = len(one.executing), len(other.executing)
    difference = ours * len(other.own_free) - theirs * len(one.own_free)
    if difference:
        return difference
    return -1 if (one.completed, one.created) < (other.completed, other.created) else 1


@dataclass(eq=False, slots=True)
class Invocation:
    """A node: its own queue, its children, and the running and idle slots below it."""

    path: tuple[str, ...]
    parent: Invocation | None
    #: latest start and latest end of an execution; a new node starts with its creation
    started: Instant
    own_free: FreeSlots
    completed: Instant = field(init=False)
    #: running number of its creation
    created: int = field(init=False)
    children: dict[str, Invocation] = field(default_factory=dict)
    queue: UpdatableHeap[Operation] = field(default_factory=UpdatableHeap)
    #: children with waiting operations, by urgency
    waiting_children: UpdatableHeap[Invocation] = field(default_factory=UpdatableHeap)
    #: waiting operations
    waiting: int = 0
    #: level and priority of the next operation (meaningless if none waits)
    level: int = 0
    priority: int = 0
    #: added to that priority among its siblings, for its weight
    offset: int = 0
    #: slots that execute something here, with the number of operations that each serves
    executing: dict[Slot, int] = field(default_factory=dict)
    #: slots whose last invocation is here and that run no job of this tree
    idle: int = 0
    #: those of them that wait for a job
    free: int = 0
    #: children with free slots, least used first
    free_children: UpdatableHeap[Invocation] = field(default_factory=UpdatableHeap)

    def __post_init__(self) -> None:
        self.completed, (_, self.created) = self.started, self.started

    @property
    def weighed(self) -> int:
        """Its priority among its siblings, with its weight."""
        return self.priority + self.offset

    @property
    def active(self) -> bool:
        """Whether anything waits or executes here."""
        return bool(self.waiting or self.executing)

    @property
    def empty(self) -> bool:
        """Whether this node can be dropped."""
        return not (self.waiting or self.executing or self.idle or self.children)

    def lineage(self) -> Iterator[Invocation]:
        """Yield the node, its parent, …, the root."""
        node: Invocation | None = self
        while node is not None:
            yield node
            node = node.parent

    def first(self) -> Operation | Invocation | None:
        """Return the operation or the child that goes first; None if nothing waits.

        Jobs queued directly in a node precede its children, whatever the priorities. Only a
        higher static level below goes first.
        """
        own = self.queue.first()
        child = self.waiting_children.first()
        if own is None:
            return child
        return own if child is None or own.level >= child.level else child

    def refresh(self) -> None:
        """Move the node to its right place among its siblings, after it has changed."""
        first = self.first()
        if first is not None:
            self.level, self.priority = first.level, first.priority
        parent = self.parent
        if parent is None:
            return
        if first is None:
            parent.waiting_children.discard(self)
        else:
            parent.waiting_children.put(self, self.urgency())
        if self.free:
            utilization = len(self.executing) / self.free  # sorts like e ÷ (e + f)
            parent.free_children.put(self, (utilization, self.completed, self.created))
        else:
            parent.free_children.discard(self)

    def urgency(self) -> Urgency:
        """Return the key by which the node competes with its siblings for the next slot."""
        weighed, executing = self.priority + self.offset, len(self.executing)
        return urgency(self.level, weighed, executing, self.started, self.created)

    def free_slot(self) -> Slot | None:
        """Return the free slot to take: the node's own first, then the least used child's."""
        node = self
        while not node.own_free:
            child = node.own_free.least_used(node.free_children)
            if child is None:
                return None
            node = child
        return next(iter(node.own_free))

    def subtree(self) -> Iterator[Invocation]:
        """Yield the node and everything below it, parents before children."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children.values()))


class Onlooker(Protocol):
    """What a tree notifies of its changes: an order that must not change (``future_order``)."""

    def before_change(self, node: Invocation) -> None:
        """The node and its ancestors are about to change."""

    def before_sharing(self, execution: Execution, key: Key | None) -> None:
        """The execution's members are about to change."""


class InvocationTree:
    """The nodes of one platform queue and their counts.

    Methods that change counts do not move nodes among their siblings; ``settle`` does that for
    the nodes that were changed.
    """

    def __init__(
        self,
        free_slots: Callable[[], FreeSlots],
        offsets: Mapping[tuple[str, ...], int] | None = None,
    ) -> None:
        self._free_slots = free_slots
        self.offsets = {} if offsets is None else offsets
        #: the last running number used
        self.instants = 0
        #: replays of an order that must not change
        self.onlookers: list[Onlooker] = []
        self.root = Invocation((), None, self.instant(0.0), free_slots())

    def instant(self, at: float) -> Instant:
        """Return ``at`` with the next running number."""
        self.instants += 1
        return at, self.instants

    def find(self, path: tuple[str, ...]) -> Invocation | None:
        """Return the node of this path, if it exists."""
        node: Invocation | None = self.root
        for key in path:
            if node is None:
                return None
            node = node.children.get(key)
        return node

    def make(self, path: tuple[str, ...], at: float) -> Invocation:
        """Return the node of this path, created if it does not exist."""
        node = self.root
        for key in path:
            child = node.children.get(key)
            if child is None:
                child = Invocation((*node.path, key), node, self.instant(at), self._free_slots())
                child.offset = self.offsets.get(child.path, 0)
                node.children[key] = child
            node = child
        return node

    def remembered(self) -> tuple[NodeMemory, ...]:
        """Return the nodes' times as plain values, parents before children."""
        return tuple(
            NodeMemory(node.path, node.created, node.started, node.completed)
            for node in self.root.subtree()
        )

    def weigh(self) -> None:
        """Move all nodes to their places after a change of the offsets."""
        for node in self.root.subtree():
            self._on_change(node)
            node.offset = self.offsets.get(node.path, 0)
        self.settle(list(self.root.subtree()))

    def enqueue(self, operation: Operation) -> None:
        """Add the operation to its node's queue."""
        self._on_change(operation.node)
        operation.node.queue.put(operation, operation.key)
        for node in operation.node.lineage():
            node.waiting += 1

    def dequeue(self, operation: Operation) -> None:
        """Remove the operation from its node's queue."""
        self.before_sharing(operation.execution)
        self._on_change(operation.node)
        operation.node.queue.discard(operation)
        for node in operation.node.lineage():
            node.waiting -= 1

    def start(self, operation: Operation, slot: Slot, instant: Instant) -> None:
        """Count the slot as executing for the operation (and for others of its execution)."""
        self._on_change(operation.node)
        for node in operation.node.lineage():
            node.executing[slot] = node.executing.get(slot, 0) + 1
            node.started = instant

    def stop(self, operation: Operation, slot: Slot, instant: Instant) -> None:
        """Undo ``start``; a slot counts in a node until its last operation there ends."""
        self._on_change(operation.node)
        for node in operation.node.lineage():
            left = node.executing[slot] - 1
            if left:
                node.executing[slot] = left
            else:
                del node.executing[slot]
            node.completed = instant

    def before_sharing(self, execution: Execution, key: Key | None = None) -> None:
        """Notify replays before an execution's members change; ``dequeue`` does so itself.

        ``key``: its leader's old key, if that has just been changed.
        """
        for onlooker in self.onlookers:
            onlooker.before_sharing(execution, key)

    def _on_change(self, node: Invocation) -> None:
        for onlooker in self.onlookers:
            onlooker.before_change(node)

    def settle(self, nodes: Iterable[Invocation]) -> None:
        """Move the nodes and their ancestors to their places; drop those not needed."""
        for start in nodes:
            for node in start.lineage():
                node.refresh()
                parent = node.parent
                if parent is not None and node.empty and parent.children.get(node.path[-1]) is node:
                    del parent.children[node.path[-1]]


def common_ancestor(execution: Execution) -> tuple[str, ...]:
    """Return the path of the lowest node above all that the execution served."""
    shared, *others = [operation.node.path for operation in execution.operations]
    for path in others:
        shared = shared_prefix(shared, path)
    return shared


def shared_prefix(path: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Return the common prefix of two paths."""
    depth = 0
    while path[depth : depth + 1] == other[depth : depth + 1] != ():
        depth += 1
    return path[:depth]
