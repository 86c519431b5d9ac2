"""A fair-share tree's future dispatch order, computed without changing the tree.

A replay reads the tree as it advances. One that is notified before every change (an ``onlooker`` of
its tree) gives the order at the moment of its creation, whatever happens afterwards: it copies a
node just before its first change, or when its turn comes, whichever is first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from farm.core.policies import Key
from farm.core.queues.fair_share.accounting import (
    Execution,
    Invocation,
    Onlooker,
    Operation,
    urgency,
)
from farm.core.queues.heap import HeapPreview, Item, UpdatableHeap
from farm.core.queues.plain import Keyed

#: dispatches replayed in one step: about a millisecond
AT_ONCE = 50


class _Kept(msgspec.Struct, eq=False):
    """An execution as it was before its members changed."""

    operations: tuple[Operation, ...]
    entry: Keyed


class _Shadow:
    """A node as it would be after the dispatches replayed so far."""

    __slots__ = ("children", "executing", "last_start", "queue", "waiting")

    def __init__(self, node: Invocation, *, apart: bool) -> None:
        self.queue = _preview(node.queue, apart=apart)
        self.children = _preview(node.waiting_children, apart=apart)
        self.executing = len(node.executing)
        self.last_start = node.last_start
        self.waiting = node.waiting


def kept_order(root: Invocation, onlookers: list[Onlooker]) -> Iterator[list[Keyed]]:
    """Yield the jobs of a tree, with their keys, in their present order, some at a time.

    ``onlookers``: those that the tree notifies of its changes; the replay is one of them until the
    iterator ends, or is closed or dropped.
    """
    order = _kept_order(root, onlookers)
    next(order)  # from here on the replay is notified of changes
    return order


def _kept_order(root: Invocation, onlookers: list[Onlooker]) -> Iterator[list[Keyed]]:
    replay = Replay(root, apart=True)
    onlookers.append(replay)
    try:
        yield []
        run = replay.run()
        while portion := list(islice(run, AT_ONCE)):
            yield portion
    finally:
        onlookers.remove(replay)


#: of an empty heap, shared: a replay adds nothing to an empty heap, and there are many leaves
_NOTHING: HeapPreview[Any] = HeapPreview(UpdatableHeap())


def _preview(heap: UpdatableHeap[Item], *, apart: bool) -> HeapPreview[Item]:
    """Return a preview; ``apart``: one that is independent of changes of the heap."""
    return HeapPreview(heap.copy() if apart else heap) if len(heap) else _NOTHING


class Replay:
    """The future dispatches, computed on copies of the nodes that they change.

    ``apart``: the tree may change during the replay, which it announces (``before_change``,
    ``before_sharing``); otherwise it must not change until the replay ends.
    """

    def __init__(self, root: Invocation, *, apart: bool = False) -> None:
        self._root = root
        self._apart = apart
        self._shadows: dict[Invocation, _Shadow] = {}
        self._kept: dict[Execution, _Kept] = {}
        self._dispatched = 0

    def run(self) -> Iterator[Keyed]:
        """Yield the leader of each execution in the order of dispatch, if none ended."""
        while (operation := self._next()) is not None:
            execution = operation.execution
            kept = self._kept.get(execution)
            yield (execution.leader.key, execution.leader) if kept is None else kept.entry
            # read again: the execution may have changed while the caller had the job
            kept = self._kept.get(execution)
            self._dispatch(execution.operations if kept is None else kept.operations)

    # --- notifications of the tree ------------------------------------------------------------

    def before_change(self, node: Invocation) -> None:
        """Copy the node and its ancestors, which are about to change."""
        for above in node.lineage():
            self._shadow(above)

    def before_sharing(self, execution: Execution, key: Key | None) -> None:
        """Copy an execution that is about to leave its nodes, or whose members are about to change.

        ``key``: its leader's key until now, if that has been changed already.
        """
        if execution not in self._kept and execution.operations:
            leader = execution.leader
            entry = (leader.key if key is None else key, leader)
            self._kept[execution] = _Kept(tuple(execution.operations), entry)

    # --- the replay ---------------------------------------------------------------------------

    def _shadow(self, node: Invocation) -> _Shadow:
        shadow = self._shadows.get(node)
        if shadow is None:
            shadow = self._shadows[node] = _Shadow(node, apart=self._apart)
        return shadow

    def _first(self, node: Invocation) -> Operation | Invocation | None:
        shadow = self._shadow(node)
        own = shadow.queue.first()
        child = shadow.children.first()
        if own is None or child is None:
            return own or child
        return own if own.level >= self._head(child).level else child

    def _head(self, node: Invocation) -> Operation | Invocation:
        """Return the item that determines the node's level and priority now."""
        if node not in self._shadows:
            return node
        first = self._first(node)
        while isinstance(first, Invocation) and first in self._shadows:
            first = self._first(first)
        return node if first is None else first

    def _next(self) -> Operation | None:
        first = self._first(self._root)
        while isinstance(first, Invocation):
            first = self._first(first)
        return first

    def _dispatch(self, operations: Sequence[Operation]) -> None:
        self._dispatched += 1
        touched: dict[Invocation, None] = {}
        for operation in operations:
            for node in operation.node.lineage():
                shadow = self._shadow(node)
                shadow.waiting -= 1
                shadow.executing += node not in touched
                shadow.last_start = (float("inf"), self._dispatched)
                touched[node] = None
            self._shadow(operation.node).queue.discard(operation)
        for node in sorted(touched, key=lambda node: -len(node.path)):
            self._place(node)

    def _place(self, node: Invocation) -> None:
        if node.parent is None:
            return
        shadow, siblings = self._shadow(node), self._shadow(node.parent).children
        if not shadow.waiting:
            siblings.discard(node)
            return
        head = self._head(node)
        priority = head.priority + node.offset
        key = urgency(head.level, priority, shadow.executing, shadow.last_start, node.serial)
        siblings.put(node, key)
