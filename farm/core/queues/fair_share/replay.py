"""The dispatches to come from a fair-share tree, played without disturbing it.

A replay reads the tree as it goes. One that is told before anything changes (``onlooker`` of its
tree) plays the order of the moment at which it was made, whatever happens afterwards: it copies a
node just before its first change, or when its turn comes, whichever is first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from farm.core.queues.fair_share.invocation import Execution, Invocation, Operation, urgency
from farm.core.queues.heap import HeapPreview, Item, UpdatableHeap
from farm.core.queues.plain import Entry, Key

#: dispatches replayed without a pause: about a millisecond
AT_ONCE = 50


class _Kept(msgspec.Struct, eq=False):
    """An execution as it was before its members changed."""

    operations: tuple[Operation, ...]
    entry: Entry


class _Shadow:
    """A node as it will be after the dispatches replayed so far."""

    __slots__ = ("children", "executing", "queue", "started", "waiting")

    def __init__(self, node: Invocation, *, apart: bool) -> None:
        self.queue = _preview(node.queue, apart=apart)
        self.children = _preview(node.waiting_children, apart=apart)
        self.executing = len(node.executing)
        self.started = node.started
        self.waiting = node.waiting


def kept_order(root: Invocation, onlookers: list[Replay]) -> Iterator[list[Entry]]:
    """Yield the jobs of a tree, with their keys, in the order of this moment, some at a time.

    ``onlookers``: notified by the tree of its changes; we are among them until the end, or until
    the iterator is closed or dropped.
    """
    order = _kept_order(root, onlookers)
    next(order)  # from here on we are notified of changes
    return order


def _kept_order(root: Invocation, onlookers: list[Replay]) -> Iterator[list[Entry]]:
    replay = Replay(root, apart=True)
    onlookers.append(replay)
    try:
        yield []
        run = replay.run()
        while some := list(islice(run, AT_ONCE)):
            yield some
    finally:
        onlookers.remove(replay)


#: of an empty heap: a replay never puts anything where nothing was, and leaves are many
_NOTHING: HeapPreview[Any] = HeapPreview(UpdatableHeap())


def _preview(heap: UpdatableHeap[Item], *, apart: bool) -> HeapPreview[Item]:
    """Return a preview; ``apart``: one that bears changes of the heap."""
    if not len(heap):
        return _NOTHING
    return HeapPreview(heap.copy() if apart else heap)


class Replay:
    """The dispatches to come, played on shadows of the nodes that they touch.

    ``apart``: the tree may change during the replay, and says so beforehand (``before_change``,
    ``before_sharing``); else it must not change until the replay is over.
    """

    def __init__(self, root: Invocation, *, apart: bool = False) -> None:
        self._root = root
        self._apart = apart
        self._shadows: dict[Invocation, _Shadow] = {}
        self._kept: dict[Execution, _Kept] = {}
        self._dispatched = 0

    def run(self) -> Iterator[Entry]:
        """Yield the job in whose name each execution would be dispatched, none ending."""
        while (operation := self._next()) is not None:
            execution = operation.execution
            kept = self._kept.get(execution)
            yield (execution.leader.key, execution.leader) if kept is None else kept.entry
            # asked for again: the execution may have changed while the caller had the job
            kept = self._kept.get(execution)
            self._dispatch(execution.operations if kept is None else kept.operations)

    # --- notifications of the tree ------------------------------------------------------------

    def before_change(self, node: Invocation) -> None:
        """The node and those above it are about to change."""
        for one in node.lineage():
            self._shadow(one)

    def before_sharing(self, execution: Execution, key: Key | None) -> None:
        """Those whom an execution serves are about to change, or it is about to leave its nodes.

        ``key``: the one that its leader had until now, if that is not its key any more.
        """
        if execution not in self._kept and execution.operations:
            leader = execution.leader
            entry = (leader.key if key is None else key, leader)
            self._kept[execution] = _Kept(tuple(execution.operations), entry)

    # --- the play -----------------------------------------------------------------------------

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
        """Return what gives the node its level and priority now."""
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
                shadow.started = (float("inf"), self._dispatched)
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
        siblings.put(
            node,
            urgency(
                head.level,
                head.priority + node.offset,
                shadow.executing,
                shadow.started,
                node.created,
            ),
        )
