"""Shares equal parts of jobs, because a million waiting jobs have many in common."""

from __future__ import annotations

import sys

import msgspec

from farm.core.model import Job, Platform

NO_ATTRIBUTES: dict[str, str] = {}
"""The attributes of every job without attributes; attributes are never modified."""


def share_parts(job: Job, platform: Platform) -> None:
    """Let a job that was decoded just now have the very objects that others have.

    Its value does not change, and it is not shared yet. ``platform`` equals the job's.
    """
    force = msgspec.structs.force_setattr
    force(job, "platform", platform)
    force(job, "kind", sys.intern(job.kind))
    if job.matrix is not None:
        force(job, "matrix", sys.intern(job.matrix))
    if not job.attributes:
        force(job, "attributes", NO_ATTRIBUTES)
