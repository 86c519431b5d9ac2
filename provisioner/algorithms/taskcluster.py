"""As many builders as there are jobs that no idle slot will take (Taskcluster worker-manager)."""

from __future__ import annotations

import math
from typing import Literal

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from provisioner.algorithms.sizing import FOREVER, Count, Memoryless, Seconds, Share

Compatibility = Literal["taskcluster", "taskcluster-2020"]
IN_SLOTS, IN_WORKERS, IN_WORKERS_2020 = 0, 1, 2
"""What is counted: slots, or workers as in the copies in that project's simulator."""
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
        desired, start, stop, pending = plan_in_numbers(snapshot, self)
        if self.compatibility is not None:
            return ScalingPlan(desired, start, stop, f"{pending} pending in workers")
        why = f"{pending} jobs beyond {snapshot.free_slots + snapshot.cleaning_slots} idle slots"
        return ScalingPlan(desired, start, stop, why)

    @property
    def counted(self) -> int:
        """What is counted: one of ``IN_SLOTS``, ``IN_WORKERS`` and ``IN_WORKERS_2020``."""
        return _COUNTED[self.compatibility]

    @property
    def terminates(self) -> bool:
        """Whether it stops builders."""
        return self.terminate and self.counted == IN_SLOTS

    def stays_until(self, snapshot: PoolSnapshot, memory: Memory) -> float:
        """Return infinity: only counts matter."""
        return FOREVER


def plan_in_numbers(snapshot: PoolSnapshot, options: Taskcluster) -> tuple[int, int, int, int]:
    """Return builders desired, to be started and to be stopped, and the jobs beyond idle slots.

    Numbers of builders are counted in slots, or in workers, of which each is one.
    """
    counted = options.counted
    slots = snapshot.slots if counted == IN_SLOTS else 1
    least, most = options.least * slots, options.most * slots
    existing = snapshot.joined * slots
    stopping = (snapshot.draining + snapshot.stopping) * slots
    claimed = snapshot.running_jobs
    pending = snapshot.waiting_jobs
    base = existing
    if counted == IN_SLOTS:
        pending = max(0, pending - max(0, existing - claimed))
        base += stopping
    elif counted == IN_WORKERS:
        claimed += snapshot.draining_jobs
        pending = max(0, pending - (existing - claimed))
        base += stopping
    desired = max(least, min(pending * options.scaling_ratio + base, most))
    missing = max(0, desired - existing - stopping)
    # a fraction of a worker counts as one: the original loops while any is left to spawn
    start = math.ceil(max(0, missing - snapshot.booting * slots) / slots)
    stop = 0
    if options.terminates:
        wanted = (snapshot.waiting_jobs + claimed) * options.scaling_ratio
        target = max(least, min(wanted, most))
        stop = min(snapshot.idle, int(max(0, existing - target) // slots))
    builders = int(min(max(options.least, math.ceil(desired / slots)), options.most))
    return builders, start, stop, pending
