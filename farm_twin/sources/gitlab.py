"""``gitlab``: GitLab's jobs, and bodies of its job webhooks (``object_kind: build``).

``created_at`` is when the *pipeline* was created, also of jobs of its last stage: a job waits for
a runner from ``started_at - queued_duration``. One runner may be hundreds of machines; then the
runner's manager tells them apart.

The jobs API does not say what a job needs; the GraphQL API does (``needs``), and is believed where
its jobs are given. Otherwise a job may go by the order of the stages: a pipeline's own webhook
lists them, and a pipeline's jobs are created stage by stage, so that the least id of a stage's jobs
tells its place. Which jobs really go so is not said: those of one name count as such if they came,
in each pipeline, after all jobs of the stage before had ended.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from operator import attrgetter

import msgspec

from farm.core.jobs.needs import need_of
from farm.records.attempt import Attempt, Result, by_word, grouped
from farm.records.key_styles import in_snake_case
from farm.records.needs_of_attempts import CLOCKS
from farm.records.reading import Reading, members, progress
from farm.records.source import Source
from farm_twin.sources.writing import by_matrix, stamp

_RESULTS: dict[str, Result] = by_word({"succeeded": "success", "cancelled": "canceled canceling"})
_REASONS: dict[str, Result] = by_word(
    {
        "lost": "runner_system_failure stuck_or_timeout_failure job_execution_timeout "
        "scheduler_failure stale_schedule runner_unsupported"
    }
)
"""Of failures that are the farm's own."""
_NO_DEMAND = by_word(
    {
        "manual, never started": "manual",
        "skipped": "skipped",
        "not yet due": "created scheduled preparing",
        "held back by a resource group": "waiting_for_resource",
    }
)
_PART = re.compile(r"(: \[.*\]| \d+/\d+)\Z")
"""How the name of one part of a job ends that ``parallel`` splits."""
#: of which any job has two, also one without labels, or of an old server
_KNOWN = {"tag_list", "queued_duration", "pipeline"}


class _Runner(msgspec.Struct):
    id: int | None = None
    description: str | None = None
    tags: list[str] = []


class _Manager(msgspec.Struct):
    system_id: str | None = None


class _Pipeline(msgspec.Struct):
    id: int = 0
    project_id: int | None = None
    ref: str | None = None
    source: str | None = None


class _User(msgspec.Struct):
    username: str | None = None


class _Job(msgspec.Struct):
    """A job, as the API's pages have it."""

    id: int
    status: str
    name: str = ""
    stage: str | None = None
    created_at: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    queued_duration: float | None = None
    failure_reason: str | None = None
    tag_list: list[str] = []
    runner: _Runner | None = None
    runner_manager: _Manager | None = None
    pipeline: _Pipeline = msgspec.field(default_factory=_Pipeline)
    user: _User | None = None
    #: only a bridge has this: it starts another pipeline, and takes no runner
    downstream_pipeline: dict[str, object] | msgspec.UnsetType | None = msgspec.UNSET
    retries_count: int | None = None
    #: of jobs of the GraphQL API, or as the pipeline's file has them
    needs: list[object] | dict[str, object] | None = None
    resource_group: str | dict[str, object] | None = None


class _Build(msgspec.Struct):
    """A webhook's body: the same under other names."""

    build_id: int
    build_status: str
    build_name: str = ""
    build_stage: str | None = None
    build_created_at: str | None = None
    build_started_at: str | None = None
    build_finished_at: str | None = None
    build_created_at_iso: str | None = None
    build_started_at_iso: str | None = None
    build_finished_at_iso: str | None = None
    build_queued_duration: float | None = None
    build_failure_reason: str | None = None
    pipeline_id: int = 0
    project_id: int | None = None
    ref: str | None = None
    commit: _Pipeline | None = None
    runner: _Runner | None = None
    user: _User | None = None
    retries_count: int | None = None

    def job(self) -> _Job:
        """Return it as a job of the API."""
        # the commit's id is the pipeline's, in bodies that have no other
        pipeline = self.pipeline_id or (self.commit.id if self.commit else 0)
        return _Job(
            id=self.build_id,
            status=self.build_status,
            name=self.build_name,
            stage=self.build_stage,
            created_at=self.build_created_at_iso or self.build_created_at,
            started_at=self.build_started_at_iso or self.build_started_at,
            finished_at=self.build_finished_at_iso or self.build_finished_at,
            queued_duration=self.build_queued_duration,
            failure_reason=self.build_failure_reason,
            tag_list=self.runner.tags if self.runner else [],
            runner=self.runner,
            pipeline=_Pipeline(pipeline, self.project_id, self.ref),
            user=self.user,
            retries_count=self.retries_count,
        )


