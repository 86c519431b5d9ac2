"""``bundle``: the attempts that ran on another farm (``farm import SOURCE``), each as a job.

A job arrives when it could start there, and runs as long as it ran there; its platform is the
labels that it asked for (``UNLABELLED``, if it asked for none and others did). Attempts that never
started, or did not end, are left out. The first one arrives at 0.
"""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import numpy as np
from msgspec import UNSET

from farm.core.errors import TraceError
from farm.core.model import Platform
from farm.records.attempt import Attempt, Happened, times_of
from farm.records.bundle import read_bundle
from farm.records.coded import Coded, combined
from farm.records.traces.records import Records

UNLABELLED = "unlabelled"
"""The platform of jobs that asked for no label, where others did."""


def read(path: Path) -> Records:
    """Return the attempts that ran; TraceError names the file that is wrong."""
    return records_of(*that_ran(path))


def that_ran(path: Path) -> tuple[list[Attempt], dict[str, int]]:
    """Return the attempts of a bundle that ran, and how many did not; TraceError as for reading."""
    found = read_bundle(path).attempts
    ran = [one for one in found if one.started_at is not None and one.finished_at is not None]
    if not ran:
        raise TraceError(f"{path}: found no attempt that ran; allowed: at least one")
    return ran, {"of attempts that never ran, or did not end": len(found) - len(ran)}


def records_of(ran: list[Attempt], left_out: dict[str, int]) -> Records:
    """Return attempts, each of which ran, as the jobs of a trace."""
    happened = Happened.of(ran)
    eligible = times_of(ran, "eligible_at")
    arrived = np.where(np.isnan(eligible), times_of(ran, "submitted_at"), eligible)
    return Records(
        arrived - arrived.min(),
        happened.ran,
        [one.id for one in ran],
        _details(ran),
        left_out={why: count for why, count in left_out.items() if count},
        happened=happened,
    )


def _details(ran: list[Attempt]) -> dict[str, Coded]:
    """Return the further fields of the jobs; what is empty says nothing."""

    def of(name: str) -> Coded:
        return Coded.of(list(map(attrgetter(name), ran)))

    platform, result = of("platform"), of("result")
    unlabelled = Platform(UNLABELLED) if any(platform.values) else ""
    firsts, codes = combined([of("user"), of("attributes")], len(ran))
    each = [ran[first] for first in firsts.tolist()]
    columns = {
        "platform": platform._replace(
            values=[Platform(one) if one else unlabelled for one in platform.values]
        ),
        "kind": of("kind"),
        "matrix": of("matrix"),
        "attributes": Coded(codes, [one.traits for one in each]),
        "level": Coded(codes, [one.level for one in each]),
        "fails": result._replace(values=[one == "failed" for one in result.values]),
    }
    return {
        field: column._replace(values=[value or UNSET for value in column.values])
        for field, column in columns.items()
        if any(column.values)
    }
