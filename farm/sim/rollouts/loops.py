"""The loop of rollouts in which queues only get empty, on plain sequences.

One source: compiled where there is the kernel's object, and otherwise run by Python.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

NEVER = float("inf")
Integers = Annotated[Any, np.int64]
Floats = Annotated[Any, np.float64]
Rows = Annotated[Any, np.float64, 2]
"""Sequences, and sequences of such; compiled, arrays of this type."""


class Queues(NamedTuple):
    """Jobs that wait on lanes, and the slots for them."""

    #: the jobs, lane by lane, in the order of dispatching
    jobs: Integers
    #: where each lane ends there
    ends: Integers
    # by place there: the job's place among all lanes' jobs, and whether it matters (1 or 0)
    ranks: Integers
    matters: Integers
    #: the lanes that each slot serves, slot by slot, and where those of a slot begin and end
    served: Integers
    begins: Integers
    # by slot
    speed: Floats
    cleaning: Floats
    #: the tie-break of slots that become free at one instant, smallest first: a number that is the
    #: slot's own modulo the number of slots; once it has worked, and until then
    ties: Integers
    first_ties: Integers


class RolloutState(NamedTuple):
    """What changes, by rollout: written into."""

    #: by lane, its first waiting job
    heads: Annotated[Any, np.int64, 2]
    #: jobs that matter and wait
    left: Integers
    #: the slot that is free next: when (minus infinity: none has entered), and its tie-break
    at: Floats
    tie: Integers
    #: by node of the tree, those of what stays there
    losers_at: Rows
    losers_tie: Annotated[Any, np.int64, 2]


def empty(queues: Queues, times: Rows, free: Rows, going: RolloutState, dispatched: Rows) -> None:
    """Record when each job is dispatched, up to the last that matters, in each of some rollouts.

    A slot that becomes free gets the best of the first jobs of the lanes that it serves. The slots
    are leaves of a tree of losers (Knuth, The Art of Computer Programming, 5.4.1): each node keeps
    the later of two, and the way up from a leaf is the same whatever the instants are, and as long
    if there are 2^n slots. The rollouts take turns: a processor begins the next one's step before
    it has ended the one before, which it could not do with the next step of the same.

    Args:
        queues: jobs and slots.
        times: by rollout and job, service times (s).
        free: by rollout and slot, when it first comes free (s); 2^n slots, some perhaps never.
        going: the beginning; written into.
        dispatched: by rollout and job (s); written into.
    """
    size, entered, busy = len(free[0]), 0, True
    while busy:
        busy = False
        for rollout in range(len(free)):
            at, tie = going.at[rollout], going.tie[rollout]
            if entered < size:
                slot, at, tie = entered, free[rollout][entered], queues.first_ties[entered]
            elif going.left[rollout] > 0 and at < NEVER:
                slot, best, heads = tie if tie < size else tie - size, -1, going.heads[rollout]
                for place in range(queues.begins[slot], queues.begins[slot + 1]):
                    lane = queues.served[place]
                    if heads[lane] < queues.ends[lane] and (
                        best < 0 or queues.ranks[heads[lane]] < queues.ranks[heads[best]]
                    ):
                        best = lane
                if best < 0:
                    at = NEVER
                else:
                    head = heads[best]
                    heads[best] = head + 1
                    going.left[rollout] -= queues.matters[head]
                    job = queues.jobs[head]
                    dispatched[rollout][job] = at
                    # added one after the other, as in the world
                    at = at + times[rollout][job] / queues.speed[slot] + queues.cleaning[slot]
                    tie = queues.ties[slot]
            else:
                continue
            busy = True
            losers_at, losers_tie = going.losers_at[rollout], going.losers_tie[rollout]
            node = (size + slot) >> 1
            while node > 0:
                other, its_tie = losers_at[node], losers_tie[node]
                if other != at:
                    # swapped by arithmetic, not by a branch, which could not be predicted
                    swap = int(other < at) * (its_tie - tie)
                    losers_at[node], losers_tie[node] = max(at, other), its_tie - swap
                    at, tie = min(at, other), tie + swap
                elif its_tie < tie:
                    losers_tie[node], tie = tie, its_tie
                node >>= 1
            going.at[rollout], going.tie[rollout] = at, tie
        entered += 1
