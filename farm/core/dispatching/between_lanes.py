"""Fair share between lanes: which of two lanes' heads goes first.

A builder of several platforms serves several lanes, each with its own tree. Their heads
compete as they would in one tree: at the first level where their paths differ, the invocation
with the smaller (executing slots + 1) · 2^(priority/100) goes first, with slots counted over all
lanes; on a tie the policy decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from farm.core.dispatching.matching import Lane
from farm.core.queues.fair_share.invocation import score
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.state import JobState


def goes_before(state: JobState, other: JobState, lanes: Sequence[Lane]) -> bool:
    """Return whether the job precedes ``other``, the head of another lane; O(depth · lanes)."""
    if state.job.level != other.job.level:
        return state.job.level > other.job.level
    mine, theirs = state.path, other.path
    for level, (one, another) in enumerate(zip(mine, theirs, strict=False), start=1):
        if one != another:
            ours = _score(mine[:level], state.job.priority, lanes)
            others = _score(theirs[:level], other.job.priority, lanes)
            return ours < others or (ours == others and bool(state.key < other.key))
    if len(mine) != len(theirs):
        return len(mine) < len(theirs)  # jobs queued in a node precede its children
    return bool(state.key < other.key)


def _score(path: tuple[str, ...], priority: int, lanes: Sequence[Lane]) -> tuple[int, float]:
    queues = [lane.queue for lane in lanes if isinstance(lane.queue, FairShareQueue)]
    executing = sum(queue.executing_in(path) for queue in queues)
    offset = queues[0].offsets.get(path, 0) if queues else 0
    return score(executing, priority + offset)
