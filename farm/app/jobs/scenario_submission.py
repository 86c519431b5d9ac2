"""Submits a scenario's jobs to a live farm, as the farm's time goes by."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec

from farm.app.jobs.sources import runnable
from farm.core.errors import InputError
from farm.core.jobs.needs import renamed
from farm.core.model import Job
from farm.live.operating.client import FarmClient
from farm.processes.signals import StopRequest
from farm.scenario import Scenario
from farm.workload import FeedbackLoad, batches, build_jobs

#: real seconds between two looks at whether it is time to stop
STEP = 0.5


def play(
    scenario: Scenario,
    client: FarmClient,
    prefix: str,
    most_waiting: int,
    stop: StopRequest,
    progress: Callable[[int, int], None],
) -> tuple[int, int]:
    """Submit the scenario's jobs at their farm times until they end, or ``stop`` is set.

    Nothing is submitted while ``most_waiting`` jobs wait. Returns how many were, and how many
    were not because the farm knows them; ``progress`` is called with how many were so far, and how
    many wait. Raises InputError for a job that no pool could run, and for a load that depends on
    how jobs end.
    """
    jobs = build_jobs(scenario)
    if isinstance(jobs, FeedbackLoad):
        raise InputError(
            f"{scenario.name}: workload: found users or reruns, who answer how jobs end; allowed "
            "where a scenario is submitted to a farm: jobs that come by themselves (farm run plays "
            "the others)"
        )
    status = client.status()
    began = time.monotonic()
    # farm time now: the status is a moment old
    offset = status.at + client.age(status) * status.speed
    count = known = 0
    if not scenario.allow_unrunnable:
        jobs = runnable(jobs, client.pools(), scenario.name, "allow_unrunnable: true")
    for at, together in batches(jobs):
        while (pause := at / status.speed - (time.monotonic() - began)) > 0:
            if stop.wait(min(pause, STEP)):
                return count, known
        while (waiting := client.status().waiting) >= most_waiting:
            progress(count, waiting)
            if stop.wait(STEP):
                return count, known
        if stop.is_set():
            return count, known
        renamed = list(_renamed(together, prefix, offset))
        before = client.known([job.id for job in renamed])
        count += client.submit(job for job in renamed if job.id not in before)
        known += len(before)
        progress(count, waiting)
    return count, known


def _renamed(jobs: tuple[Job, ...], prefix: str, offset: float) -> Iterator[Job]:
    """Give jobs ids that no earlier load had, and the farm's own time."""
    for job in jobs:
        changes: dict[str, object] = {
            "id": f"{prefix}.{job.id}",
            "arrived_at": offset + (job.arrived_at or 0.0),
        }
        if job.needs:
            changes["needs"] = renamed(job.needs, lambda name: f"{prefix}.{name}")
        if job.matrix is not None:
            changes["matrix"] = f"{prefix}.{job.matrix}"
        yield msgspec.structs.replace(job, **changes)
