"""Enough agents for all scheduled and running jobs, in steps (Buildkite agent scaler)."""

from __future__ import annotations

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from farm.core.pools.formulas import buildkite
from provisioner.algorithms.sizing import NEVER, Count, Factor, Seconds, Share, Sizing


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
        group, out_at, in_at = memory.group, memory.out_at, memory.in_at
        desired, start, stop, group, out_at, in_at = buildkite.plan(
            snapshot, self, group, out_at, in_at
        )
        why = f"a group of {group} for {snapshot.waiting_jobs + snapshot.running_jobs} jobs"
        return ScalingPlan(desired, start, stop, why), BuildkiteMemory(group, out_at, in_at)

    def stays_until(self, snapshot: PoolSnapshot, memory: BuildkiteMemory) -> float:
        """Return when the group counts as settled, or a cooldown is over."""
        found: float = buildkite.stays_until(snapshot, self, memory.out_at, memory.in_at)
        return found
