"""``buildkite``: builds with their jobs.

A job waits for an agent from ``runnable_at``: ``created_at`` is when it joined the build, and
``scheduled_at`` may be earlier still. Only jobs of the type ``script`` are work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import msgspec

from farm.records.attempt import Attempt, Result, by_word, grouped
from farm.records.reading import Reading, members
from farm.records.source import Source
from farm_twin.sources.writing import by_matrix, stamp

_RESULTS: dict[str, Result] = by_word(
    {"succeeded": "passed", "cancelled": "canceled canceling expired"}
)
_NO_DEMAND = frozenset(
    [
        "broken",
        "skipped",
        "waiting",
        "waiting_failed",
        "blocked",
        "blocked_failed",
        "unblocked",
        "unblocked_failed",
        "pending",
        "limited",
        "limiting",
        "platform_limited",
        "platform_limiting",
    ]
)
#: the types of jobs, of which only the first is work
_TYPES = ("script", "waiter", "manual", "trigger")
_OF_THE_FARM = {"agent_stop", "agent_refused", "agent_incompatible", "stack_error"}
AGENT_LOST = -1
"""The exit status of a job whose agent went silent; then there may be no reason."""


class _Agent(msgspec.Struct):
    name: str = ""
    hostname: str | None = None


class _Job(msgspec.Struct):
    id: str
    type: str = "script"
    state: str = ""
    name: str | None = None
    step_key: str | None = None
    created_at: str | None = None
    runnable_at: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    expired_at: str | None = None
    agent_query_rules: list[str] = []
    agent: _Agent | None = None
    retried_in_job_id: str | None = None
    retry_source: _Source | None = None
    retries_count: int | None = None
    signal_reason: str | None = None
    exit_status: int | None = None
    priority: _Priority | None = None


class _Source(msgspec.Struct):
    job_id: str | None = None


class _Priority(msgspec.Struct):
    number: int | None = None


class _Creator(msgspec.Struct):
    name: str | None = None
    email: str | None = None


class _Pipeline(msgspec.Struct):
    slug: str = ""


class _Build(msgspec.Struct):
    jobs: list[object]
    id: str = ""
    number: int = 0
    branch: str | None = None
    creator: _Creator | None = None
    pipeline: _Pipeline = msgspec.field(default_factory=_Pipeline)


def knows(value: dict[str, object]) -> bool:
    """Return whether this is what Buildkite writes."""
    some = members(value, "jobs")[:1]
    if "number" in value and (isinstance(some[0], dict) if some else "pipeline" in value):
        return True
    return any(map(_is_job, [value, _event(value).get("job"), *members(value, "items")[:1]]))


def _is_job(found: object) -> bool:
    return isinstance(found, dict) and found.get("type") in _TYPES


def _event(value: dict[str, object]) -> dict[str, object]:
    """Return what a webhook's body, or an event of EventBridge, has of a job and its build."""
    detail = value.get("detail", value)
    return detail if isinstance(detail, dict) else {}


def _builds_in(value: dict[str, object]) -> list[dict[str, object]]:
    """Return builds with their jobs: jobs that stand alone are of builds that are little known."""
    if "jobs" in value:
        return [value]
    event = _event(value)
    build, job = event.get("build"), event.get("job")
    if isinstance(job, dict) and isinstance(build, dict):
        # events have uuids where the API has ids
        named = {"id": build.get("uuid", ""), "pipeline": event.get("pipeline", {}), **build}
        return [{**named, "jobs": [{"id": job.get("uuid", ""), **job}]}]
    jobs = [one for one in members(value, "items") or [value] if isinstance(one, dict)]
    by_build = grouped(filter(_is_job, jobs), lambda one: str(one.get("build_url") or ""))
    return [{"id": url.rpartition("/")[2], "jobs": some} for url, some in by_build.items()]


def read(reading: Reading) -> Iterator[Attempt]:
    """Yield the attempts: a retried job is a new one, which the old one names."""
    for value in reading.objects():
        builds = _builds_in(value)
        if not builds:
            reading.refuse_other(value, "builds with their jobs (without exclude_jobs)")
        for build in reading.records(builds, _Build):
            yield from _of_build(build, reading)


