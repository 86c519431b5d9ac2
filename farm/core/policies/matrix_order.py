"""Ageing by matrix: each matrix sorted by length, the matrices in order of release.

This is what the thesis's simulation means by ageing (its pseudo-code sorts inside each matrix and
concatenates the matrices): older matrices go first however long their jobs are.
"""

from __future__ import annotations

from collections.abc import Callable

from farm.core.model import Job


def matrix_order(*, longest_first: bool) -> Callable[[Job, float, float, int], object]:
    """Return a key function that remembers in which order matrices were first seen.

    A job without a matrix is a matrix of its own.
    """
    released: dict[str, int] = {}
    sign = -1.0 if longest_first else 1.0

    def key(job: Job, estimate: float, at: float, serial: int) -> tuple[float, float]:
        rank = serial if job.matrix is None else released.setdefault(job.matrix, serial)
        return (float(rank), sign * estimate)

    return key
