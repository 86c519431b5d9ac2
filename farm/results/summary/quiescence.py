"""Whether a farm came to rest in the ramp-down: what was open, and who was there, at its end."""

from __future__ import annotations

import msgspec

from farm.results.json_names import door_name
from farm.results.summary.builder_time import attempts
from farm.results.summary.records import RunRecords


class Quiescence(msgspec.Struct, frozen=True, rename=door_name):
    """The farm at the instant at which its last phase ended, and how long jobs went on after it."""

    #: jobs that waited or ran
    open_jobs: int
    builders: int
    busy_builders: int
    #: from the last phase's end to the last job's
    beyond_time: float


def quiescence(records: RunRecords, ends_at: float) -> Quiescence:
    """Return how the farm stood at that instant."""
    open_jobs = [end for end in records.ends if end.submitted_at <= ends_at < end.finished_at]
    last_at = max((end.finished_at for end in records.ends), default=ends_at)
    return Quiescence(
        open_jobs=len(open_jobs) + sum(at <= ends_at for _, at in records.unended()),
        builders=sum(_holds(span.joined_at, span.gone_at, ends_at) for span in records.builders),
        busy_builders=len(
            {b for b, _, began, over in attempts(records) if began <= ends_at < over}
        ),
        beyond_time=max(0.0, last_at - ends_at),
    )


def _holds(begin: float | None, end: float | None, at: float) -> bool:
    return begin is not None and begin <= at and (end is None or end > at)
