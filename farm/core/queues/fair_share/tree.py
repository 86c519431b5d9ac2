"""The tree of invocations: nodes are created on demand and dropped when not needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from farm.core.policies import Key
from farm.core.queues.fair_share.future_order import Replay
from farm.core.queues.fair_share.invocation import (
    Execution,
    FreeSlots,
    Instant,
    Invocation,
    Operation,
)
from farm.core.queues.fair_share.tree_snapshot import NodeMemory
from farm.core.state.working_state import Slot


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
        self.onlookers: list[Replay] = []
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
