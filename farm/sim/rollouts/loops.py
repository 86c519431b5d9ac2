"""The loop of a rollout in which queues only get empty, on plain sequences.

One source: compiled where there is the kernel's object, and otherwise run by Python.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

NEVER = float("inf")
Integers = Annotated[Any, np.int64]
Floats = Annotated[Any, np.float64]
"""Sequences; compiled, arrays of this type."""


class Queues(NamedTuple):
    """Jobs that wait on lanes, and the slots for them."""

    #: the jobs, lane by lane, in the order of dispatching
    jobs: Integers
    #: where each lane ends there
    ends: Integers
    # by place there: the job's place among all lanes' jobs, and whether it matters (1 or 0)
    ranks: Integers
    matters: Integers
    #: by slot, for each lane
    serves: Annotated[Any, np.bool_]
    # by slot
    speed: Floats
    cleaning: Floats
    #: the tie-break of slots that become free at one instant, smallest first: a number that is the
    #: slot's own modulo the number of slots; once it has worked, and until then
    ties: Integers
    first_ties: Integers


def empty(
    queues: Queues,
    times: Floats,
    free: Floats,
    heads: Integers,
    losers: tuple[Floats, Integers],
    dispatched: Floats,
) -> None:
    """Record when each job is dispatched, up to the last that matters.

    A slot that becomes free gets the best of the first jobs of the lanes that it serves. The slots
    are leaves of a tree of losers (Knuth, The Art of Computer Programming, 5.4.1): each node keeps
    the later of two, and the way up from a leaf is the same whatever the instants are.

    Args:
        queues: jobs and slots.
        times: by job, service times (s).
        free: by slot, when it first comes free (s).
        heads: by lane, where it begins; written into.
        losers: by node, the instant (minus infinity) and the tie of what stays there; written into.
        dispatched: by job (s); written into.
    """
    losers_at, losers_tie = losers
    lanes, size, entered, left = len(heads), len(free), 0, sum(queues.matters)
    at, tie = -NEVER if size else NEVER, 0
    while left > 0 and at < NEVER:
        if entered < size:
            slot, at, tie = entered, free[entered], queues.first_ties[entered]
            entered += 1
        else:
            slot, best = tie if tie < size else tie - size, -1
            for lane in range(lanes):
                if (
                    queues.serves[slot * lanes + lane]
                    and heads[lane] < queues.ends[lane]
                    and (best < 0 or queues.ranks[heads[lane]] < queues.ranks[heads[best]])
                ):
                    best = lane
            if best < 0:
                at = NEVER
            else:
                head = heads[best]
                heads[best] = head + 1
                left -= queues.matters[head]
                job = queues.jobs[head]
                dispatched[job] = at
                # added one after the other, as in the world
                at = at + times[job] / queues.speed[slot] + queues.cleaning[slot]
                tie = queues.ties[slot]
        node = (size + slot) // 2
        while node > 0:
            other, its_tie = losers_at[node], losers_tie[node]
            # swapped by arithmetic, not by a branch, which could not be predicted
            swap = int((other < at) | ((other == at) & (its_tie < tie))) * (its_tie - tie)
            losers_at[node], losers_tie[node] = max(at, other), its_tie - swap
            at, tie = min(at, other), tie + swap
            node //= 2
