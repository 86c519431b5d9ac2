"""The loop of a rollout in which the queues of a fair-share tree only get empty: for the kernel."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from farm.sim.fast.kernel.heaps import Keyed, put, take_out
from farm.sim.rollouts.loops import NEVER, Floats, Integers

NOTHING, ELSEWHERE = -1, -2
"""What a slot runs, if it is no job of the tree: none, or one of another tree."""


class Tree(NamedTuple):
    """A tree, node by node from its root, and the waiting jobs, node by node."""

    #: by node: the one above (-1: none), and the code of its weight
    parents: Integers
    offsets: Integers
    #: by node: where its jobs end in what follows
    ends: Integers
    # in the order in which each node's jobs are dispatched: the job, whether it matters (1 or 0),
    # and the code of its priority
    jobs: Integers
    matters: Integers
    priorities: Integers
    #: by the codes of priority and weight: what the number of executing slots + 1 is multiplied by
    weights: Annotated[Any, np.float64, 2]


class TreeState(NamedTuple):
    """What changes in a tree."""

    #: by node: its first waiting job
    heads: Integers
    #: by node: slots that execute something there, and the rank of its latest start
    executing: Integers
    started: Integers
    #: by node: the code of the next job's priority
    priorities: Integers
    #: the children with waiting jobs, by node: by score, then by start
    children: Keyed


class Slots(NamedTuple):
    """The slots that serve the tree."""

    speed: Floats
    cleaning: Floats
    #: the node of the job that each one runs (``NOTHING``, ``ELSEWHERE``); written into
    nodes: Integers


def settle(tree: Any, going: Any, node: Any) -> None:
    """Move a node and those above it to their places."""
    children = going.children
    while node >= 0:
        above, waits = tree.parents[node], True
        if going.heads[node] < tree.ends[node]:
            going.priorities[node] = tree.priorities[going.heads[node]]
        elif children.heaps[node].count:
            first = children.entries[children.heaps[node].begin].thing
            going.priorities[node] = going.priorities[first]
        else:
            waits = False
        if above >= 0 and waits:
            weight = tree.weights[going.priorities[node], tree.offsets[node]]
            score = (going.executing[node] + 1) * weight
            put(children, above, node, score, going.started[node])
        elif above >= 0:
            take_out(children, above, node)
        node = above


def next_in(tree: Any, going: Any) -> Any:
    """Return the node whose first job is next; -1: none waits."""
    children, node = going.children, 0
    while going.heads[node] >= tree.ends[node]:
        if not children.heaps[node].count:
            return -1
        node = children.entries[children.heaps[node].begin].thing
    return node


def share(
    tree: Tree,
    going: TreeState,
    slots: Slots,
    times: Floats,
    free: Floats,
    losers: tuple[Floats, Integers],
    dispatched: Floats,
) -> int:
    """Record when each job is dispatched, up to the last that matters.

    ``loops.empty`` describes the tree of losers. Here a slot's attempt ends, for its nodes, before
    the slot is clean.

    Args:
        tree: nodes and jobs.
        going: their beginning; written into.
        slots: those that serve the tree; written into.
        times: by job, service times (s).
        free: by slot, when its attempt ends, or it comes free (s).
        losers: as for ``loops.empty``.
        dispatched: by job (s); written into.
    """
    losers_at, losers_tie = losers
    size, entered, left, rank = len(free), 0, 0, len(going.started)
    for one in tree.matters:
        left += one
    for behind in range(len(tree.parents)):
        settle(tree, going, len(tree.parents) - 1 - behind)
    at, tie, slot = -NEVER if size else NEVER, 0, 0
    while left > 0 and at < NEVER:
        if entered < size:
            slot = entered
            # attempts end first, then builders join or are clean
            at, tie = free[slot], slot if slots.nodes[slot] != NOTHING else slot + size
            entered += 1
        else:
            slot = tie if tie < size else tie - size
            clean = True
            if slots.nodes[slot] != NOTHING:
                node = slots.nodes[slot]
                slots.nodes[slot] = NOTHING
                ended = node
                while node >= 0:
                    going.executing[node] -= 1
                    node = tree.parents[node]
                settle(tree, going, ended)
                if slots.cleaning[slot] > 0:
                    at, tie, clean = at + slots.cleaning[slot], slot + size, False
            if clean:
                node = next_in(tree, going)
                if node < 0:
                    at = NEVER
                else:
                    head = going.heads[node]
                    going.heads[node] = head + 1
                    left -= tree.matters[head]
                    job = tree.jobs[head]
                    dispatched[job] = at
                    slots.nodes[slot] = begun = node
                    while node >= 0:
                        going.executing[node] += 1
                        going.started[node] = rank
                        node = tree.parents[node]
                    rank += 1
                    settle(tree, going, begun)
                    at, tie = at + times[job] / slots.speed[slot], slot
        node = (size + slot) // 2
        while node > 0:
            other, its_tie = losers_at[node], losers_tie[node]
            if other < at or (other == at and its_tie < tie):
                losers_at[node], losers_tie[node] = at, tie
                at, tie = other, its_tie
            node //= 2
    return 0
