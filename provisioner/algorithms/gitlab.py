"""Room for the jobs and for an idle share on top (GitLab Runner's autoscalers)."""

from __future__ import annotations

from typing import Literal

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from farm.core.pools.formulas import gitlab
from provisioner.algorithms.sizing import FOREVER, NEVER, Count, Factor, Seconds, Sizing


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
    IdleTime and MaxGrowthRate are ``idle_count``, ``idle_time`` and ``max_booting``; with an
    IdleScaleFactor (``scale_factor``) idle_count is IdleCountMin, at least 1, and
    ``scale_factor_limit`` IdleCount.

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
        desired, start, stop, since, tokens, filled_at = gitlab.plan(
            snapshot, self, memory.surplus_since, _tokens(memory), memory.filled_at
        )
        why = f"{snapshot.running_jobs} jobs run, {snapshot.waiting_jobs} wait"
        return ScalingPlan(desired, start, stop, why), GitlabMemory(since, tokens, filled_at)

    def stays_until(self, snapshot: PoolSnapshot, memory: GitlabMemory) -> float:
        """Return when the surplus has lasted; while the bucket fills, any plan may differ."""
        since, tokens = memory.surplus_since, _tokens(memory)
        found: float = gitlab.stays_until(snapshot, self, since, tokens)
        return found

    @property
    def is_preemptive(self) -> bool:
        """Whether jobs are taken only into idle capacity that exists."""
        return self.idle_count > 0 if self.preemptive_mode is None else self.preemptive_mode

    @property
    def in_machines(self) -> bool:
        """Whether idle builders are counted, not idle slots."""
        return self.idle_unit == "machines"


def _tokens(memory: GitlabMemory) -> float:
    return FOREVER if memory.tokens is None else memory.tokens
