"""``bundle``: the attempts that ran on another farm (``farm import SOURCE``), each as a job.

A job arrives when it could start there, and runs as long as it ran there; its platform is the
labels that it asked for. Attempts that never started, or did not end, are left out. The first one
arrives at 0.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from farm.core.errors import TraceError
from farm.core.model import Platform
from farm.records.attempt import Attempt
from farm.records.bundle import read_bundle
from farm.records.coded import columns_of
from farm.records.traces.records import Happened, Records


def read(path: Path) -> Records:
    """Return the attempts that ran; TraceError names the file that is wrong."""
    found = read_bundle(path).attempts
    ran = [one for one in found if one.ran is not None]
    if not ran:
        raise TraceError(f"{path}: found no attempt that ran; allowed: at least one")
    left_out = {"of attempts that never ran, or did not end": len(found) - len(ran)}
    return records_of(ran, left_out)


def records_of(ran: list[Attempt], left_out: dict[str, int]) -> Records:
    """Return attempts, each of which ran, as the jobs of a trace."""
    platforms = {name: Platform(processor=name) for name in {one.platform for one in ran} if name}
    arrived = np.array([one.arrived_at for one in ran])
    return Records(
        arrived - arrived.min(),
        np.array([one.ran for one in ran], float),
        [one.id for one in ran],
        columns_of([_details(one, platforms) for one in ran]),
        left_out={why: count for why, count in left_out.items() if count},
        happened=Happened.of(ran),
    )


def _details(one: Attempt, platforms: dict[str, Platform]) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if one.platform:
        details["platform"] = platforms[one.platform]
    if one.kind:
        details["kind"] = one.kind
    if one.matrix:
        details["matrix"] = one.matrix
    if traits := one.traits:
        details["attributes"] = traits
        if one.level:
            details["level"] = one.level
    if one.result == "failed":
        details["fails"] = True
    return details
