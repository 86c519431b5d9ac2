"""Runners that there always is one of: how long they take to start, and whether there is a limit.

Hosted runners (and ephemeral ones of which no limit shows) are servers without a queue: a job
starts after a delay that does not depend on how many others run. A plan's limit shows where jobs
that met as many as ever ran at once waited longer than the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from farm.records.attempt import Attempt
from farm.records.runners import most_at_once
from farm.results.table.columns import Floats

ENOUGH = 10
"""Jobs from which a limit shows."""
LONGER, RESOLUTION = 2.0, 1.0
"""Times as long as the others' from which the waits at a limit differ, and seconds that count."""
VALUES = 40
"""Delays that stand for all: each is the mean of as many, so that their mean is the recorded."""


def meets_limit(attempts: Sequence[Attempt]) -> bool:
    """Return whether jobs waited longer when as many as ever ran at once were there already."""
    waits, at_limit = _waits(attempts)
    if min(at_limit.sum(), (~at_limit).sum()) < ENOUGH:
        return False
    usual = max(RESOLUTION, float(np.median(waits[~at_limit])))
    return float(np.median(waits[at_limit])) > LONGER * usual


def start_delays(attempts: Sequence[Attempt], *, limited: bool) -> tuple[float, ...]:
    """Return delays that stand for those recorded, each equally likely, ascending (s).

    They are of the first half: the other is to check them. With a limit those count that met none.
    """
    waits, at_limit = _waits(attempts)
    first = np.arange(len(waits)) < len(waits) / 2
    some = waits[first & ~at_limit] if limited else waits[first]
    if not len(some):
        some = waits
    parts = np.array_split(np.sort(some), min(VALUES, len(some)))
    return tuple(round(float(part.mean()), 1) for part in parts)


def _waits(attempts: Sequence[Attempt]) -> tuple[Floats, np.ndarray]:
    """Return the waits by arrival, and which jobs met as many as ever ran at once."""
    times = [(o.eligible_at or 0.0, o.started_at or 0.0, o.finished_at or 0.0) for o in attempts]
    eligible, started, finished = np.array(sorted(times)).T
    most = most_at_once(zip(started.tolist(), finished.tolist(), strict=True), RESOLUTION)
    # those that arrived before and have not ended
    met = np.arange(len(eligible)) - np.searchsorted(np.sort(finished), eligible, side="right")
    return started - eligible, met >= most
