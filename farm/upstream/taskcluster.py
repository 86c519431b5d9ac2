"""Worker-manager's estimator, in plain numbers, for provisioners and compiled code.

``farm.sim.fast`` compiles ``plan``, so it has no more than numbers, ``min``, ``max`` and ``ceil``.
"""

from __future__ import annotations

import math

from farm.core.pools.algorithm import PoolSnapshot

IN_SLOTS, IN_WORKERS, IN_WORKERS_2020 = 0, 1, 2
"""What is counted: slots, or workers as in the copies in that project's simulator."""


def plan(
    look: PoolSnapshot,
    slots: int,
    least: int,
    most: int,
    ratio: float,
    terminate: bool,
    counted: int,
) -> tuple[int, int, int, int]:
    """Return the builders desired, to be started and to be stopped, and the jobs beyond idle slots.

    ``slots`` per builder; ``least`` and ``most`` builders.
    """
    each = slots if counted == IN_SLOTS else 1
    existing = look.joined * each
    stopping = (look.draining + look.stopping) * each
    claimed, pending, base = look.running_jobs, look.waiting_jobs, existing
    if counted == IN_SLOTS:
        pending = max(0, pending - max(0, existing - claimed))
        base += stopping
    elif counted == IN_WORKERS:
        claimed += look.draining_jobs
        pending = max(0, pending - (existing - claimed))
        base += stopping
    desired = max(least * each, min(pending * ratio + base, most * each))
    missing = max(0, desired - existing - stopping)
    # a fraction of a worker counts as one: the original loops while any is left to spawn
    start = math.ceil(max(0, missing - look.booting * each) / each)
    stop = 0
    if terminate:
        wanted = (look.waiting_jobs + claimed) * ratio
        target = max(least * each, min(wanted, most * each))
        stop = min(look.idle, int(max(0, existing - target) // each))
    return int(min(max(least, math.ceil(desired / each)), most)), start, stop, pending
