"""The explanation of a fair-share decision: whose turn it is, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from itertools import pairwise

import msgspec

from farm.core.queues.fair_share.accounting import TIE, Invocation, Operation

#: rivals named at one level
_SHOWN = 5


class Party(msgspec.Struct, frozen=True):
    """An invocation that competes with its siblings for the next slot."""

    name: str
    #: slots that execute something of it
    executing: int
    waiting: int
    #: priority of its next job: smaller is more urgent
    priority: int
    level: int
    #: when one of its jobs was last started, farm time
    started_at: float


class Turn(msgspec.Struct, frozen=True):
    """One level of the tree: the invocation that a job is charged to, and its rivals there.

    ``why``: ``alone`` (no rival), ``level`` (a static level decides), ``share`` (by slots
    executing), ``priority``, ``share and priority`` (the two weighed), ``turn`` (all alike: the
    least recently started one), ``stickiness`` (all alike, and the slot stays where it was), or
    ``directly`` (a rival's jobs wait in the node itself and precede its children).
    """

    party: Party
    #: others with waiting jobs, in order (at most five)
    rivals: tuple[Party, ...]
    #: whether it goes before all of them
    first: bool
    why: str


def best_turns(operations: Sequence[Operation], *, taken: bool = False) -> tuple[Turn, ...]:
    """Return the turns from the root to the operation of an execution that is nearest to its turn.

    ``taken``: the operation is what a slot takes now, so a party that is not the first by its
    score has been preferred by stickiness.
    """
    ways = []
    for operation in operations:
        down = list(operation.node.lineage())[::-1]
        ways.append(tuple(_turn(node, above, taken=taken) for above, node in pairwise(down)))
    return min(ways, key=lambda turns: sum(not turn.first for turn in turns), default=())


def _turn(node: Invocation, parent: Invocation, *, taken: bool) -> Turn:
    others = [other for other in parent.waiting_children if other is not node]
    nearest = nsmallest(_SHOWN, others, key=Invocation.urgency)
    first = not nearest or node.urgency() < nearest[0].urgency()
    rivals = tuple(map(_party, nearest))
    if parent.queue.first() is not None and not taken:
        return Turn(_party(node), rivals, False, "directly")
    return Turn(_party(node), rivals, first or taken, _why(node, nearest, first or not taken))


def _why(node: Invocation, rivals: Sequence[Invocation], by_score: bool) -> str:
    """Return what distinguished a node from its nearest rival."""
    if not rivals:
        return "alone"
    if not by_score:
        return "stickiness"
    rival = rivals[0]
    if node.level != rival.level:
        return "level"
    if node.urgency()[:TIE] == rival.urgency()[:TIE]:
        return "turn"
    if node.weighted_priority == rival.weighted_priority:
        return "share"
    return "priority" if len(node.executing) == len(rival.executing) else "share and priority"


def _party(node: Invocation) -> Party:
    started_at, _ = node.last_start
    return Party(
        name=node.path[-1],
        executing=len(node.executing),
        waiting=node.waiting,
        priority=node.weighted_priority,
        level=node.level,
        started_at=started_at,
    )
