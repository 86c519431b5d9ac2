"""Whether a pool's twin is to be believed, in one sentence with its figures."""

from __future__ import annotations

from collections.abc import Sequence

from farm.results.formatting import readable_span
from farm.twin.baseline import Check
from farm.twin.flags import Flag

ENOUGH = 20
"""Jobs that each half must have."""
LOSSES = 16
"""Draws of random losses with which a twin is checked."""
HARMLESS = ("lost attempts", "never saturated")
"""Flags that say nothing against the waits."""


def verdict_of(found: Check | None, flags: Sequence[Flag]) -> tuple[bool, str]:
    """Return whether a pool's twin is believable, and why or why not.

    ``found`` is None where there are too few jobs to check it.
    """
    because = "; ".join(one.text for one in flags)
    if found is None:
        return False, f"not believable: too few jobs to check ({ENOUGH} in each half are needed)"
    spans = (found.simulated_mean, found.recorded_mean, found.simulated_p95, found.recorded_p95)
    mean, recorded_mean, p95, recorded_p95 = map(readable_span, spans)
    says = (
        f"mean wait {mean} where {recorded_mean} was recorded, p95 {p95} where {recorded_p95} was"
    )
    if (draws := found.drawn_mean) is not None:
        low, high = readable_span(draws.low), readable_span(draws.high)
        says += f" ({low} to {high} on average in {LOSSES} draws of the losses)"
    blocking = [one for one in flags if one.kind not in HARMLESS and not one.small]
    if found.believable and not blocking:
        return True, says + (f"; {because}" if because else "")
    return False, f"not believable: {because or says}" + (f" ({says})" if because else "")
