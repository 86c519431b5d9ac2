"""Read-only listings of a fair-share tree: children and queues.

Every listing is a sorted copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from farm.core.queues.fair_share.accounting import Execution, Invocation, InvocationTree
from farm.core.state.working_state import JobState, Slot

Filter = Literal["all", "active", "queued"]


class InvocationView(msgspec.Struct, frozen=True):
    """A child of a node, as listed. Counts cover its whole subtree unless named ``own``."""

    path: tuple[str, ...]
    #: waiting operations (a job shared by two nodes counts in both nodes)
    waiting: int
    own_waiting: int
    #: slots that execute something here
    executing: int
    #: slots whose last invocation is here and that run no job
    idle: int
    #: those of them that wait for a job
    free: int
    own_free: int
    children: int
    waiting_children: int
    active_children: int
    #: priority of the job that would go next here; None if none waits
    priority: int | None
    started_at: float
    completed_at: float


class TreeListing:
    """The listings of one tree."""

    def __init__(self, tree: InvocationTree, running: Mapping[Slot, Execution]) -> None:
        self._tree = tree
        self._running = running

    def waiting_by_outermost(self) -> Iterator[tuple[str, int]]:
        """Yield the outermost invocations with waiting operations, and how many: O(invocations)."""
        for name, node in self._tree.root.children.items():
            if node.waiting:
                yield name, node.waiting

    def children(
        self, path: tuple[str, ...] = (), show: Filter = "all", *, limit: int | None = None
    ) -> list[InvocationView]:
        """List a node's children; empty if there is no such node.

        ``queued``: those with waiting jobs, the one that gets the next slot first. ``active``:
        those with waiting or running jobs, and ``all``: both sorted by key.
        """
        node = self._tree.find(path)
        if node is None:
            return []
        if show == "queued":
            found = sorted(node.waiting_children, key=Invocation.urgency)
        else:
            children = (child for _, child in sorted(node.children.items()))
            found = [child for child in children if show == "all" or child.active]
        return [_view(child) for child in found[:limit]]

    def paths(self) -> Iterator[tuple[str, ...]]:
        """Yield the paths of all nodes, parents before children; the root's is empty."""
        return (node.path for node in self._tree.root.subtree())

    def nodes(self) -> Iterator[Invocation]:
        """Yield the nodes themselves, parents before children: to be read, not to be changed."""
        return self._tree.root.subtree()

    def queue(self, path: tuple[str, ...] = ()) -> list[JobState]:
        """List the jobs queued directly in a node, in dispatch order."""
        node = self._tree.find(path)
        return [] if node is None else [found.states[0] for found in node.queue.ordered()]

    def running_in(self, path: tuple[str, ...] = ()) -> list[JobState]:
        """List the running jobs of a node and below, in order of submission."""
        top = self._tree.find(path)
        states = [
            state
            for slot in (() if top is None else top.executing)
            for operation in self._running[slot].operations
            if operation.node.path[: len(path)] == path
            for state in operation.states
        ]
        return sorted(states, key=lambda state: state.serial)

    def idle_in(self, path: tuple[str, ...] = ()) -> list[tuple[Slot, tuple[str, ...]]]:
        """List the free slots whose last invocation is this node or below, with its path."""
        top = self._tree.find(path)
        nodes = () if top is None else top.subtree()
        return [(slot, node.path) for node in nodes for slot in node.own_free]

    def node(self, path: tuple[str, ...] = ()) -> InvocationView | None:
        """Return a node as it would be listed; None if there is none."""
        found = self._tree.find(path)
        return None if found is None else _view(found)


def _view(node: Invocation) -> InvocationView:
    return InvocationView(
        path=node.path,
        waiting=node.waiting,
        own_waiting=len(node.queue),
        executing=len(node.executing),
        idle=node.idle_slots,
        free=node.free_slots,
        own_free=len(node.own_free),
        children=len(node.children),
        waiting_children=len(node.waiting_children),
        active_children=sum(child.active for child in node.children.values()),
        priority=node.priority if node.waiting else None,
        started_at=node.last_start[0],
        completed_at=node.last_end[0],
    )
