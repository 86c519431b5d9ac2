"""Whether a farm came to rest in the ramp-down: open jobs and present builders at its end."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from farm.core.json_names import json_name
from farm.core.model import Job
from farm.results.summary.columns import Columns


class Quiescence(msgspec.Struct, frozen=True, rename=json_name):
    """The farm at the end of its last phase, and how long jobs continued after it."""

    #: jobs that were waiting or running
    open_jobs: int
    builders: int
    busy_builders: int
    #: from the last phase's end to the last job's
    beyond_time: float


def quiescence(
    columns: Columns, unended: Iterable[tuple[Job, float]], ends_at: float
) -> Quiescence:
    """Return the farm's state at that instant; ``unended``: jobs, with their submission."""
    ends, spans, held = columns.ends, columns.spans, columns.attempts
    open_jobs = (ends.arrived_at <= ends_at) & (ends_at < ends.finished_at)
    there = (spans.joined_at <= ends_at) & ~(spans.gone_at <= ends_at)
    busy = (held.dispatched_at <= ends_at) & (ends_at < held.ended_at)
    last_at = float(ends.finished_at.max(initial=ends_at))
    return Quiescence(
        open_jobs=int(open_jobs.sum()) + sum(at <= ends_at for _, at in unended),
        builders=int(there.sum()),
        busy_builders=len(np.unique(held.builder[busy])),
        beyond_time=max(0.0, last_at - ends_at),
    )
