"""Enough agents for all scheduled and running jobs, in steps (Buildkite agent scaler)."""

from __future__ import annotations

import math

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan, limited
from provisioner.algorithms.sizing import (
    EARLY,
    FOREVER,
    Count,
    Factor,
    Seconds,
    Share,
    Sizing,
    builders_for,
)


class BuildkiteMemory(Memory, frozen=True):
    """The auto-scaling group's desired size, and when it last changed in each direction."""

    desired: int | None = None
    out_at: float | None = None
    in_at: float | None = None


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
        group = memory.desired if memory.desired is not None else snapshot.present
        if self.disable_scale_in:
            group = min(group, max(snapshot.present, self._for_jobs(snapshot)))
        group = limited(group, self.min, self.max)
        wanted = limited(self._wanted(snapshot, group, memory), self.min, self.max)
        step, memory = self._step(snapshot.at, wanted - group, memory)
        desired = limited(group + step, self.min, self.max)
        memory = BuildkiteMemory(desired, memory.out_at, memory.in_at)
        return self.towards(snapshot, desired, f"{wanted} wanted, {step:+d} now"), memory

    def stays_until(self, snapshot: PoolSnapshot, memory: BuildkiteMemory) -> float:
        """Return when the group counts as settled, or a cooldown is over."""
        at, spans = snapshot.at, (self.settle_time, self.out_cooldown, self.in_cooldown)
        changes = [change for change in (memory.out_at, memory.in_at) if change is not None]
        if at in changes:
            return at  # it tried to change the group just now, and does so again
        ends = [change + span for change in changes for span in spans]
        return min((end - EARLY for end in ends if end + EARLY >= at), default=FOREVER)

    def _for_jobs(self, snapshot: PoolSnapshot) -> int:
        instances = builders_for(snapshot.waiting_jobs + snapshot.running_jobs, snapshot)
        return instances + min(instances, self.instance_buffer)

    def _wanted(self, snapshot: PoolSnapshot, group: int, memory: BuildkiteMemory) -> int:
        required = snapshot.waiting_jobs + snapshot.running_jobs
        instances = builders_for(required, snapshot)
        if required and snapshot.joined < self.availability_threshold * group:
            grew_at = memory.out_at
            settled = grew_at is None or snapshot.at - grew_at >= self.settle_time
            converged = settled and snapshot.present >= group
            return max(instances, group + converged) + min(instances, self.instance_buffer)
        return self._for_jobs(snapshot)

    def _step(self, at: float, change: int, memory: BuildkiteMemory) -> tuple[int, BuildkiteMemory]:
        """Return the size after this step, and the memory of it."""
        out_at, in_at = memory.out_at, memory.in_at
        if self.scale_only_after_all_events:
            events = [event for event in (out_at, in_at) if event is not None]
            out_at = in_at = max(events, default=None)
        if change > 0 and _cool(at, out_at, self.out_cooldown):
            grown = BuildkiteMemory(memory.desired, at, memory.in_at)
            return math.ceil(change * self.out_factor), grown
        shrinks = change < 0 and not self.disable_scale_in
        if shrinks and _cool(at, in_at, self.in_cooldown):
            shrunk = BuildkiteMemory(memory.desired, memory.out_at, at)
            return math.floor(change * self.in_factor), shrunk
        return 0, memory


def _cool(at: float, event_at: float | None, cooldown: float) -> bool:
    return event_at is None or at - event_at >= cooldown
