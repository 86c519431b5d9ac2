"""Room for the jobs and for an idle share on top (GitLab Runner's autoscalers)."""

from __future__ import annotations

import math
from typing import Literal

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

    wanted = ceil((running + waiting + idle) ÷ slots), all in jobs. In ``preemptive_mode`` (unless
    given, on with any idle_count) jobs are taken only into idle capacity that exists, so waiting
    ones do not count.
    idle = ``idle_count``, or with a ``scale_factor`` that share of the running jobs: at most
    ``scale_factor_limit`` (0: no limit), but at least idle_count. 200 in use * 0.2 = 40 idle.

    With ``idle_unit: machines`` idle_count, limit and share (rounded down) count builders, as with
    the executor docker+machine: wanted = ceil((running + waiting) ÷ slots) + idle. Its IdleCount,
    IdleTime and MaxGrowthRate are ``idle_count``, ``idle_time`` and ``max_booting``; with an
    IdleScaleFactor (``scale_factor``) idle_count is IdleCountMin, at least 1, and
    ``scale_factor_limit`` IdleCount.

    At most ``throttle_limit`` builders a second are started on average (0: no limit), up to
    ``throttle_burst`` at once, while at most ``max_booting`` boot (0: no limit). Idle builders are
    stopped when there were too many for ``idle_time``; the original counts that time for each
    machine, here it counts for the pool.
    """

    remembers = GitlabMemory
    max: Count
    idle_count: Count = 0
    idle_time: Seconds = 0.0
    scale_factor: Factor = 0.0
    scale_factor_limit: Count = 0
    idle_unit: Literal["jobs", "machines"] = "jobs"
    preemptive_mode: bool | None = None
    throttle_limit: Factor = 0.0
    throttle_burst: Count = 1
    max_booting: Count = 0
    interval: Seconds = 60.0

    def plan(
        self, snapshot: PoolSnapshot, memory: GitlabMemory
    ) -> tuple[ScalingPlan, GitlabMemory]:
        """Start what is missing as fast as the throttle allows; stop what idled long enough."""
        running = snapshot.running_jobs
        jobs = running + (0 if self._is_preemptive else snapshot.waiting_jobs)
        if self.idle_unit == "machines":
            idle = self.idle_wanted(builders_for(running, snapshot))
            wanted = builders_for(jobs, snapshot) + idle
        else:
            idle = self.idle_wanted(running)
            wanted = builders_for(jobs + idle, snapshot)
        why = f"{jobs} jobs, room for {idle} {self.idle_unit} wanted idle"
        plan = self.towards(snapshot, wanted, why, stop="idle")
        since = None
        if plan.stop:
            since = snapshot.at if memory.surplus_since is None else memory.surplus_since
        waited = since is not None and snapshot.at - since >= self.idle_time
        tokens = self._tokens(snapshot.at, memory)
        start = plan.start if self.throttle_limit == 0 else min(plan.start, int(tokens))
        if self.max_booting:
            start = min(start, max(0, self.max_booting - snapshot.booting))
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
        """Return how much to keep idle beside what is in use, both in jobs or both in machines."""
        if self.scale_factor == 0:
            return self.idle_count
        exact = round(in_use * self.scale_factor, 6)  # 70 * 0.1 is more than 7
        share = math.floor(exact) if self.idle_unit == "machines" else math.ceil(exact)
        if self.scale_factor_limit:
            share = min(share, self.scale_factor_limit)
        return max(self.idle_count, share)

    @property
    def _is_preemptive(self) -> bool:
        return self.idle_count > 0 if self.preemptive_mode is None else self.preemptive_mode

    def _tokens(self, at: float, memory: GitlabMemory) -> float:
        if memory.tokens is None or self.throttle_limit == 0:
            return float(self.throttle_burst)
        filled = memory.tokens + (at - memory.filled_at) * self.throttle_limit
        return min(float(self.throttle_burst), filled)
