"""Converts the scheduler's state, or a snapshot of it, to the estimator's input."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import chain

from farm.core.model import Platform
from farm.core.state.snapshot import BuilderRecord, FarmSnapshot, JobRecord
from farm.core.state.working_state import BuilderState, JobLife
from farm.core.state.working_state import JobStatus as Status
from farm.forecasts.dispatch.view import BuilderView, FarmView, JobStatus, JobView

#: a job that is being sent to a builder holds its slot like a running one
_STATUS: dict[Status, JobStatus] = {
    Status.ARRIVING: "waiting",
    Status.WAITING: "waiting",
    Status.DISPATCHED: "running",
    Status.RUNNING: "running",
    Status.CANCELLING: "cancelling",
}


def view_of(snapshot: FarmSnapshot) -> FarmView:
    """Convert a snapshot.

    Waiting jobs have the estimate that the policy sorted by, running ones the expected run time on
    their builder. A draining or failed builder counts as disabled, one that runs the last jobs of
    its ``uses`` does not: another takes its place. A follower adds no work; while its leader is
    running, it is not in the view.
    """
    leads = [record for record in snapshot.running if record.leader is None]
    queue = list(_dispatch_order(snapshot))
    builders = tuple(map(builder_view, snapshot.builders))
    jobs = tuple(_job(record, snapshot.at) for record in (*leads, *queue))
    return FarmView(builders, jobs, tuple(record.serial for record in queue))


def _dispatch_order(snapshot: FarmSnapshot) -> Iterator[JobRecord]:
    """Yield waiting jobs in the order of dispatch: always the best head of all lanes.

    A snapshot has them in dispatch order lane by lane, those that share an execution together.
    """
    # heavy-light has two lanes for a platform; splitting one plain queue would change nothing
    by_weight = not snapshot.trees or any(heavy for _, heavy, _ in snapshot.trees)
    lanes: dict[tuple[Platform, bool], list[list[JobRecord]]] = {}
    lane: list[list[JobRecord]] = []
    for record in snapshot.waiting:
        if lane and record.leader is not None:
            lane[-1].append(record)
            continue
        job = record.job
        lane = lanes.setdefault((job.platform.normalised(), by_weight and job.heavy), [])
        lane.append([record])
    executions = heapq.merge(*lanes.values(), key=lambda records: records[0].key)
    return chain.from_iterable(executions)


def builder_view(life: BuilderState | BuilderRecord) -> BuilderView:
    """Convert one builder."""
    builder, last = life.builder, life.used_up and life.busy > 0
    return BuilderView(
        builder.id,
        builder.processors,
        builder.virtualized,
        ok=life.takes_jobs or last,
        slots=life.busy if last else builder.slots,
    )


def job_view(life: JobLife, builder: str | None, duration_s: float | None, at: float) -> JobView:
    """Convert one live job.

    Elapsed time counts from the start, or from the dispatch while the start is unconfirmed.
    """
    job, since = life.job, life.began_at
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
    # a follower adds no work
    duration = expected if record.leader is None else None
    return job_view(record, record.builder, duration, at)
