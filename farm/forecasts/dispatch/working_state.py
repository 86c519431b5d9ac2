"""From the scheduler's working memory to what the estimator sees."""

from __future__ import annotations

from collections.abc import Iterable

from farm.core.state import BuilderState, JobState
from farm.core.state import JobStatus as State
from farm.forecasts.dispatch.view import BuilderView, FarmView, JobStatus, JobView

#: a job on its way to a builder holds its slot just as one that runs
_STATUS: dict[State, JobStatus] = {
    State.ARRIVING: "waiting",
    State.WAITING: "waiting",
    State.DISPATCHED: "running",
    State.RUNNING: "running",
    State.CANCELLING: "cancelling",
}


def farm_view(builders: Iterable[BuilderState], waiting: Iterable[JobState], at: float) -> FarmView:
    """Return the farm as the estimator sees it; ``waiting`` is in dispatch order.

    A builder that drains counts as disabled. Durations are the estimates that the policy ordered
    by, elapsed time counts from the start, or from the dispatch while the start is unconfirmed.
    """
    builders = list(builders)
    queue = [job_view(state, at) for state in waiting]
    held = held_jobs(builders, at)
    views = tuple(builder_view(state) for state in builders)
    return FarmView(views, (*held, *queue), tuple(job.id for job in queue))


def held_jobs(builders: Iterable[BuilderState], at: float) -> list[JobView]:
    """Return the jobs that hold a slot, in the order of builders and slots."""
    return [
        job_view(slot.running, at)
        for state in builders
        for slot in state.slots
        if slot.running is not None
    ]


def builder_view(state: BuilderState) -> BuilderView:
    """Return one builder as the estimator sees it."""
    builder = state.builder
    return BuilderView(
        builder.id,
        builder.processors,
        builder.virtualized,
        ok=state.accepts,
        slots=builder.slots,
    )


def job_view(state: JobState, at: float) -> JobView:
    """Return one live job as the estimator sees it."""
    since = state.started_at if state.started_at is not None else state.dispatched_at
    holds = state.slot is not None
    platform = state.job.platform
    return JobView(
        id=state.serial,
        name=state.job.id,
        processor=platform.processor,
        virtualized=platform.virtualized,
        score=state.job.score,
        duration_s=state.estimated_time,
        status=_STATUS[state.status],
        builder=state.slot.builder.builder.id if state.slot else None,
        elapsed_s=at - since if holds and since is not None else None,
    )
