"""Always the same number of builders."""

from __future__ import annotations

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from provisioner.algorithms.sizing import FOREVER, Count, Memoryless, Seconds

NO_LIMIT = 1_000_000


class Fixed(Memoryless, frozen=True, kw_only=True):
    """Keep ``builders`` builders: a lost or timed-out one is replaced, a surplus is drained."""

    ignores_jobs = True
    builders: Count
    max: Count = NO_LIMIT
    interval: Seconds = 10.0

    def decide(self, snapshot: PoolSnapshot) -> ScalingPlan:
        """Plan for the fixed number, within the limits if the pool has some."""
        return self.towards(snapshot, self.builders, f"fixed at {self.builders}")

    def stays_until(self, snapshot: PoolSnapshot, memory: Memory) -> float:
        """Return infinity: only counts matter."""
        return FOREVER
