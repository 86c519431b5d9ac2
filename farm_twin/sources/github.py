"""``github``: GitHub Actions' jobs and runs, and webhook bodies (Gitea's have the same form).

A job's pages have when it was created, picked up and completed; a run's, who caused it. Three
things are not as they seem. ``started_at`` may be older than the pickup, so a later first step
counts. A re-run lists copies of the jobs that had passed, under new ids. And a job that waits for
an approval or for others of its concurrency group is not waiting for a runner.

What a job needs is in no page: the workflow files have it (``workflow_files.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter

import msgspec

from farm.core.jobs.groups import group_of
from farm.records.attempt import Attempt, Result, by_word
from farm.records.labels import by_spelling
from farm.records.reading import Missing, Reading, members
from farm.records.source import Source
from farm_twin.sources.workflow_files import WorkflowFiles
from farm_twin.sources.writing import by_matrix, second

HOSTED = "GitHub Actions"
AT_ONCE = 2.0
"""Seconds within which a job that no runner had is cancelled by the system itself: no demand."""

_RESULTS: dict[str, Result] = by_word(
    {"succeeded": "success neutral", "cancelled": "cancelled skipped"}
)
#: what it writes beside jobs: webhooks' bodies, and runs
_OTHERS = ("workflow_job", "workflow_run", "workflow_runs", "run_number")
#: how runs end that may never have had a job
_WITHOUT_JOBS = ("skipped", "action_required", "startup_failure", "stale", "cancelled")
_HELD = {
    "waiting": "held back for an approval",
    "pending": "held back by a concurrency group",
    "requested": "not yet requested",
}


class _Step(msgspec.Struct):
    number: int = 0
    started_at: str | None = None


class _Job(msgspec.Struct):
    """A job, as pages and webhooks have it."""

    id: int
    status: str
    run_id: int = 0
    run_attempt: int = 1
    name: str = ""
    workflow_name: str | None = None
    head_branch: str | None = None
    conclusion: str | None = None
    created_at: str | None = None
    started_at: str | None = None
    completed_at: str | None = None
    labels: list[str] = []
    runner_id: int | None = None
    runner_name: str | None = None
    runner_group_name: str | None = None
    steps: list[_Step] | None = None


class _Actor(msgspec.Struct):
    login: str = ""


class _Repository(msgspec.Struct):
    full_name: str = ""


class _Run(msgspec.Struct):
    """What a run says of its jobs."""

    id: int
    #: of its workflow file
    path: str = ""
    created_at: str | None = None
    status: str | None = None
    conclusion: str | None = None
    event: str = ""
    actor: _Actor | None = None
    triggering_actor: _Actor | None = None
    repository: _Repository | None = None


class _Delivery(msgspec.Struct):
    """A webhook's body."""

    action: str
    workflow_job: _Job
    repository: _Repository | None = None


def knows(value: dict[str, object]) -> bool:
    """Return whether this is what GitHub writes."""
    some = members(value, "jobs")[:1]
    if not some and "jobs" in value:  # a page of a run without jobs
        return value.keys() == {"total_count", "jobs"}
    job = some[0] if some else value
    return isinstance(job, dict) and not {"run_id", *_OTHERS}.isdisjoint(job)


