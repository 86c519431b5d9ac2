"""Notices that the jobs of a kind take longer or shorter than they did.

What they took before a change says nothing of the next one. A change is taken for real where the
mean logarithm of the last runs is further from that of those before than chance allows: heavy
tails, which logarithms make even, do not look like one. Who asks forgets the earlier runs of the
kind, and their ratios to declared times; groups across kinds keep theirs, and only age.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

#: the numbers of last runs that are held against those before; as many are kept. Ten show a large
#: change soon, twenty a smaller one
RECENT = (10, 20)
#: runs before them, at least
MIN_BEFORE = 10
#: standard errors of the difference from which it is a change: many, as it is asked anew every few
#: runs of each kind, and a change that is none forgets all that was learned
MIN_ERRORS = 4.5
#: a run counts as no shorter (seconds)
SHORTEST = 1e-3
#: the least standard deviation of logarithms: kinds whose runs are all the same change, too
LEAST_DEVIATION = 0.05
#: the share of the known runs beyond which a kind is as good as the only one
ONLY = 0.9


def is_one_of_several(own: int, others: Iterable[int]) -> bool:
    """Return whether jobs have kinds of their own, as seen from one kind.

    A kind that has nearly all runs is what jobs without kinds have: those of different lengths come
    one after the other, which is no change. A single job of another kind does not alter that.

    Args:
        own: the number of known runs of the kind.
        others: those of the other kinds.
    """
    known, enough = 0, own * (1.0 - ONLY) / ONLY
    for count in others:
        known += count
        if known > enough:
            return True
    return False


def runs_since_change(work: Sequence[float]) -> int | None:
    """Return how many of the last runs are later than a change; None: there was none.

    ``work``: what runs took, oldest first.
    """
    if len(work) < RECENT[0] + MIN_BEFORE:
        return None
    logarithms = np.log(np.maximum(np.array(work), SHORTEST))
    sums = logarithms.cumsum()
    squares = float(logarithms @ logarithms)
    total = float(sums[-1])
    for recent in RECENT:
        before = len(work) - recent
        if before < MIN_BEFORE:
            break
        mean_before = float(sums[before - 1]) / before
        mean_recent = (total - float(sums[before - 1])) / recent
        within = squares - before * mean_before**2 - recent * mean_recent**2
        deviation = max(math.sqrt(max(within, 0.0) / len(work)), LEAST_DEVIATION)
        error = deviation * math.sqrt(1.0 / before + 1.0 / recent)
        if abs(mean_recent - mean_before) > MIN_ERRORS * error:
            return recent
    return None