def knows(value: dict[str, object]) -> bool:
    """Return whether this is what GitLab writes."""
    some = members(value, "jobs")[:1]
    job = some[0] if some and isinstance(some[0], dict) else value
    return "object_kind" in job or len(_KNOWN & job.keys()) > 1


def read(reading: Reading) -> Iterator[Attempt]:
    """Yield the attempts; of a job in webhooks, the last state.

    What they need is known after the last record.
    """
    found: list[Attempt] = []
    stages = _Stages()
    latest: dict[int, _Job] = {}
    for value in reading.objects():
        if value.get("object_kind") == "build":
            for build in reading.records([value], _Build):
                job = build.job()
                latest[job.id] = max(job, latest.get(job.id, job), key=progress)
            continue
        if "object_kind" in value or "sha" in value:
            stages.take_pipeline(value)
            reading.left_out["pipelines, or webhooks of other events"] += 1
            continue
        of_page = members(value, "jobs") if "jobs" in value else [value]
        jobs = list(reading.records(of_page, _Job))
        stages.take(jobs)
        found += map(reading.share, reading.attempts(jobs, _attempt))
    stages.take(latest.values())
    found += map(reading.share, reading.attempts(latest.values(), _attempt))
    stages.set_needs(found)
    _name_jobs_of_matrices(found)
    yield from found


class _Stages:
    """In which order the stages of pipelines are, and which jobs go by it."""

    def __init__(self) -> None:
        #: of each pipeline: the least id of each stage's jobs, also of those that never ran
        self._first: dict[str, dict[str, int]] = defaultdict(dict)
        #: of each pipeline whose webhook was read: the stages in their order
        self._listed: dict[str, list[str]] = {}

    def take(self, jobs: Iterable[_Job]) -> None:
        """Note the stages of jobs."""
        for job in jobs:
            if job.pipeline.id and job.stage:
                first = self._first[str(job.pipeline.id)]
                first[job.stage] = min(job.id, first.get(job.stage, job.id))

    def take_pipeline(self, value: Mapping[str, object]) -> None:
        """Note the stages that a pipeline's webhook lists."""
        attributes = value.get("object_attributes")
        listed = attributes.get("stages") if isinstance(attributes, dict) else None
        if isinstance(attributes, dict) and isinstance(listed, list):
            self._listed[str(attributes.get("id"))] = [str(stage) for stage in listed]

    def order(self, pipeline: str) -> list[str]:
        """Return the stages of a pipeline, in their order."""
        first = self._first[pipeline]
        return self._listed.get(pipeline) or sorted(first, key=first.__getitem__)

    def set_needs(self, attempts: Sequence[Attempt]) -> None:
        """Let jobs that go by the order of stages need those of the stage before.

        Of jobs without a known wait it is not known when they came.
        """
        needs: dict[str, tuple[str, ...]] = {}
        by_name: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
        for pipeline, jobs in grouped(attempts, attrgetter("matrix")).items():
            if not pipeline or any(attempt.needs_known for attempt in jobs):
                continue
            by_stage = grouped(jobs, lambda attempt: attempt.attributes.get("stage", ""))
            before: list[Attempt] = []
            for stage in self.order(pipeline):
                here = by_stage.get(stage, [])
                ends = _ends_of(before)
                last_end = max(ends.values(), default=inf)
                texts = tuple(f"{name}:succeeded" for name in ends)
                for attempt in here if before else ():
                    if attempt.eligible_at is not None and last_end <= attempt.eligible_at + CLOCKS:
                        needs[attempt.id] = texts
                    by_name[_name_of(attempt)].append(attempt)
                before = here or before
        for same in by_name.values():
            if all(attempt.id in needs for attempt in same):
                for attempt in same:
                    attempt.needs, attempt.needs_known = needs[attempt.id], True


def _name_of(attempt: Attempt) -> tuple[str, str]:
    return attempt.attributes.get("project", ""), attempt.kind


def _ends_of(stage: Sequence[Attempt]) -> dict[str, float]:
    """Return when each job of a stage had ended, by some try."""
    ends: dict[str, float] = {}
    for attempt in stage:
        end = inf if attempt.finished_at is None else attempt.finished_at
        ends[attempt.job] = min(end, ends.get(attempt.job, inf))
    return ends


def _needed(job: _Job) -> tuple[str, ...]:
    """Return the jobs of its pipeline that a job says it needs."""
    listed = job.needs.get("nodes") if isinstance(job.needs, dict) else job.needs
    names = [
        need.get("name", need.get("job")) if isinstance(need, dict) else need
        for need in (listed if isinstance(listed, list) else [])
    ]
    return tuple(f"{job.pipeline.id}/{name}:succeeded" for name in names if name)


