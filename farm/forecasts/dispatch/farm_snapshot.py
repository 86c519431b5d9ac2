"""From the scheduler's memory, or a snapshot of it, to what the estimator sees."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import groupby

from farm.core.model import Platform
from farm.core.snapshot import FarmSnapshot, JobRecord
from farm.core.state import BuilderLife, JobLife
from farm.core.state import JobStatus as Status
from farm.forecasts.dispatch.view import BuilderView, FarmView, JobStatus, JobView

#: a job on its way to a builder holds its slot just as one that runs
_STATUS: dict[Status, JobStatus] = {
    Status.ARRIVING: "waiting",
    Status.WAITING: "waiting",
    Status.DISPATCHED: "running",
    Status.RUNNING: "running",
    Status.CANCELLING: "cancelling",
}


def view_of(snapshot: FarmSnapshot) -> FarmView:
    """Return a snapshot as the estimator sees it.

    Waiting jobs count with the estimate that the policy ordered by, running ones with what is
    expected on their builder. A builder that drains, or is broken, counts as disabled. A follower
    adds no work; while the job that executes for it runs, it is not in the view.
    """
    leads = [record for record in snapshot.running if record.leader is None]
    queue = list(_dispatch_order(snapshot.waiting))
    builders = tuple(map(builder_view, snapshot.builders))
    jobs = tuple(_job(record, snapshot.at) for record in (*leads, *queue))
    return FarmView(builders, jobs, tuple(record.serial for record in queue))


def _dispatch_order(waiting: Sequence[JobRecord]) -> Iterator[JobRecord]:
    """Yield waiting jobs as they would be dispatched: always the best head of all platforms.

    ``waiting`` is in dispatch order platform by platform, as a snapshot has it.
    """
    lanes: dict[Platform, list[JobRecord]] = {}
    for platform, records in groupby(waiting, key=lambda record: record.job.platform.normalised()):
        lanes.setdefault(platform, []).extend(records)
    if len(lanes) == 1:
        return iter(*lanes.values())
    return heapq.merge(*lanes.values(), key=lambda record: record.key)


def builder_view(life: BuilderLife) -> BuilderView:
    """Return one builder as the estimator sees it."""
    builder = life.builder
    return BuilderView(
        builder.id,
        builder.processors,
        builder.virtualized,
        ok=life.takes_jobs,
        slots=builder.slots,
    )


def job_view(life: JobLife, builder: str | None, duration_s: float | None, at: float) -> JobView:
    """Return one live job as the estimator sees it.

    Elapsed time counts from the start, or from the dispatch while the start is unconfirmed.
    """
    job = life.job
    since = life.started_at if life.started_at is not None else life.dispatched_at
    return JobView(
        id=life.serial,
        name=job.id,
        processor=job.platform.processor,
        virtualized=job.platform.virtualized,
        score=job.score,
        duration_s=duration_s,
        status=_STATUS[life.status],
        builder=builder,
        elapsed_s=max(0.0, at - since) if builder is not None and since is not None else None,
    )


def _job(record: JobRecord, at: float) -> JobView:
    expected = record.execution[0] if record.expected_time is None else record.expected_time
    # one that shares another's execution adds no work
    duration = expected if record.leader is None else None
    return job_view(record, record.builder, duration, at)
