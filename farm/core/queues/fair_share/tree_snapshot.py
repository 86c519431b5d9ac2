"""What a fair-share tree must remember across a restart, as plain values.

Counts follow from the jobs and slots; who belongs where, since when, and what a node started
and ended last do not.
"""

from __future__ import annotations

import msgspec

from farm.core.queues.fair_share.invocation import Instant


class NodeMemory(msgspec.Struct, frozen=True):
    """One node: running number of its creation, latest start, latest end."""

    path: tuple[str, ...]
    created: int
    started: Instant
    completed: Instant


class SlotMemory(msgspec.Struct, frozen=True):
    """One slot: its last invocation (None: it runs a job) and since when it serves it, by level.

    An instant of None means never.
    """

    builder: str
    number: int
    last: tuple[str, ...] | None
    since: tuple[float | None, ...]
    free: bool


class TreeMemory(msgspec.Struct, frozen=True):
    """A tree: the last running number given out, its nodes (parents first) and its slots.

    Free slots come first, in the order in which each node would hand them out.
    """

    instants: int
    nodes: tuple[NodeMemory, ...]
    slots: tuple[SlotMemory, ...]