def _name_jobs_of_matrices(attempts: Sequence[Attempt]) -> None:
    """Let needs of a job that was split by ``parallel`` name each of its parts."""
    parts: dict[str, set[str]] = defaultdict(set)
    for attempt in attempts:
        whole = _PART.sub("", attempt.job)
        if whole != attempt.job:
            parts[whole].add(attempt.job)
    for attempt in attempts if parts else ():
        needs = map(need_of, attempt.needs)
        attempt.needs = tuple(
            f"{job}:{need.condition}"
            for need in needs
            for job in sorted(parts.get(need.job, {need.job}))
        )


def _resource_group(job: _Job) -> str:
    """Return the group of which one job runs at a time."""
    group = job.resource_group
    name = group.get("key", group.get("name", "")) if isinstance(group, dict) else group
    return f"{job.pipeline.project_id or ''}/{name}:1" if name else ""


def _attempt(job: _Job, reading: Reading) -> Attempt:
    if job.downstream_pipeline is not msgspec.UNSET:
        reading.leave_out("no work (bridges to other pipelines)")
    if (why := _NO_DEMAND.get(job.status)) and job.started_at is None:
        reading.leave_out(why)
    started_at = reading.instant(job.started_at, "started_at")
    finished_at = reading.instant(job.finished_at, "finished_at")
    created_at = reading.instant(job.created_at, "created_at")
    if started_at is None and finished_at is not None:
        reading.leave_out("never started, waiting since an unknown time")
    eligible_at = None
    if started_at is not None and job.queued_duration is not None:
        eligible_at = round(started_at - job.queued_duration, 3)
    elif started_at is not None:
        reading.noted["without queued_duration, their waits not known"] += 1
    submitted_at = created_at if created_at is not None else started_at
    if submitted_at is None:
        reading.leave_out("without a time of creation")
    result: Result = "open" if finished_at is None else _RESULTS.get(job.status, "failed")
    if result == "failed":
        result = _REASONS.get(job.failure_reason or "", result)
    project = job.pipeline.project_id
    return Attempt(
        id=str(job.id),
        submitted_at=submitted_at,
        eligible_at=eligible_at,
        started_at=started_at,
        finished_at=finished_at,
        result=result,
        # without a pipeline, those of one name may be any
        job=f"{job.pipeline.id}/{job.name}" if job.pipeline.id else "",
        attempt=0 if job.retries_count is None else job.retries_count + 1,
        runner=_runner(job) if started_at is not None else "",
        platform=",".join(sorted(job.tag_list)),
        # of a matrix, without the values: "unit: [a, b]"
        kind=job.name.partition(": [")[0],
        matrix=str(job.pipeline.id or ""),
        user=(job.user and job.user.username) or "",
        attributes={
            "stage": job.stage or "",
            "branch": job.pipeline.ref or "",
            "source": job.pipeline.source or "",
            "project": "" if project is None else str(project),
        },
        needs=_needed(job),
        needs_known=job.needs is not None,
        group=_resource_group(job),
    )


def _runner(job: _Job) -> str:
    if job.runner is None:
        return ""
    name = job.runner.description or str(job.runner.id or "")
    manager = job.runner_manager and job.runner_manager.system_id
    return f"{name}/{manager}" if manager else name


def write(attempts: Iterable[Attempt]) -> Iterator[dict[str, object]]:
    """Yield jobs as the API has them; those that never started do not say since when they wait."""
    words = {"succeeded": "success", "cancelled": "canceled", "open": "running"}
    for pipeline, some in enumerate(by_matrix(attempts), 1):
        names = _names([one for _, one in some])
        for number, one in some:
            yield {
                "id": number,
                "status": words.get(one.result, "failed"),
                "failure_reason": "runner_system_failure" if one.result == "lost" else None,
                "name": names[one.job or one.id],
                "stage": "test",
                "created_at": stamp(one.submitted_at),
                "started_at": stamp(one.started_at),
                "finished_at": stamp(one.finished_at),
                "queued_duration": one.waited and round(one.waited, 3),
                "tag_list": one.platform.split(",") if one.platform else [],
                "runner": {"description": one.runner} if one.runner else None,
                "pipeline": {"id": pipeline},
                "user": {"username": one.user},
            }


def _names(attempts: Sequence[Attempt]) -> dict[str, str]:
    """Return a name for each job of a pipeline: no other has it, as an equal one is a retry."""
    kinds = {one.job or one.id: one.kind for one in attempts}
    times = Counter(kinds.values())
    numbers: Counter[str] = Counter()
    names = {}
    for job, kind in kinds.items():
        numbers[kind] += 1
        names[job] = kind if times[kind] == 1 else f"{kind}: [{numbers[kind]}]"
    return names


SOURCE = Source(read, knows, write, styles=(in_snake_case,))
