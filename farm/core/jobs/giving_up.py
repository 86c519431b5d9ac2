"""Why jobs are given up: too many void attempts, failures, no builder for their platform."""

from __future__ import annotations

from collections.abc import Sequence

from farm.core.model import Platform


def why_given_up(reason: str, losses: int, retries: int, lost_under: Sequence[str] = ()) -> str:
    """Return why a job whose attempt was lost is not retried.

    ``lost_under``: the builders that were lost while running it, if those are too many.
    """
    if lost_under:
        return f"{reason} (builders lost under it: {', '.join(lost_under)})"
    return f"{reason} (attempt {losses} of {1 + retries})"


def why_blamed(reason: str, job_failures: int, builder_failures: int) -> str:
    """Return why a failed attempt was judged as it was."""
    counts = f"failures: job {job_failures}, builder {builder_failures}"
    return f"{reason or 'the attempt failed'} ({counts})"


def why_unserved(platform: Platform, grace: float) -> str:
    """Return why the jobs of a platform failed that had no builder for a grace period (s)."""
    return f"no builder for {platform} was there for {grace:g}s"
