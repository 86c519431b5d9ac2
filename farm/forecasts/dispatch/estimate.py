"""One job's estimate, with all of its arithmetic.

The formula (Launchpad, "Dispatch time estimation"): the jobs ahead of the job of interest that
compete with it for builders are grouped by platform; each group takes the sum of its estimated
run times ÷ min(jobs in the group, builders of the group's platform); the groups' times are added
up (predecessor lead time, PLT), as is the time until the head job gets a builder (time to next
builder, TNB).
"""

from __future__ import annotations

import msgspec

from farm.core.errors import StateError
from farm.core.model import Platform
from farm.forecasts.dispatch.builder_pools import BuilderPools, NextBuilder
from farm.forecasts.dispatch.rules import LAUNCHPAD, Rules
from farm.forecasts.dispatch.view import FarmView, JobView


class PredecessorGroup(msgspec.Struct, frozen=True):
    """The predecessors of one platform and what they add to the lead time."""

    platform: Platform
    jobs: int
    #: sum of their estimated run times, seconds
    sum_s: float
    #: builders (slots) that can run them; 0: they are ignored
    pool: int
    #: the divisor of the sum: the smaller of jobs and pool
    divisor: int
    lead_time_s: float


class DispatchEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """When a job will be dispatched, seconds from now, and how that was computed."""

    job: str
    #: names of the jobs ahead that compete with it, in dispatch order
    predecessors: tuple[str, ...]
    #: usable builders (slots), busy or free, that can run it
    pool_for_job: int
    head_platform: Platform
    #: free builders (slots) for the head job
    free_for_head: int
    tnb_s: float
    plt_s: float
    #: None: no builder can run it
    estimate_s: float | None
    groups: tuple[PredecessorGroup, ...]
    head_job: str
    next_builder: NextBuilder

    @property
    def plt_exact_s(self) -> float:
        """Return the lead time without truncation."""
        return sum(group.sum_s / group.divisor for group in self.groups if group.divisor)


def estimate_dispatch(view: FarmView, job_id: int, rules: Rules = LAUNCHPAD) -> DispatchEstimate:
    """Estimate when one waiting job will be dispatched.

    Costs one sort of the waiting jobs; for many jobs use ``estimate_queue``. Raises StateError if
    the job is unknown or is not waiting.
    """
    job = _job_of_interest(view, job_id)
    builder_pools = BuilderPools(view.builders, view.jobs, rules)
    waiting = view.waiting()
    ahead = waiting[: next(place for place, other in enumerate(waiting) if other.id == job_id)]
    return _estimate(job, ahead, waiting[0], builder_pools, rules)


def _job_of_interest(view: FarmView, job_id: int) -> JobView:
    for job in view.jobs:
        if job.id == job_id:
            if job.status != "waiting":
                raise StateError(
                    f"job {job.name!r} is {job.status}: only a waiting job has an estimate"
                )
            return job
    raise StateError(f"no job with id {job_id}")


def _estimate(
    job: JobView, ahead: list[JobView], first: JobView, builder_pools: BuilderPools, rules: Rules
) -> DispatchEstimate:
    rivals = {(j.processor, j.virtualized): j.platform for j in ahead}
    competing = {
        key for key, platform in rivals.items() if builder_pools.competes(job.platform, platform)
    }
    predecessors = [j for j in ahead if (j.processor, j.virtualized) in competing]
    groups = _groups(predecessors, builder_pools, rules)
    head = first if rules.global_head else (predecessors or [job])[0]
    next_builder = builder_pools.next_builder(head.platform)
    pool = builder_pools.pool_for_job(job.platform)
    lead_time = sum((group.lead_time_s for group in groups), 0.0)
    total = max(rules.floor_s, next_builder.tnb_s + lead_time)
    return DispatchEstimate(
        job=job.name,
        predecessors=tuple(j.name for j in predecessors),
        pool_for_job=pool,
        head_platform=rules.head_shown(head.platform, own=head is job),
        free_for_head=next_builder.free,
        tnb_s=next_builder.tnb_s,
        plt_s=lead_time,
        estimate_s=total if pool else None,
        groups=groups,
        head_job=head.name,
        next_builder=next_builder,
    )


def _groups(
    predecessors: list[JobView], builder_pools: BuilderPools, rules: Rules
) -> tuple[PredecessorGroup, ...]:
    """Group the predecessors, in order of first appearance (the order in which they are added)."""
    # sums are kept per platform as written, because that is where whole seconds are rounded:
    # in 2010 unspecified and virtual were summed apart and added afterwards
    sums: dict[Platform, dict[Platform, float]] = {}
    counts: dict[Platform, int] = {}
    for job in predecessors:
        written = rules.shown(job.platform)
        group = written.normalised()
        parts = sums.setdefault(group, {})
        parts[written] = parts.get(written, 0.0) + (job.duration_s or 0.0)
        counts[group] = counts.get(group, 0) + 1
    return tuple(
        _group(group, counts[group], _total(parts, rules), builder_pools.group_pool(group), rules)
        for group, parts in sums.items()
    )


def _total(parts: dict[Platform, float], rules: Rules) -> float:
    # by virtualization as written, so that both ways of estimating add in one order
    ordered = (parts[key] for key in sorted(parts, key=lambda p: p.virtualized is None))
    return sum((float(round(part)) if rules.whole_seconds else part for part in ordered), 0.0)


def _group(
    platform: Platform, jobs: int, total: float, pool: int, rules: Rules
) -> PredecessorGroup:
    divisor = min(jobs, pool)
    lead_time = total / divisor if divisor else 0.0
    if rules.whole_seconds:
        lead_time = float(int(lead_time))
    return PredecessorGroup(platform, jobs, total, pool, divisor, lead_time)
