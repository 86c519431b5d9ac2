"""Longest path first: the job on which most work hangs, by estimated run times.

The length of a path is a job's own estimate and that of the longest chain of jobs that need each
other below it, in its submission. For a job that no other needs it is its own estimate, so without
needs this is ``ljf``. Hu's rule (1961): the last stage of a pipeline does not wait for work that
was begun too late. Where pipelines come one after the other, the beginnings of later ones go before
the ends of earlier ones, whose response times suffer.
"""

from __future__ import annotations

from farm.core.model import Job


def key(job: Job, estimate: float, at: float, serial: int) -> float:
    """Return the negated length of the path, which this policy is given as the estimate."""
    return -estimate
