"""One figure from several results of the same job."""

from __future__ import annotations

from collections.abc import Sequence

from farm.upstream.boinc.claims import Claim
from farm.upstream.boinc.division import ratio


def pegged_average(values: Sequence[float], anchor: float) -> float:
    """Return the mean weighted by nearness to the anchor: 1 ÷ (0.1 anchor + |anchor - x|)."""
    if len(values) == 1:
        return values[0]
    weights = [ratio(1.0, 0.1 * anchor + abs(anchor - value)) for value in values]
    return ratio(sum(w * value for w, value in zip(weights, values, strict=True)), sum(weights))


def low_average(values: Sequence[float]) -> float:
    """Return the mean in which each value weighs as much as the sum of the others."""
    if len(values) == 1:
        return values[0]
    total = sum(values)
    return ratio(sum(x * (total - x) for x in values), (len(values) - 1) * total)


def combined_pfc(claims: Sequence[Claim], estimate: float) -> float:
    """Return the figure that all replicas get; ``estimate`` is the anchor and the last resort.

    Two or more normal claims: those alone. One: it counts twice beside the approximate ones.
    """
    normal = [claim.pfc for claim in claims if claim.mode == "normal"]
    approx = [claim.pfc for claim in claims if claim.mode in ("approx", "estimate")]
    basis = normal if len(normal) > 1 else approx + 2 * normal
    return pegged_average(basis, estimate) if basis else estimate
