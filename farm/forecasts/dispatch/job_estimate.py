"""One job's estimate, with all of its arithmetic.

The formula (Launchpad, "Dispatch time estimation"): the jobs ahead of the job of interest that
compete with it for builders are grouped by platform; each group takes the sum of its estimated
run times ÷ min(jobs in the group, builders of the group's platform); the groups' times are added
up (predecessor lead time, PLT), as is the time until the head job gets a builder (time to next
builder, TNB).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from farm.core.model import Platform
from farm.forecasts.dispatch.builder_pools import NextBuilder
from farm.forecasts.dispatch.launchpad_formula import QueueEstimates
from farm.forecasts.dispatch.view import JobView


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
    #: the jobs ahead that compete with it
    groups: tuple[PredecessorGroup, ...]
    #: usable builders (slots), busy or free, that can run it
    pool_for_job: int
    head_job: str
    head_platform: Platform
    #: for the head job
    next_builder: NextBuilder
    plt_s: float
    #: None: no builder can run it
    estimate_s: float | None

    @property
    def predecessors(self) -> int:
        """The number of competing jobs ahead."""
        return sum(group.jobs for group in self.groups)


def estimate_at(jobs: Sequence[JobView], queue: QueueEstimates, place: int) -> DispatchEstimate:
    """Return the estimate of the job at a place of the queue; ``jobs`` are in dispatch order."""
    job, rules, pools = jobs[place], queue.rules, queue.builder_pools
    rivals = queue.rivals(job.platform)
    groups = tuple(_groups_ahead(queue, job.platform, place))
    first = rules.head_place(place, (int(rival.positions[0]) for rival in rivals))
    head = jobs[first]
    next_builder = pools.next_builder(head.platform)
    pool = pools.pool_for_job(job.platform)
    lead_time = sum((group.lead_time_s for group in groups), 0.0)
    return DispatchEstimate(
        job=job.name,
        groups=groups,
        pool_for_job=pool,
        head_job=head.name,
        head_platform=rules.head_shown(head.platform, own=head is job),
        next_builder=next_builder,
        plt_s=lead_time,
        estimate_s=max(rules.floor_s, next_builder.tnb_s + lead_time) if pool else None,
    )


def _groups_ahead(
    queue: QueueEstimates, platform: Platform, place: int
) -> Iterator[PredecessorGroup]:
    for rival in queue.rivals(platform):
        ahead = int(np.searchsorted(rival.positions, place))
        if ahead:
            pool = queue.builder_pools.group_pool(rival.platform)
            total, lead_time = float(rival.sums[ahead - 1]), float(rival.quotients[ahead])
            divisor = min(ahead, pool)
            yield PredecessorGroup(rival.platform, ahead, total, pool, divisor, lead_time)
