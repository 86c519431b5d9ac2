"""Launchpad's score: the higher score first, then the earlier job."""

from __future__ import annotations

from farm.core.model import Job


def key(job: Job, estimate: float, at: float, serial: int) -> float:
    """Return the negated score."""
    return -job.score
