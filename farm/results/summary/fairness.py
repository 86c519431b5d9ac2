"""How evenly the farm served those who share it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def jain_index(shares: Sequence[float]) -> float:
    """Return Jain's fairness index (Σx)² ÷ (n·Σx²): 1 is even, 1/n is all to one.

    Source: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness", DEC TR-301 (1984). It is 1.0
    for no shares, for one, and where all are zero.
    """
    squares = sum(share * share for share in shares)
    if not shares or squares == 0.0:
        return 1.0
    total = sum(shares)
    return total * total / (len(shares) * squares)


def fairness_index(stretches: Iterable[tuple[str, float]]) -> float:
    """Return Jain's index over each party's mean stretch, from (party, stretch of a job) pairs."""
    sums: dict[str, tuple[float, int]] = {}
    for party, stretch in stretches:
        total, count = sums.get(party, (0.0, 0))
        sums[party] = (total + stretch, count + 1)
    return jain_index([total / count for total, count in sums.values()])
