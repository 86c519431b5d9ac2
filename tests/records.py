"""Job records for tests that write a farm's keys by hand, and what such keys say."""

from __future__ import annotations

from farm.core.model import Job
from farm.core.snapshot import JobRecord
from farm.core.state import JobStatus
from farm.live.store.store import Store


def waiting_record(job: Job, serial: int = 1) -> JobRecord:
    """Return a job that waits since 0."""
    return JobRecord(job, serial, (0, 0.0, serial), 0.0, 1.0, status=JobStatus.WAITING)


def running_record(job: Job, builder: str, dispatched_at: float, started_at: float) -> JobRecord:
    """Return a job that runs in the first slot of a builder."""
    record = waiting_record(job)
    record.status, record.attempts = JobStatus.RUNNING, 1
    record.dispatched_at, record.started_at = dispatched_at, started_at
    record.builder, record.slot = builder, 0
    return record


def on_builders(store: Store) -> dict[str, JobRecord]:
    """Return the jobs that the store shows on builders, by id."""
    return {name: job for name, job in store.jobs().items() if job.builder is not None}
