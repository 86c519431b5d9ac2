"""What the scheduler answers on how long a job runs: its range, and a declared time unlike that."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

from farm.core.model import Builder
from farm.core.scheduler import Scheduler
from farm.core.state.working_state import JobState
from farm.forecasts.runtime.interface import RunTimeRange
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.forecasts.runtime.run_time_range import (
    MAX_RUNNING,
    RunningAttempt,
    range_of,
)


def run_time_fields(
    state: JobState, scheduler: Scheduler, at: float, builder: Builder | None, elapsed: float
) -> dict[str, object]:
    """Return the fields of ``Waiting`` on a job's run time; none where too few runs are known.

    Args:
        state: the job, or the one whose execution serves it.
        scheduler: whose estimator knows past runs.
        at: the present instant.
        builder: on which it runs; None: it does not.
        elapsed: for how long it has run there.
    """
    learned = scheduler.estimator
    if not isinstance(learned, RuntimeDistribution):
        return {}
    job = state.job
    running = list(islice(_running(scheduler, at), MAX_RUNNING))
    found = range_of(learned, job, running=running, at=at)
    fields: dict[str, object] = {}
    declared = job.declared_time
    if found is not None and declared is not None and not found.low <= declared <= found.high:
        # the middle of what ran: the estimate may be the declared time itself
        middle = math.sqrt(found.low * found.high)
        fields |= {"unlike_declared": declared, "kind_time": middle}
        # it weighs in for the job that says it
        found = RunTimeRange(min(found.low, declared), max(found.high, declared))
    fields["run_time_range"] = found
    if builder is not None:
        fields["remaining_range"] = range_of(
            learned, job, builder, elapsed=elapsed, running=running, at=at
        )
    return fields


def _running(scheduler: Scheduler, at: float) -> Iterator[RunningAttempt]:
    for builder in scheduler.builders.values():
        if not builder.busy:
            continue
        for slot in builder.slots:
            state = slot.running
            if state is not None and state.started_at is not None:
                began = state.started_at
                yield RunningAttempt(state.job, builder.builder, began, max(0.0, at - began))
