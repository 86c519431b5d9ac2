"""Longest job first with ageing: waiting makes a job look longer.

Jenkins' Priority Sorter weighs ``weight - time in queue x factor``, smallest first (thesis 4.2.1).
With weight = -estimate and one rate for all jobs the difference of two weights never changes, so
``-estimate + factor x submitted_at`` is a constant key, and nothing need be sorted again.
"""

from __future__ import annotations

from collections.abc import Callable

from farm.core.model import Job
from farm.core.policies.matrix_order import matrix_order


def make(factor: float, aging: str) -> Callable[[Job, float, float, int], object]:
    """Return the key function; ``aging`` is ``linear`` or ``matrix`` (see matrix_order)."""
    if aging == "matrix":
        return matrix_order(longest_first=True)

    def key(job: Job, estimate: float, at: float, serial: int) -> float:
        return factor * at - estimate

    return key
