"""Fail-fast: the time saved by cancelling the rest of a matrix."""

from __future__ import annotations

import numpy as np

from farm.core.model import Cause
from farm.results.summary.columns import Columns
from farm.results.summary.ends import CAUSES, Ends, total


def time_saved(ends: Ends, columns: Columns) -> float:
    """Return the slot time that fail-fast saved, seconds.

    For a job cancelled while waiting, its whole service time; for one stopped while running, what
    was left of it on its builder, without contention.
    """
    spared = ends.taken(ends.cause == CAUSES[Cause.FAIL_FAST])
    speeds = np.ones(len(columns.pool_of))
    speeds[columns.spans.builder] = columns.spans.speed
    ran = spared.finished_at - spared.started_at
    left = np.maximum(0.0, spared.service_time / speeds[spared.builder] - ran)
    return total(np.where(np.isnan(ran), spared.service_time, left))
