"""Shortest job first, by estimated run time."""

from __future__ import annotations

from farm.core.model import Job


def key(job: Job, estimate: float, at: float, serial: int) -> float:
    """Return the estimate."""
    return estimate
