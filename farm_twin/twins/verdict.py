"""Whether a pool's twin is to be believed, in one sentence with its figures."""

from __future__ import annotations

from collections.abc import Sequence

from farm.results.formatting import readable_percent, readable_span
from farm_twin.twins.baseline import Check
from farm_twin.twins.flags import Flag

ENOUGH = 20
"""Jobs that each half must have."""
REPETITIONS = 16
"""Simulations with which a twin is checked whose waits hang on chance, or on a second."""
HARMLESS = ("lost attempts", "never saturated")
"""Flags that say nothing against the waits."""
ON_AVERAGE = "on average, not job by job"


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
        f"mean wait {mean} where {recorded_mean} was recorded, p95 {p95} where {recorded_p95} was, "
        f"{readable_span(found.error_per_job.value)} off per job"
    )
    if found.recorded_mean:
        says += f", {readable_percent(found.share_per_job)} of the mean"
    if found.drawn_mean is not None and found.drawn_per_job is not None:
        low, high = readable_span(found.drawn_mean.low), readable_span(found.drawn_mean.high)
        apart = readable_span(found.drawn_per_job.high)
        says += (
            f" ({REPETITIONS} repetitions of the twin: {low} to {high}, "
            f"up to {apart} off each other per job)"
        )
    blocking = [one for one in flags if one.kind not in HARMLESS and not one.small]
    if found.on_average and (found.job_by_job or found.like_a_repetition) and not blocking:
        lead = "" if found.job_by_job else f"{ON_AVERAGE}: "
        return True, lead + says + (f"; {because}" if because else "")
    return False, f"not believable: {because or says}" + (f" ({says})" if because else "")
