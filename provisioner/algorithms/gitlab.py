"""Builders in use and an idle share on top (GitLab Runner's docker-autoscaler)."""

from __future__ import annotations

import math

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from provisioner.algorithms.sizing import (
    EARLY,
    FOREVER,
    Count,
    Factor,
    Seconds,
    Sizing,
    builders_for,
)


class GitlabMemory(Memory, frozen=True):
    """Since when there are too many builders, and the throttle's bucket."""

    surplus_since: float | None = None
    #: None: full
    tokens: float | None = None
    filled_at: float = 0.0


class Gitlab(Sizing[GitlabMemory], frozen=True, kw_only=True):
    """GitLab Runner's autoscaler policy (slots = capacity_per_instance, max = max_instances).

    wanted = ceil(jobs ÷ slots) + idle: the running jobs and, unless ``preemptive_mode`` (jobs are
    then taken only into idle capacity that exists), the waiting ones.
    idle = ``idle_count``, or with a ``scale_factor`` that share of the builders in use: at most
    ``scale_factor_limit`` (0: no limit), but at least idle_count. 200 in use * 0.2 = 40 idle.

    At most ``throttle_limit`` builders a second are started on average (0: no limit), up to
    ``throttle_burst`` at once. Idle builders are stopped when there were too many for
    ``idle_time``; the original counts that time for each machine, here it counts for the pool.
    """

    remembers = GitlabMemory
    max: Count
    idle_count: Count = 0
    idle_time: Seconds = 0.0
    scale_factor: Factor = 0.0
    scale_factor_limit: Count = 0
    preemptive_mode: bool = False
    throttle_limit: Factor = 0.0
    throttle_burst: Count = 1
    interval: Seconds = 60.0

    def plan(
        self, snapshot: PoolSnapshot, memory: GitlabMemory
    ) -> tuple[ScalingPlan, GitlabMemory]:
        """Start what is missing as fast as the throttle allows; stop what idled long enough."""
        in_use = builders_for(snapshot.running_jobs, snapshot)
        waiting = 0 if self.preemptive_mode else snapshot.waiting_jobs
        idle = self.idle_wanted(in_use)
        wanted = builders_for(snapshot.running_jobs + waiting, snapshot) + idle
        plan = self.towards(snapshot, wanted, f"{in_use} in use, {idle} idle wanted", stop="idle")
        since = None
        if plan.stop:
            since = snapshot.at if memory.surplus_since is None else memory.surplus_since
        waited = since is not None and snapshot.at - since >= self.idle_time
        tokens = self._tokens(snapshot.at, memory)
        start = plan.start if self.throttle_limit == 0 else min(plan.start, int(tokens))
        plan = ScalingPlan(plan.desired, start, plan.stop if waited else 0, plan.why)
        return plan, GitlabMemory(since, tokens - start, snapshot.at)

    def stays_until(self, snapshot: PoolSnapshot, memory: GitlabMemory) -> float:
        """Return when the surplus has lasted; while the bucket fills, any plan may differ."""
        if self.throttle_limit and (memory.tokens or 0.0) < self.throttle_burst:
            return snapshot.at
        if memory.surplus_since is None:
            return FOREVER
        return memory.surplus_since + self.idle_time - EARLY

    def idle_wanted(self, in_use: int) -> int:
        """Return how many idle builders to keep beside those in use."""
        if self.scale_factor == 0:
            return self.idle_count
        share = math.ceil(in_use * self.scale_factor)
        if self.scale_factor_limit:
            share = min(share, self.scale_factor_limit)
        return max(self.idle_count, share)

    def _tokens(self, at: float, memory: GitlabMemory) -> float:
        if memory.tokens is None or self.throttle_limit == 0:
            return float(self.throttle_burst)
        filled = memory.tokens + (at - memory.filled_at) * self.throttle_limit
        return min(float(self.throttle_burst), filled)
