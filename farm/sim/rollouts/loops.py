"""The loops of rollouts in which queues do nothing but empty themselves, on plain arrays.

One source: Python plays a few jobs by them, and where there are many they are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

NEVER = float("inf")
WORTH_COMPILED = 200_000
"""Jobs, over all rollouts, from which loading compiled code (0.4 s) is made good."""


class Queues(NamedTuple):
    """Jobs that wait on lanes, and the slots that take them."""

    #: the jobs, lane by lane, in the order of dispatching
    jobs: Any
    #: where each lane ends there
    ends: Any
    # by place there: the job's place among all lanes' jobs, and whether it is waited for (1 or 0)
    ranks: Any
    matters: Any
    #: by slot and lane
    serves: Any
    # by slot
    speed: Any
    cleaning: Any
    #: which of slots that come free at one instant goes first, once it has worked: the smallest
    ties: Any


def draw(times: Any, columns: Any, estimates: Any, factors: Any) -> None:
    """Put estimate times factor for each rollout (row) of some jobs (columns) in the place of u.

    The factor is the quantile at u of the rollout's own row of ``factors``, which is sorted: on a
    straight line between two that were seen (Hyndman and Fan's type 7).
    """
    last = factors.shape[1] - 1
    for row in range(times.shape[0]):
        for column in columns:
            place = times[row, column] * last
            below = int(place)
            low, high = factors[row, below], factors[row, min(below + 1, last)]
            times[row, column] = estimates[column] * ((high - low) * (place - below) + low)


def empty(
    queues: Any, times: Any, heads: Any, slots: Any, free: Any, ties: Any, dispatched: Any
) -> None:
    """Write down when each job is dispatched in each rollout (row), up to the last that matters.

    A slot that comes free takes the best of the first jobs of the lanes that it serves. All but
    ``queues`` and ``times`` are written into.

    Args:
        queues: what is there.
        times: by rollout and job, service times (s).
        heads: by rollout and lane, where it begins.
        slots: by rollout, the slots in the order of coming free: a heap.
        free: by rollout and place in that heap, when the slot comes free (s); behind them infinity.
        ties: by rollout and slot, as in ``queues``, for the first time that it comes free.
        dispatched: by rollout and job (s).
    """
    wanted = queues.matters.sum()
    for row in range(free.shape[0]):
        size, left = slots.shape[1], wanted
        while size > 0 and left > 0:
            slot, at, best = slots[row, 0], free[row, 0], -1
            for lane in range(heads.shape[1]):
                if (
                    queues.serves[slot, lane]
                    and heads[row, lane] < queues.ends[lane]
                    and (
                        best < 0 or queues.ranks[heads[row, lane]] < queues.ranks[heads[row, best]]
                    )
                ):
                    best = lane
            if best < 0:
                size -= 1
                slot, at = slots[row, size], free[row, size]
                free[row, size] = NEVER
            else:
                head = heads[row, best]
                heads[row, best] = head + 1
                left -= queues.matters[head]
                job = queues.jobs[head]
                dispatched[row, job] = at
                # added one after the other, as the world does
                at = at + times[row, job] / queues.speed[slot] + queues.cleaning[slot]
                ties[row, slot] = queues.ties[slot]
            place, child = 0, 1
            while child < size:
                below, other = free[row, child], free[row, child + 1]
                goes_first = other < below  # added, not branched upon: nothing predicts it
                if other == below and child + 1 < size:
                    goes_first = ties[row, slots[row, child + 1]] < ties[row, slots[row, child]]
                child += int(goes_first)
                below = free[row, child]
                if at < below or (at == below and ties[row, slot] < ties[row, slots[row, child]]):
                    break
                free[row, place], slots[row, place] = below, slots[row, child]
                place, child = child, 2 * child + 1
            free[row, place], slots[row, place] = at, slot


def quickest(loop: Callable[..., None], jobs: int) -> Callable[..., None]:
    """Return a loop compiled if there is Numba and that many jobs are worth it, else as it is."""
    if jobs < WORTH_COMPILED or find_spec("numba") is None:
        return loop
    from farm.sim.fast.kernel.compiled import kept  # noqa: PLC0415 - Numba takes its time to load

    found: Callable[..., None] = kept(loop)
    return found
