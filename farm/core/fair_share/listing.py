"""Looking at a fair-share tree: children, queues and the order of dispatch, never disturbing it.

Every listing is a sorted copy, cut into pages by ``limit`` and ``after``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import nsmallest
from typing import Any, Literal

import msgspec

from farm.core.fair_share.heap import HeapPreview
from farm.core.fair_share.tree import InvocationTree
from farm.core.invocation import Execution, Invocation, Operation, urgency
from farm.core.state import JobState, Slot

Filter = Literal["all", "active", "queued"]


class InvocationView(msgspec.Struct, frozen=True):
    """A child of a node, as listed. Counts are over its whole subtree unless named ``own``."""

    path: tuple[str, ...]
    #: waiting operations (a job shared by two nodes counts in both)
    waiting: int
    own_waiting: int
    #: slots that execute something here
    executing: int
    #: slots whose last invocation is here and that run nothing
    idle: int
    #: those of them that wait for a job
    free: int
    own_free: int
    children: int
    waiting_children: int
    active_children: int
    #: of the job that would go next here; None if nothing waits
    priority: int | None
    started_at: float
    completed_at: float
    #: where it stands in this listing; give the last row's to get the next page
    place: tuple[Any, ...]


class TreeListing:
    """What can be read off one tree."""

    def __init__(self, tree: InvocationTree, running: Mapping[Slot, Execution]) -> None:
        self._tree = tree
        self._running = running

    def children(
        self,
        path: tuple[str, ...] = (),
        show: Filter = "all",
        *,
        limit: int | None = None,
        after: tuple[Any, ...] | None = None,
    ) -> list[InvocationView]:
        """List a node's children; none if there is no such node.

        ``queued``: those in which something waits, the one that gets the next slot first.
        ``active``: those in which something waits or executes, and ``all``: both by key,
        ascending. ``after``: the ``place`` of the last row seen, which need not exist any more.
        """
        node = self._tree.find(path)
        if node is None:
            return []
        if show == "queued":
            placed = [(child.urgency(), child) for child in node.waiting_children]
        else:
            placed = [
                ((key,), child)
                for key, child in node.children.items()
                if show == "all" or child.active
            ]
        rows = [row for row in placed if after is None or row[0] > after]
        return [_view(child, place) for place, child in _page(rows, limit)]

    def queue(
        self, path: tuple[str, ...] = (), *, limit: int | None = None, after: JobState | None = None
    ) -> list[JobState]:
        """List the jobs queued directly in a node in the order in which they will leave it.

        ``after``: the last job of the page before, which need not wait any more.
        """
        node = self._tree.find(path)
        if node is None:
            return []
        rows = [
            (operation.key, operation)
            for operation in node.queue
            if after is None or operation.key > after.key
        ]
        return [operation.states[0] for _, operation in _page(rows, limit)]

    def waiting_in(self, path: tuple[str, ...] = ()) -> list[JobState]:
        """List the waiting jobs of a node and below, in order of submission."""
        top = self._tree.find(path)
        states = [
            state
            for node in (() if top is None else top.subtree())
            for operation in node.queue
            for state in operation.states
        ]
        return sorted(states, key=lambda state: state.serial)

    def running_in(self, path: tuple[str, ...] = ()) -> list[JobState]:
        """List the jobs of a node and below that are being executed, in order of submission."""
        top = self._tree.find(path)
        states = [
            state
            for slot in (() if top is None else top.executing)
            for operation in self._running[slot].operations
            if operation.node.path[: len(path)] == path
            for state in operation.states
        ]
        return sorted(states, key=lambda state: state.serial)

    def dispatch_order(self) -> Iterator[Operation]:
        """Yield what would be dispatched to one new slot after the other, none ending."""
        return _Replay(self._tree.root).run()


def _page(rows: list[tuple[Any, Any]], limit: int | None) -> list[tuple[Any, Any]]:
    """Return the first rows in order of their places (which are unique)."""
    if limit is not None and limit < len(rows) // 8:
        return nsmallest(limit, rows, key=lambda row: row[0])
    rows.sort(key=lambda row: row[0])
    return rows[:limit]


def _view(node: Invocation, place: tuple[Any, ...]) -> InvocationView:
    return InvocationView(
        path=node.path,
        waiting=node.waiting,
        own_waiting=len(node.queue),
        executing=len(node.executing),
        idle=node.idle,
        free=node.free,
        own_free=len(node.own_free),
        children=len(node.children),
        waiting_children=len(node.waiting_children),
        active_children=sum(child.active for child in node.children.values()),
        priority=node.priority if node.waiting else None,
        started_at=node.started[0],
        completed_at=node.completed[0],
        place=place,
    )


class _Shadow:
    """A node as it will be after the dispatches replayed so far."""

    __slots__ = ("children", "executing", "node", "queue", "started", "waiting")

    def __init__(self, node: Invocation) -> None:
        self.node = node
        self.queue = HeapPreview(node.queue)
        self.children = HeapPreview(node.waiting_children)
        self.executing = len(node.executing)
        self.started = node.started
        self.waiting = node.waiting


class _Replay:
    """The dispatches to come, played on shadows of the nodes that they touch."""

    def __init__(self, root: Invocation) -> None:
        self._root = root
        self._shadows: dict[Invocation, _Shadow] = {}
        self._dispatched = 0

    def run(self) -> Iterator[Operation]:
        while (operation := self._next()) is not None:
            yield operation
            self._dispatch(operation.execution)

    def _shadow(self, node: Invocation) -> _Shadow:
        shadow = self._shadows.get(node)
        if shadow is None:
            shadow = self._shadows[node] = _Shadow(node)
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

    def _dispatch(self, execution: Execution) -> None:
        self._dispatched += 1
        touched: dict[Invocation, None] = {}
        for operation in execution.operations:
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
            urgency(head.level, head.priority, shadow.executing, shadow.started, node.created),
        )
