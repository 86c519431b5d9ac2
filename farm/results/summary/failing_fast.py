"""Failing fast: what cancelling the rest of a matrix saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from farm.core.commands import EndJob
from farm.core.model import Cause
from farm.results.summary.records import RunRecords


def time_saved(ends: Iterable[EndJob], speeds: Mapping[str, float]) -> float:
    """Return the slot time that fail-fast spared the builders, seconds.

    Of a job cancelled while it waited its whole service time; of one stopped while it ran what
    was left of it on its builder, as if nothing else had slowed it. ``speeds`` by builder.
    """
    saved = 0.0
    for end in ends:
        if end.cause is not Cause.FAIL_FAST:
            continue
        if end.started_at is None:
            saved += end.job.service_time
        else:
            speed = speeds.get(end.builder or "", 1.0)
            ran = end.finished_at - end.started_at
            saved += max(0.0, end.job.service_time / speed - ran)
    return saved


def speeds_of(records: RunRecords) -> dict[str, float]:
    """Return the speed of each builder that was there."""
    return {span.builder: span.speed for span in records.builders}
