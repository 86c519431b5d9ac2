"""What a fair-share tree must remember across a restart, as plain values.

Counts follow from the jobs and slots; the slots' nodes and times, and the nodes' latest starts and
ends do not.
"""

from __future__ import annotations

import msgspec

Instant = tuple[float, int]
"""A time and a running number, which orders what happens at the same time."""


class NodeMemory(msgspec.Struct, frozen=True):
    """One node: running number of its creation, latest start, latest end (``Invocation``)."""

    path: tuple[str, ...]
    created: int
    started: Instant
    completed: Instant


class SlotMemory(msgspec.Struct, frozen=True):
    """One slot: its last invocation (None: it runs a job) and, by level, since when it serves it.

    An instant of None means never.
    """

    builder: str
    number: int
    last: tuple[str, ...] | None
    since: tuple[float | None, ...]
    free: bool


class TreeMemory(msgspec.Struct, frozen=True):
    """A tree: the last running number used, its nodes (parents first) and its slots.

    Free slots come first, in the order in which each node would give them.
    """

    instants: int
    nodes: tuple[NodeMemory, ...]
    slots: tuple[SlotMemory, ...]
