"""A provisioner's decision on a pool, turned into facts: the same in one process and in two."""

from __future__ import annotations

from farm.core import events
from farm.core.pools.retirement import builders_to_stop, pattern_of
from farm.core.scheduler import Scheduler
from farm.live.wire.messages import Plan
from farm.live.world import LiveWorld


def carry_out(plan: Plan, world: LiveWorld, scheduler: Scheduler, *, outside: bool) -> None:
    """Record the plan, ask for the builders that are to come, drain those that are to go.

    ``outside``: hosts of their own will play the new builders.
    """
    at = world.clock.now()
    world.intake.facts.append(
        events.PoolPlanned(
            at, plan.pool, plan.desired, plan.booting + plan.start, plan.joined, plan.waiting
        )
    )
    for _ in range(plan.start):
        world.request_builder(plan.pool, outside=outside)
    if plan.stop:
        for name in builders_to_stop(scheduler.builders.values(), plan.pool, plan.stop):
            world.intake.facts.append(events.DrainRequested(at, pattern_of(name), retire=True))
