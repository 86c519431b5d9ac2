"""Buildbarn's own order: priority, then longest expected run time, then age."""

from __future__ import annotations

from farm.core.model import Job


def key(job: Job, estimate: float, at: float, serial: int) -> tuple[float, float, float]:
    """Return (priority, -estimate, instant of submission)."""
    return (job.priority, -estimate, at)
