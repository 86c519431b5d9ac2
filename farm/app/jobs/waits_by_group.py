"""How long a live farm's jobs waited, by user, kind, or whatever else they differ by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import msgspec

from farm.app.jobs.filter import charges_of
from farm.core.commands import EndJob
from farm.core.errors import InputError, not_among
from farm.core.fields import json_name
from farm.core.state.working_state import JobStatus
from farm.live.operating.client import FarmClient
from farm.live.store.job_reader import KnownJob
from farm.results.descriptive_statistics import quantile

FIELDS = ("user", "kind", "matrix", "platform", "pool", "invocation")
"""What jobs are put together by, besides ``attribute.NAME``."""
ATTRIBUTE = "attribute."


class JobWaits(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """The jobs that have one value, and how long they waited; None: none of them did."""

    #: what they have in common; empty: none has any
    name: str
    waiting: int
    running: int
    ended: int
    #: of the jobs that started, seconds
    mean_waiting_time: float | None
    p95_waiting_time: float | None
    #: how long the first of the waiting ones has waited
    longest_waiting_time: float | None


def key_of(by: str, client: FarmClient) -> Callable[[KnownJob], str]:
    """Return what jobs are put together by; raises InputError for what they do not have."""
    if by == "invocation":
        path_of = charges_of(client)
        return lambda job: "/".join(path_of(job))
    if by == "pool":
        return lambda job: job.pool or ""
    if by in ("kind", "matrix", "platform"):
        return lambda job: str(getattr(job.job, by) or "")
    attribute = by.removeprefix(ATTRIBUTE)
    if by != "user" and attribute in ("", by):
        raise InputError(f"--by: {not_among(by, ('team', *FIELDS, f'{ATTRIBUTE}NAME'))}")
    return lambda job: job.job.attributes.get(attribute, "")


def waits_by(
    jobs: Iterable[KnownJob], key: Callable[[KnownJob], str], now: float
) -> list[JobWaits]:
    """Return the waits of jobs by a key, those with the longest mean first."""
    groups: defaultdict[str, list[KnownJob]] = defaultdict(list)
    for job in jobs:
        groups[key(job)].append(job)
    found = [_waits(name, group, now) for name, group in groups.items()]
    return sorted(found, key=lambda one: (-(one.mean_waiting_time or 0.0), one.name))


def _waits(name: str, jobs: Iterable[KnownJob], now: float) -> JobWaits:
    started: list[float] = []
    so_far: list[float] = []
    ended = running = 0
    for job in jobs:
        is_blocked = not isinstance(job, EndJob) and job.status is JobStatus.BLOCKED
        released_at = job.released_at
        if released_at is None:
            released_at = job.job.arrival(job.submitted_at)
        is_over = isinstance(job, EndJob)
        ended += is_over
        if job.started_at is not None:
            started.append(max(0.0, job.started_at - released_at))
        elif job.builder is None and not is_over and not is_blocked:
            so_far.append(max(0.0, now - released_at))
        running += not is_over and job.builder is not None
    return JobWaits(
        name=name,
        waiting=len(so_far),
        running=running,
        ended=ended,
        mean_waiting_time=sum(started) / len(started) if started else None,
        p95_waiting_time=quantile(started, 0.95) if started else None,
        longest_waiting_time=max(so_far, default=None),
    )
