"""As many builders as there are jobs that no idle slot will take (Taskcluster worker-manager)."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan, limited
from provisioner.algorithms.sizing import FOREVER, Count, Memoryless, Seconds, Share, builders_for

Compatibility = Literal["taskcluster", "taskcluster-2020"]


class _Counts(msgspec.Struct, frozen=True):
    """The estimator's inputs: counts in slots (or, in the simulator's copy, in workers)."""

    existing: int
    claimed: int
    stopping: int
    requested: int
    min: int
    max: int


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
    instead of slots (and so asks for too many when a builder has several slots) and lets idle be
    negative, which adds to the pending jobs. ``taskcluster-2020`` is the copy before September
    2024: desired = max(min, min(pending * ratio + running, max)), idle ones not considered.
    """

    max: Count
    scaling_ratio: Share = 1.0
    terminate: bool = False
    compatibility: Compatibility | None = None
    interval: Seconds = 1.0

    def decide(self, snapshot: PoolSnapshot) -> ScalingPlan:
        """Plan by the estimator."""
        if self.compatibility is not None:
            return self._simulators_plan(snapshot)
        slots = snapshot.slots
        counts = _Counts(
            existing=snapshot.joined * slots,
            claimed=snapshot.running_jobs,
            stopping=(snapshot.draining + snapshot.stopping) * slots,
            requested=snapshot.booting * slots,
            min=self.min * slots,
            max=self.max * slots,
        )
        idle = max(0, counts.existing - counts.claimed)
        pending = max(0, snapshot.waiting_jobs - idle)
        desired, spawn = self._estimate(pending, counts.existing + counts.stopping, counts)
        return ScalingPlan(
            limited(desired / slots, self.min, self.max),
            builders_for(spawn, snapshot),
            self._surplus(snapshot, counts) if self.terminate else 0,
            f"{pending} jobs beyond {idle} idle slots",
        )

    def stays_until(self, snapshot: PoolSnapshot, memory: Memory) -> float:  # noqa: ARG002
        """Return infinity: only counts matter."""
        return FOREVER

    def _simulators_plan(self, snapshot: PoolSnapshot) -> ScalingPlan:
        """Plan as the simulator's copies do, in workers."""
        workers = _Counts(
            existing=snapshot.joined,
            claimed=snapshot.running_jobs + snapshot.draining_jobs,
            stopping=snapshot.draining + snapshot.stopping,
            requested=snapshot.booting,
            min=self.min,
            max=self.max,
        )
        pending, base = snapshot.waiting_jobs, workers.existing
        if self.compatibility == "taskcluster":
            pending = max(0, pending - (workers.existing - workers.claimed))
            base += workers.stopping
        desired, spawn = self._estimate(pending, base, workers)
        # a fraction of a worker is a worker: the original loops while any is left to spawn
        return ScalingPlan(
            limited(desired, self.min, self.max),
            math.ceil(spawn),
            0,
            f"{pending} pending in workers",
        )

    def _estimate(self, pending: int, base: int, counts: _Counts) -> tuple[float, float]:
        """Return how many are desired, and how many of them to ask for now."""
        desired = max(counts.min, min(pending * self.scaling_ratio + base, counts.max))
        missing = max(0, desired - counts.existing - counts.stopping)
        return desired, max(0, missing - counts.requested)

    def _surplus(self, snapshot: PoolSnapshot, counts: _Counts) -> int:
        """Return how many idle builders stand above the target for terminations."""
        claimed = snapshot.waiting_jobs + counts.claimed
        target = max(counts.min, min(claimed * self.scaling_ratio, counts.max))
        return min(snapshot.idle, int(max(0, counts.existing - target) // snapshot.slots))
