"""A runner for each assigned job, and some to spare (GitHub's actions-runner-controller)."""

from __future__ import annotations

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from provisioner.algorithms.sizing import (
    FOREVER,
    Count,
    Memoryless,
    Seconds,
    builders_for,
    plan_for_size,
)


class Arc(Memoryless, frozen=True, kw_only=True):
    """The scale set's rule: target = min(min + assigned jobs, max).

    Assigned jobs are waiting and running ones, in whole builders. ``min`` is therefore
    the number of idle builders kept ready, not the least size alone. The original is driven by
    events; ``interval`` is short instead. A runner is never taken from a job, so only idle builders
    are stopped.
    """

    formula = "arc"
    max: Count
    interval: Seconds = 1.0

    def decide(self, snapshot: PoolSnapshot) -> ScalingPlan:
        """Plan for the assigned jobs plus the idle buffer."""
        assigned = snapshot.waiting_jobs + snapshot.running_jobs
        why = f"{assigned} assigned jobs + {self.min}"
        desired, start, stop = plan_in_numbers(snapshot, self)
        return ScalingPlan(desired, start, stop, why)

    def stays_until(self, snapshot: PoolSnapshot, memory: Memory) -> float:
        """Return infinity: only counts matter."""
        return FOREVER


def plan_in_numbers(snapshot: PoolSnapshot, options: Arc) -> tuple[int, int, int]:
    """Return builders desired, to be started and to be stopped.

    A runner for each assigned job, and the least number to spare.
    """
    assigned = snapshot.waiting_jobs + snapshot.running_jobs
    wanted = options.least + builders_for(assigned, snapshot)
    return plan_for_size(snapshot, options, wanted, snapshot.idle)
