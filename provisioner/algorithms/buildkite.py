"""Enough agents for all scheduled and running jobs, in steps (Buildkite agent scaler)."""

from __future__ import annotations

import math

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from provisioner.algorithms.sizing import (
    EARLY,
    FOREVER,
    NEVER,
    Count,
    Factor,
    Seconds,
    Share,
    Sizing,
    builders_for,
    limited,
    plan_for_size,
    rounded_up,
)


class BuildkiteMemory(Memory, frozen=True):
    """The auto-scaling group's desired size, and when it last changed in each direction."""

    #: below 0: none yet
    group: int = -1
    out_at: float = NEVER
    in_at: float = NEVER


class Buildkite(Sizing[BuildkiteMemory], frozen=True, kw_only=True):
    """The Buildkite agent scaler over an auto-scaling group (slots = agents per instance).

    required = scheduled + running
    desired  = ceil(required ÷ slots)
    if required > 0 and fewer than ``availability_threshold`` of the group's agents are there:
        desired = max(desired, group + 1), one more for an instance whose agent never comes
    if there are jobs: desired += min(ceil(required ÷ slots), instance_buffer)
    clamped to [min, max]; then growing by ceil(change * out_factor) or shrinking by
    floor(change * in_factor), each direction with its cooldown (with
    ``scale_only_after_all_events`` either event holds up both directions).

    The extra instance needs a group that has converged. The original asks the cloud; here it has
    when all its builders exist (booting included) and it did not grow for ``settle_time``; till
    then it does not shrink for being unavailable.

    With ``disable_scale_in`` agents end by themselves (the pool's idle_timeout), each with a place
    of the group: the group is then no larger than what is present or required for the jobs.

    Jobs that wait for other jobs (``waiting`` in the original) do not exist here: a job is
    submitted when it can run. Factors and cooldowns default to immediate, full steps.
    """

    remembers = BuildkiteMemory
    formula = "buildkite"
    max: Count
    availability_threshold: Share = 0.5
    settle_time: Seconds = 120.0
    instance_buffer: Count = 0
    out_factor: Factor = 1.0
    in_factor: Factor = 1.0
    out_cooldown: Seconds = 0.0
    in_cooldown: Seconds = 0.0
    scale_only_after_all_events: bool = False
    disable_scale_in: bool = False
    interval: Seconds = 10.0

    def plan(
        self, snapshot: PoolSnapshot, memory: BuildkiteMemory
    ) -> tuple[ScalingPlan, BuildkiteMemory]:
        """Take one step towards the wanted size, unless a cooldown forbids it."""
        desired, start, stop, group, out_at, in_at = plan_in_numbers(
            snapshot, self, memory.group, memory.out_at, memory.in_at
        )
        why = f"a group of {group} for {snapshot.waiting_jobs + snapshot.running_jobs} jobs"
        return ScalingPlan(desired, start, stop, why), BuildkiteMemory(group, out_at, in_at)

    def stays_until(self, snapshot: PoolSnapshot, memory: BuildkiteMemory) -> float:
        """Return when the group counts as settled, or a cooldown is over."""
        return next_change_at(snapshot, self, memory.out_at, memory.in_at)


def plan_in_numbers(
    snapshot: PoolSnapshot, options: Buildkite, group: int, out_at: float, in_at: float
) -> tuple[int, int, int, int, float, float]:
    """Return builders desired, to be started and to be stopped, and the next ``BuildkiteMemory``.

    ``group`` below 0: the group has no size yet, and begins with the pool's.
    """
    required = snapshot.waiting_jobs + snapshot.running_jobs
    instances = builders_for(required, snapshot)
    buffer = min(instances, options.instance_buffer)
    if group < 0:
        group = snapshot.present
    if options.disable_scale_in:
        group = min(group, max(snapshot.present, instances + buffer))
    group = limited(group, options)
    wanted = instances
    if required and snapshot.joined < options.availability_threshold * group:
        settled = out_at < 0.0 or snapshot.at - out_at >= options.settle_time
        wanted = max(instances, group + 1 if settled and snapshot.present >= group else group)
    change = limited(wanted + buffer, options) - group
    grew_at, shrank_at = out_at, in_at
    if options.scale_only_after_all_events:
        grew_at = shrank_at = max(out_at, in_at)
    step = 0
    if change > 0 and cooled_down(snapshot.at, grew_at, options.out_cooldown):
        step = rounded_up(change * options.out_factor)
        out_at = snapshot.at
    elif (
        change < 0
        and not options.disable_scale_in
        and cooled_down(snapshot.at, shrank_at, options.in_cooldown)
    ):
        step = math.floor(max(change * options.in_factor, -group * 1.0))
        in_at = snapshot.at
    group = limited(group + step, options)
    desired, start, stop = plan_for_size(snapshot, options, group, snapshot.joined)
    return desired, start, stop, group, out_at, in_at


def cooled_down(at: float, event_at: float, cooldown: float) -> bool:
    """Return whether an event was long enough ago."""
    return event_at < 0.0 or at - event_at >= cooldown


def next_change_at(
    snapshot: PoolSnapshot, options: Buildkite, out_at: float, in_at: float
) -> float:
    """Return when the group counts as settled, or a cooldown is over."""
    soonest = FOREVER
    for changed_at in (out_at, in_at):
        if changed_at == snapshot.at:
            return snapshot.at  # it tried to change the group just now, and does so again
        if changed_at >= 0.0:
            for span in (options.settle_time, options.out_cooldown, options.in_cooldown):
                if changed_at + span + EARLY >= snapshot.at:
                    soonest = min(soonest, changed_at + span - EARLY)
    return soonest