def _of_build(build: _Build, reading: Reading) -> Iterator[Attempt]:
    jobs = list(reading.records((one for one in build.jobs if isinstance(one, dict)), _Job))
    before = {job.retried_in_job_id: job.id for job in jobs if job.retried_in_job_id}
    before |= {
        job.id: job.retry_source.job_id
        for job in jobs
        if job.retry_source and job.retry_source.job_id
    }
    for attempt in reading.attempts(jobs, partial(_attempt, build)):
        attempt.job = _first(attempt.id, before)
        yield attempt


def _first(job: str, before: dict[str, str]) -> str:
    """Return the id of the job that this one is a retry of, at however many removes."""
    seen = {job}
    while (earlier := before.get(job, job)) not in seen:
        seen.add(job := earlier)
    return job


def _attempt(build: _Build, job: _Job, reading: Reading) -> Attempt:
    if job.type != _TYPES[0]:
        reading.leave_out("no work (waits, blocks and triggers)")
    eligible_at = reading.instant(job.runnable_at, "runnable_at")
    started_at = reading.instant(job.started_at, "started_at")
    finished_at = reading.instant(job.finished_at or job.expired_at, "finished_at")
    if started_at is None and (job.state in _NO_DEMAND or eligible_at is None):
        reading.leave_out("never due")
    if eligible_at is None:
        reading.noted["without runnable_at, their waits not known"] += 1
    created_at = reading.instant(job.created_at, "created_at")
    submitted_at = next(at for at in (created_at, eligible_at, started_at) if at is not None)
    result: Result = "open" if finished_at is None else _RESULTS.get(job.state, "failed")
    is_silent = result == "failed" and job.exit_status == AGENT_LOST
    if is_silent or (result != "succeeded" and job.signal_reason in _OF_THE_FARM):
        result = "lost"
    agent = job.agent if started_at is not None else None
    return Attempt(
        id=job.id,
        submitted_at=submitted_at,
        eligible_at=eligible_at,
        started_at=started_at,
        finished_at=finished_at,
        result=result,
        # builds that were fetched without their retried jobs still say that there were some
        attempt=job.retries_count + 1 if job.retries_count else 0,
        runner=(agent.hostname or agent.name) if agent else "",
        platform=",".join(sorted(job.agent_query_rules)) or "queue=default",
        kind=job.step_key or job.name or "",
        matrix=build.id or str(build.number),
        user=(build.creator and (build.creator.email or build.creator.name)) or "",
        attributes={
            "pipeline": build.pipeline.slug,
            "branch": build.branch or "",
            "level": str((job.priority and job.priority.number) or ""),
        },
    )


def write(attempts: Iterable[Attempt]) -> Iterator[dict[str, object]]:
    """Yield builds with their jobs, as the API has them."""
    for build, some in enumerate(by_matrix(attempts), 1):
        yield {
            "id": str(build),
            "number": build,
            "creator": {"name": some[0][1].user},
            "jobs": list(_jobs(one for _, one in some)),
        }


def _jobs(attempts: Iterable[Attempt]) -> Iterator[dict[str, object]]:
    words = {"succeeded": "passed", "cancelled": "canceled", "open": "running"}
    last: dict[str, str] = {}
    for one in attempts:
        before = last.get(one.job) if one.job else None
        last[one.job] = one.id
        yield {
            "id": one.id,
            "type": "script",
            "state": words.get(one.result, "failed"),
            "signal_reason": "agent_stop" if one.result == "lost" else None,
            "name": one.kind,
            "created_at": stamp(one.submitted_at),
            "runnable_at": stamp(one.eligible_at),
            "started_at": stamp(one.started_at),
            "finished_at": stamp(one.finished_at),
            "agent_query_rules": one.platform.split(",") if one.platform else [],
            "agent": {"name": one.runner, "hostname": one.runner} if one.runner else None,
            "retry_source": {"job_id": before} if before else None,
            "retries_count": one.attempt - 1 or None,
            "priority": {"number": one.level},
        }


SOURCE = Source(read, knows, write)
