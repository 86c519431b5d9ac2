"""``buildkite``: builds with their jobs.

A job waits for an agent from ``runnable_at``: ``created_at`` is when it joined the build, and
``scheduled_at`` may be earlier still. Only jobs of the type ``script`` are work.

What a job needs is said by ``depends_on``, of itself or of its step; it names steps, or groups of
them. A job without it needs all that comes before the last wait step ahead of it. A build without
either says nothing: its jobs may have been created by others, or have nothing to wait for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
_WAITER = "waiter"
#: the types of jobs, of which only the first is work
_TYPES = ("script", _WAITER, "manual", "trigger")
_OF_THE_FARM = {"agent_stop", "agent_refused", "agent_incompatible", "stack_error"}
AGENT_LOST = -1
"""The exit status of a job whose agent went silent; then there may be no reason."""


class _Agent(msgspec.Struct):
    name: str = ""
    hostname: str | None = None


class _Dependency(msgspec.Struct):
    """A step that another depends on, as the pipeline's file has it, or the API."""

    step: str | None = None
    step_key: str | None = None
    key: str | None = None
    allow_failure: bool = False

    @property
    def name(self) -> str:
        """The key of the step."""
        return self.step or self.step_key or self.key or ""


_Dependencies = str | list[str | _Dependency] | msgspec.UnsetType | None


class _Step(msgspec.Struct):
    id: str | None = None
    key: str | None = None
    depends_on: _Dependencies = msgspec.UNSET


class _Job(msgspec.Struct):
    id: str
    type: str = "script"
    state: str = ""
    name: str | None = None
    step_key: str | None = None
    group_key: str | None = None
    step: _Step | None = None
    depends_on: _Dependencies = msgspec.UNSET
    allow_dependency_failure: bool | None = None
    #: of a wait step
    continue_on_failure: bool | None = None
    group: str | None = msgspec.field(name="concurrency_group", default=None)
    limit_of_group: int | None = msgspec.field(name="concurrency", default=None)
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
    needs = _needs(jobs, before)
    for attempt in reading.attempts(jobs, partial(_attempt, build)):
        attempt.job = _first(attempt.id, before)
        if attempt.job in needs:
            attempt.needs, attempt.needs_known = needs[attempt.job], True
        yield attempt


def _first(job: str, before: dict[str, str]) -> str:
    """Return the id of the job that this one is a retry of, at however many removes."""
    seen = {job}
    while (earlier := before.get(job, job)) not in seen:
        seen.add(job := earlier)
    return job


def _dependencies(job: _Job) -> _Dependencies:
    """Return what a job says that it depends on; unset: nothing is said."""
    if job.depends_on is not msgspec.UNSET:
        return job.depends_on
    return msgspec.UNSET if job.step is None else job.step.depends_on


def _needs(jobs: Sequence[_Job], before: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return what each job of a build needs, by its id, if the build says it.

    Args:
        jobs: in the order of the pipeline.
        before: the job that each retry repeats.
    """
    first_tries = [job for job in jobs if job.id not in before]
    says_so = any(
        job.type == _WAITER or _dependencies(job) is not msgspec.UNSET for job in first_tries
    )
    if not says_so:
        return {}
    ids: dict[str, list[str]] = defaultdict(list)
    for job in first_tries:
        step = job.step or _Step()
        for name in {job.step_key, job.group_key, step.id, step.key}:
            if name and job.type == _TYPES[0]:
                ids[name].append(job.id)
    needs: dict[str, tuple[str, ...]] = {}
    waited_for: list[str] = []
    since_wait: list[str] = []
    created_first = min((job.created_at for job in first_tries if job.created_at), default="")
    for job in first_tries:
        depends_on = _dependencies(job)
        if job.type == _WAITER:
            condition = "ended" if job.continue_on_failure else "succeeded"
            waited_for = [f"{name}:{condition}" for name in since_wait] or waited_for
            since_wait = []
        elif job.type == _TYPES[0]:
            since_wait.append(job.id)
            if depends_on is not msgspec.UNSET:
                needs[job.id] = tuple(_named(job, depends_on, ids))
            elif waited_for or job.created_at == created_first:
                needs[job.id] = tuple(waited_for)
            # one that was added later is released by the job that added it, which is not said
    return needs


def _named(job: _Job, depends_on: _Dependencies, ids: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the jobs that a job depends on, with their conditions."""
    if not isinstance(depends_on, list):
        depends_on = [depends_on] if isinstance(depends_on, str) else []
    for each in depends_on:
        dependency = _Dependency(step=each) if isinstance(each, str) else each
        may_fail = dependency.allow_failure or job.allow_dependency_failure
        condition = "ended" if may_fail else "succeeded"
        for name in ids.get(dependency.name, [dependency.name]):
            if name != job.id:
                yield f"{name}:{condition}"


def _group(job: _Job) -> str:
    """Return the concurrency group of a job."""
    return f"{job.group}:{max(1, job.limit_of_group or 1)}" if job.group else ""


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
        group=_group(job),
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
