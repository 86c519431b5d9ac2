"""A scenario's workload, submitted to a farm that stays up as time goes by."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import msgspec

from farm.core.model import Job
from farm.live.operating.operator import Operator
from farm.scenario import Scenario
from farm.workload import batches, build_jobs

#: real seconds between two looks at whether it is time to stop
STEP = 0.5


def play(
    scenario: Scenario, operator: Operator, prefix: str, most_waiting: int, stop: threading.Event
) -> int:
    """Submit the scenario's jobs at their farm times until they end, or ``stop`` is set.

    Nothing is submitted while ``most_waiting`` jobs wait. Returns how many were.
    """
    status = operator.status()
    began = time.monotonic()
    # farm time now: the status is a moment old
    offset = status.at + max(0.0, time.time() - status.written_at) * status.speed
    count = 0
    for at, jobs in batches(build_jobs(scenario)):
        while (pause := at / status.speed - (time.monotonic() - began)) > 0:
            if stop.wait(min(pause, STEP)):
                return count
        while operator.status().waiting >= most_waiting:
            if stop.wait(STEP):
                return count
        if stop.is_set():
            return count
        count += operator.submit(_renamed(jobs, prefix, offset))
    return count


def _renamed(jobs: tuple[Job, ...], prefix: str, offset: float) -> Iterator[Job]:
    """Give jobs ids that no earlier load had, and the farm's own time."""
    for job in jobs:
        changes: dict[str, object] = {
            "id": f"{prefix}.{job.id}",
            "arrived_at": offset + (job.arrived_at or 0.0),
        }
        if job.matrix is not None:
            changes["matrix"] = f"{prefix}.{job.matrix}"
        yield msgspec.structs.replace(job, **changes)
