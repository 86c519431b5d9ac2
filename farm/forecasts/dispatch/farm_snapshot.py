"""From the farm's snapshot to what the estimator sees."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from farm.core import snapshot as farm
from farm.core.model import Platform
from farm.forecasts.dispatch.view import BuilderView, FarmView, JobStatus, JobView

_STATUS: dict[str, JobStatus] = {
    "arriving": "waiting",
    "waiting": "waiting",
    "dispatched": "running",
    "running": "running",
    "cancelling": "cancelling",
}


def view_of(snapshot: farm.FarmSnapshot) -> FarmView:
    """Return a snapshot as the estimator sees it.

    Waiting jobs count with the estimate that the policy ordered by, running ones with what is
    expected on their builder. A builder that drains, or is broken, counts as disabled. A follower
    adds no work; while the job that executes for it runs, it is not in the view.
    """
    leads = [v for v in snapshot.running if v.leader is None]
    queue = list(dispatch_order(snapshot.waiting))
    views = tuple(_builder(view) for view in snapshot.builders)
    jobs = (*(_job(view, snapshot.at) for view in leads), *(_job(v, snapshot.at) for v in queue))
    return FarmView(views, jobs, tuple(view.serial for view in queue))


def dispatch_order(waiting: Sequence[farm.JobView]) -> Iterator[farm.JobView]:
    """Yield waiting jobs as they would be dispatched: always the best head of all platforms.

    ``waiting`` is in dispatch order platform by platform, as a snapshot has it.
    """
    lanes: dict[Platform, list[farm.JobView]] = {}
    for platform, views in groupby(waiting, key=lambda view: view.job.platform.normalised()):
        lanes.setdefault(platform, []).extend(views)
    return merged(lanes.values())


def merged(lanes: Iterable[Sequence[farm.JobView]]) -> Iterator[farm.JobView]:
    """Merge queues by the keys of their heads."""
    queues = [lane for lane in lanes if lane]
    if len(queues) == 1:
        return iter(queues[0])
    return heapq.merge(*queues, key=lambda view: plain_key(view.key))


def plain_key(key: Any) -> Any:
    """Return a sort key as it was before it went through JSON: lists are tuples."""
    return tuple(plain_key(part) for part in key) if isinstance(key, list | tuple) else key


def _builder(view: farm.BuilderView) -> BuilderView:
    builder = view.builder
    usable = builder.takes_jobs and not view.draining and not view.retired
    return BuilderView(
        builder.id, builder.processors, builder.virtualized, ok=usable, slots=builder.slots
    )


def _job(view: farm.JobView, at: float) -> JobView:
    job = view.job
    since = view.started_at if view.started_at is not None else view.dispatched_at
    on = view.builder
    expected = view.estimated_time if view.expected_time is None else view.expected_time
    return JobView(
        id=view.serial,
        name=job.id,
        processor=job.platform.processor,
        virtualized=job.platform.virtualized,
        score=job.score,
        # one that shares another's execution adds no work
        duration_s=expected if view.leader is None else None,
        status=_STATUS[view.status],
        builder=on,
        elapsed_s=max(0.0, at - since) if on is not None and since is not None else None,
    )
