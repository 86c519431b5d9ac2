"""Longest or shortest job first with ageing: waiting makes a job look longer, or shorter.

Jenkins' Priority Sorter weighs ``weight - time in queue x factor``, smallest first (thesis 4.2.1);
the weight is the estimate, negative where the longest goes first. With one rate for all jobs the
difference of two weights never changes, so ``weight + factor x submitted_at`` is a constant key,
and nothing need be sorted again.

The thesis's simulation means something else by ageing (its pseudo-code sorts inside each matrix and
concatenates the matrices): older matrices go first however long their jobs are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from farm.core.model import Job

#: seconds of run time that a second of waiting weighs, unless the scenario says otherwise: a job
#: that has waited for a minute passes one that came now and differs by less than ten minutes
AGING_FACTOR = 10.0


def make(
    factor: float, aging: str, *, longest_first: bool
) -> Callable[[Job, float, float, int], float | tuple[float, float]]:
    """Return the key function; ``aging`` is ``linear``, or ``matrix``: in order of release."""
    sign = -1.0 if longest_first else 1.0
    if aging == "matrix":
        return _by_matrix(sign)
    return partial(linear, factor, sign)


def linear(factor: float, sign: float, job: Job, estimate: float, at: float, serial: int) -> float:
    """Return the key of linear ageing."""
    return factor * at + sign * estimate


def _by_matrix(sign: float) -> Callable[[Job, float, float, int], tuple[float, float]]:
    """Return a key function that remembers in which order matrices were first seen.

    A job without a matrix is a matrix of its own.
    """
    released: dict[str, int] = {}

    def key(job: Job, estimate: float, at: float, serial: int) -> tuple[float, float]:
        rank = serial if job.matrix is None else released.setdefault(job.matrix, serial)
        return (float(rank), sign * estimate)

    return key
