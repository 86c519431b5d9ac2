"""Shortest job first with ageing: waiting makes a job look shorter.

See ``ljf_aging`` for why the key is constant: ``estimate - (now - submitted_at) x factor`` sorts
jobs as ``estimate + factor x submitted_at`` does.
"""

from __future__ import annotations

from collections.abc import Callable

from farm.core.model import Job
from farm.core.policies.matrix_order import matrix_order


def make(factor: float, aging: str) -> Callable[[Job, float, float, int], object]:
    """Return the key function; ``aging`` is ``linear`` or ``matrix`` (see matrix_order)."""
    if aging == "matrix":
        return matrix_order(longest_first=False)

    def key(job: Job, estimate: float, at: float, serial: int) -> float:
        return factor * at + estimate

    return key
