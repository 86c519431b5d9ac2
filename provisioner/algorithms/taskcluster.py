"""As many builders as there are jobs that no idle slot will take (Taskcluster worker-manager)."""

from __future__ import annotations

from typing import Literal

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from farm.upstream.taskcluster import IN_SLOTS, IN_WORKERS, IN_WORKERS_2020, plan
from provisioner.algorithms.sizing import FOREVER, Count, Memoryless, Seconds, Share

Compatibility = Literal["taskcluster", "taskcluster-2020"]
_COUNTED = {None: IN_SLOTS, "taskcluster": IN_WORKERS, "taskcluster-2020": IN_WORKERS_2020}


class Taskcluster(Memoryless, frozen=True, kw_only=True):
    """Worker-manager's estimator (services/worker-manager/src/estimator.js), in slots.

    idle     = max(0, existing - claimed)
    pending' = max(0, pending - idle)
    nonStop  = existing + stopping
    desired  = max(min, min(pending' * scaling_ratio + nonStop, max))
    start    = max(0, max(0, desired - nonStop) - requested)

    ``existing`` are joined builders, ``requested`` booting ones, ``stopping`` those that drain or
    shut down. No builder is stopped: idle time-outs do that. With ``terminate`` idle builders above
    target = max(min, min((pending + claimed) * scaling_ratio, max)) are stopped as well.

    ``compatibility: taskcluster`` is the copy in that project's simulator: it counts *workers*
    instead of slots (and so requests too many when a builder has several slots) and lets idle be
    negative, which adds to the pending jobs. ``taskcluster-2020`` is the copy before September
    2024: desired = max(min, min(pending * ratio + running, max)), idle ones not considered.
    """

    formula = "taskcluster"
    max: Count
    scaling_ratio: Share = 1.0
    terminate: bool = False
    compatibility: Compatibility | None = None
    interval: Seconds = 1.0

    def decide(self, snapshot: PoolSnapshot) -> ScalingPlan:
        """Plan by the estimator."""
        desired, start, stop, pending = plan(
            snapshot,
            snapshot.slots,
            self.min,
            self.max,
            self.scaling_ratio,
            self.terminates,
            self.counted,
        )
        if self.compatibility is not None:
            return ScalingPlan(desired, start, stop, f"{pending} pending in workers")
        why = f"{pending} jobs beyond {snapshot.free_slots + snapshot.cleaning_slots} idle slots"
        return ScalingPlan(desired, start, stop, why)

    @property
    def counted(self) -> int:
        """What is counted, of ``farm.upstream.taskcluster``."""
        return _COUNTED[self.compatibility]

    @property
    def terminates(self) -> bool:
        """Whether it stops builders."""
        return self.terminate and self.counted == IN_SLOTS

    def stays_until(self, snapshot: PoolSnapshot, memory: Memory) -> float:
        """Return infinity: only counts matter."""
        return FOREVER
