"""Room for the jobs and for an idle share on top (GitLab Runner's autoscalers)."""

from __future__ import annotations

import math
from typing import Literal

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from provisioner.algorithms.sizing import (
    EARLY,
    FOREVER,
    MAX_NUMBER,
    NEVER,
    Count,
    Factor,
    Seconds,
    Sizing,
    builders_for,
    plan_for_size,
    rounded_up,
)


class GitlabMemory(Memory, frozen=True):
    """Since when there are too many builders, and the throttle's bucket."""

    surplus_since: float = NEVER
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
    IdleTime and MaxGrowthRate are ``idle_count``, ``idle_time`` and ``max_booting``. With an
    IdleScaleFactor (``scale_factor``) ``idle_count`` is IdleCountMin, which counts as 1 where it is
    0, and ``scale_factor_limit`` is IdleCount, which bounds that too; jobs are then taken only into
    idle machines (``preemptive_mode``, unless given).

    At most ``throttle_limit`` builders a second are started on average (0: no limit), up to
    ``throttle_burst`` at once, while at most ``max_booting`` boot (0: no limit). Idle builders are
    stopped when there were too many for ``idle_time``; the original counts that time for each
    machine, here it counts for the pool.
    """

    remembers = GitlabMemory
    formula = "gitlab"
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
        desired, start, stop, since, tokens, filled_at = plan_in_numbers(
            snapshot, self, memory.surplus_since, _tokens(memory), memory.filled_at
        )
        why = f"{snapshot.running_jobs} jobs run, {snapshot.waiting_jobs} wait"
        return ScalingPlan(desired, start, stop, why), GitlabMemory(since, tokens, filled_at)

    def stays_until(self, snapshot: PoolSnapshot, memory: GitlabMemory) -> float:
        """Return when the surplus has lasted; while the bucket fills, any plan may differ."""
        return next_change_at(snapshot, self, memory.surplus_since, _tokens(memory))

    @property
    def is_preemptive(self) -> bool:
        """Whether jobs are taken only into idle capacity that exists."""
        if self.preemptive_mode is not None:
            return self.preemptive_mode
        return self.idle_count > 0 or (self.in_machines and self.scale_factor > 0)

    @property
    def in_machines(self) -> bool:
        """Whether idle builders are counted, not idle slots."""
        return self.idle_unit == "machines"


def _tokens(memory: GitlabMemory) -> float:
    return FOREVER if memory.tokens is None else memory.tokens


def plan_in_numbers(
    snapshot: PoolSnapshot, options: Gitlab, since: float, tokens: float, filled_at: float
) -> tuple[int, int, int, float, float, float]:
    """Return builders desired, to be started and to be stopped, and the next ``GitlabMemory``.

    ``since``: from when on there are too many builders; ``tokens``: of the throttle's bucket.
    """
    running = snapshot.running_jobs
    jobs = running if options.is_preemptive else running + snapshot.waiting_jobs
    if options.in_machines:
        idle = idle_wanted(options, builders_for(running, snapshot))
        wanted = builders_for(jobs, snapshot) + idle
    else:
        wanted = builders_for(jobs + idle_wanted(options, running), snapshot)
    desired, start, stop = plan_for_size(snapshot, options, wanted, snapshot.idle)
    # NEVER is negative, as no instant is
    if not stop:
        since = NEVER
    elif since < 0.0:
        since = snapshot.at
    if since < 0.0 or snapshot.at - since < options.idle_time:
        stop = 0
    tokens = tokens_at(options, snapshot.at, tokens, filled_at)
    if options.throttle_limit:
        start = min(start, math.floor(max(0.0, min(tokens, MAX_NUMBER))))
    if options.max_booting:
        start = min(start, max(0, options.max_booting - snapshot.booting))
    return desired, start, stop, since, tokens - start, snapshot.at


def idle_wanted(options: Gitlab, in_use: int) -> int:
    """Return how much to keep idle beside what is in use, both in jobs or both in machines.

    In jobs ``idle_count`` wins over the limit of the share; in machines the limit wins over
    ``idle_count``, as the original has it for each.
    """
    if options.scale_factor == 0.0:
        return options.idle_count
    # 70 * 0.1 is more than 7 in floating point: round to millionths first
    millionths = math.floor(min(in_use * options.scale_factor, MAX_NUMBER / 1e6) * 1e6 + 0.5)
    exact = millionths / 1e6
    share = math.floor(exact) if options.in_machines else rounded_up(exact)
    least = options.idle_count
    if options.in_machines:
        # a runner that takes jobs only into idle machines would never have any in use
        least = max(least, 1)
    if options.scale_factor_limit:
        share = min(share, options.scale_factor_limit)
        if options.in_machines:
            least = min(least, options.scale_factor_limit)
    return max(least, share)


def tokens_at(options: Gitlab, at: float, tokens: float, filled_at: float) -> float:
    """Return what is in the throttle's bucket, which had ``tokens`` at ``filled_at``."""
    burst = options.throttle_burst * 1.0
    if options.throttle_limit == 0.0:
        return burst
    return min(burst, tokens + (at - filled_at) * options.throttle_limit)


def next_change_at(snapshot: PoolSnapshot, options: Gitlab, since: float, tokens: float) -> float:
    """Return when the surplus has lasted; while the bucket fills, any plan may differ."""
    if options.throttle_limit and tokens < options.throttle_burst:
        return snapshot.at
    return FOREVER if since < 0.0 else since + options.idle_time - EARLY