def read(reading: Reading, workflows: WorkflowFiles | None = None) -> Iterator[Attempt]:
    """Yield the attempts; who caused a job is known after the last record.

    What jobs need, and their groups, are in the workflow files, if these are given.
    """
    runs: dict[int, _Run] = {}
    listed = _Listed()
    delivered: dict[int, list[_Delivery]] = {}
    found: list[Attempt] = []
    for value in reading.objects():
        if "workflow_job" in value:
            for delivery in reading.records([value], _Delivery):
                delivered.setdefault(delivery.workflow_job.id, []).append(delivery)
        elif "jobs" in value or "run_id" in value:
            jobs = members(value, "jobs") if "jobs" in value else [value]
            listed.take(value, jobs)
            of_page = reading.attempts(reading.records(jobs, _Job), _attempt)
            found += map(reading.share, of_page)
        elif knows(value):
            listed_runs = [value.get("workflow_run", value)]
            if "workflow_runs" in value:
                listed_runs = members(value, "workflow_runs")
            for run in reading.records(listed_runs, _Run):
                runs[run.id] = run
        elif "hook" in value or "sender" in value:
            reading.left_out["webhook deliveries of other events"] += 1
        else:
            reading.refuse_other(
                value, "a page of jobs or runs (jobs, workflow_runs), or a webhook's workflow_job"
            )
    pages = {one.id: one for one in found} if delivered else {}
    for number, each in delivered.items():
        merged = next(reading.attempts([each], _delivered), None)
        if (page := pages.get(str(number))) and any(d.action == "waiting" for d in each):
            page.eligible_at = merged.eligible_at if merged else None
        found += [merged] if merged else []
    reading.missing += listed.missing_jobs()
    reading.missing += _runs_without_jobs(runs, found, listed)
    names = by_spelling(attempt.platform for attempt in found)
    for attempt in found:
        attempt.platform = names[attempt.platform]
        if known := runs.get(int(attempt.matrix)):
            _add(attempt, known)
    if workflows is not None:
        paths = {str(run.id): run.path for run in runs.values()}
        workflows.set_needs(found, paths, reading)
        for attempt in found:
            of_run = runs.get(int(attempt.matrix))
            if of_run is None or not of_run.created_at:
                continue
            if attempt.group and group_of(attempt.group).mode == "latest":
                _submit_with_run(attempt, reading.instant(of_run.created_at, "created_at"))
    yield from found


class _Listed:
    """The jobs of each run that pages list, and how many there are by their own word."""

    def __init__(self) -> None:
        self._announced: dict[int, int] = {}
        self.jobs_of_run: dict[int, set[str]] = {}

    def take(self, page: Mapping[str, object], jobs: Sequence[object]) -> None:
        """Count the jobs of a page."""
        for job in jobs:
            if not isinstance(job, dict):
                continue
            run = job.get("run_id")
            if not isinstance(run, int):
                continue
            self.jobs_of_run.setdefault(run, set()).add(str(job.get("id")))
            total = page.get("total_count")
            if isinstance(total, int):
                self._announced[run] = max(total, self._announced.get(run, 0))

    def missing_jobs(self) -> Iterator[Missing]:
        """Yield how many jobs are announced by total_count, and not listed."""
        missing = sum(
            max(0, total - len(self.jobs_of_run[run])) for run, total in self._announced.items()
        )
        if missing:
            there_are = missing + sum(len(self.jobs_of_run[run]) for run in self._announced)
            yield Missing("jobs", missing, there_are, "total_count: fetch all pages of each run")


def _runs_without_jobs(
    runs: Mapping[int, _Run], attempts: Iterable[Attempt], listed: _Listed
) -> Iterator[Missing]:
    """Yield how many runs ended, and have no jobs in the files."""
    with_jobs = {int(attempt.matrix) for attempt in attempts} | listed.jobs_of_run.keys()
    ended = {
        run.id
        for run in runs.values()
        if run.status in ("completed", None) and run.conclusion not in _WITHOUT_JOBS
    }
    without = ended - with_jobs
    if without:
        yield Missing("runs", len(without), len(ended | with_jobs), "fetch the jobs of each")


def _attempt(job: _Job, reading: Reading) -> Attempt:
    created_at = reading.instant(job.created_at, "created_at")
    finished_at = reading.instant(job.completed_at, "completed_at")
    if job.conclusion == "skipped" and (finished_at or 0.0) - (created_at or 0.0) <= AT_ONCE:
        reading.leave_out("skipped")
    started_at = None
    if job.runner_id or job.runner_name:
        # the first step's clock has milliseconds, and is right where started_at was not rewritten
        steps = [step for step in job.steps or () if step.started_at]
        first = min(steps, key=attrgetter("number")).started_at if steps else None
        times = [reading.instant(one, "started_at") for one in (job.started_at, first)]
        started_at = max((one for one in times if one is not None), default=None)
    if started_at is None and job.status in _HELD:
        reading.leave_out(_HELD[job.status])
    if started_at is None and finished_at is not None:
        if job.conclusion == "success":
            reading.leave_out("without a runner")
        if created_at is not None and abs(finished_at - created_at) <= AT_ONCE:
            reading.leave_out("cancelled at once, before any runner")
    if created_at is None:
        reading.noted["without created_at, their waits not known"] += 1
    submitted_at = created_at if created_at is not None else started_at
    if submitted_at is None:
        reading.leave_out("without a time of creation")
    return Attempt(
        id=str(job.id),
        submitted_at=submitted_at,
        eligible_at=created_at,
        started_at=started_at,
        finished_at=finished_at,
        result="open" if finished_at is None else _RESULTS.get(job.conclusion or "", "failed"),
        job=f"{job.run_id}/{job.name}",
        attempt=job.run_attempt,
        runner=(job.runner_name or str(job.runner_id or "")) if started_at is not None else "",
        platform=",".join(sorted(job.labels, key=str.casefold)),
        kind=job.name,
        matrix=str(job.run_id),
        attributes={"workflow": job.workflow_name or "", "branch": job.head_branch or ""},
        hosted=job.runner_group_name == HOSTED,
    )


def _delivered(deliveries: list[_Delivery], reading: Reading) -> Attempt:
    """Return what all deliveries of one job say; they may be repeated, and out of order."""
    stages = {"waiting": 1, "in_progress": 2, "completed": 3}
    deliveries.sort(key=lambda d: (stages.get(d.action, 0), d.workflow_job.started_at or ""))
    latest = deliveries[-1]
    if copies := len(deliveries) - len({(d.action, d.workflow_job.started_at) for d in deliveries}):
        reading.noted["webhook deliveries that came again"] += copies
    later = {one.action: one.workflow_job for one in deliveries}
    queued, job = later.get("queued"), latest.workflow_job
    if job.created_at is None and queued and "waiting" not in later:
        job.created_at = queued.started_at  # bodies of before 2022 have no other
    attempt = _attempt(job, reading)
    if (picked := later.get("in_progress")) and attempt.started_at is not None:
        picked_at = reading.instant(picked.started_at, "started_at") or attempt.started_at
        attempt.started_at = max(picked_at, attempt.started_at)
    if "waiting" in later:
        # an approval came first: it waited for a runner from when it was queued after that, which
        # a body that repeats the creation does not say
        at = reading.instant(queued.started_at, "started_at") if queued else None
        attempt.eligible_at = at if at is not None and at > attempt.submitted_at else None
        if attempt.eligible_at is None:
            reading.noted["held back for an approval, their waits not known"] += 1
    if latest.repository and latest.repository.full_name:
        attempt.attributes["repository"] = latest.repository.full_name
    return attempt


def _add(attempt: Attempt, run: _Run) -> None:
    actor = run.triggering_actor or run.actor
    attempt.user = actor.login if actor else ""
    more = {"event": run.event, "repository": run.repository and run.repository.full_name}
    known = {name: text for name, text in more.items() if text}
    attempt.attributes = {**attempt.attributes, **known}


def _submit_with_run(attempt: Attempt, created_at: float | None) -> None:
    """Let the first try of a job be submitted when its run was created.

    A run that waits for its group has no jobs yet: they are created when it has its place.
    """
    if created_at is not None and attempt.attempt == 1:
        attempt.submitted_at = min(attempt.submitted_at, created_at)


def write(attempts: Iterable[Attempt]) -> Iterator[dict[str, object]]:
    """Yield a page of jobs for each run, and one of all runs, as the API has them."""
    words = {"succeeded": "success", "cancelled": "cancelled", "open": None}
    users: dict[int, str] = {}
    for run, some in enumerate(by_matrix(attempts), 1):
        users[run] = some[0][1].user
        jobs = [
            {
                "id": number,
                "run_id": run,
                "run_attempt": one.attempt,
                "name": one.kind,
                "status": "completed" if one.finished_at is not None else "in_progress",
                "conclusion": words.get(one.result, "failure"),
                "created_at": second(one.arrived_at),
                "started_at": second(one.started_at or one.arrived_at),
                "completed_at": second(one.finished_at),
                "labels": one.platform.split(",") if one.platform else [],
                "runner_id": 0,
                "runner_name": one.runner,
                "runner_group_name": HOSTED if one.hosted else "Default",
            }
            for number, one in some
        ]
        yield {"total_count": len(jobs), "jobs": jobs}
    runs = [{"id": run, "event": "push", "actor": {"login": user}} for run, user in users.items()]
    yield {"total_count": len(runs), "workflow_runs": runs}


def source_with(workflows: WorkflowFiles) -> Source:
    """Return the source whose jobs need what workflow files say."""
    return SOURCE._replace(read=partial(read, workflows=workflows))


DAY = 86_400.0
SOURCE = Source(read, knows, write, resolution=1.0, longest_open=5 * DAY)
