"""``taskcluster``: the queue's answers: task groups and statuses, and worker-manager's workers.

A task is pending from its run's ``scheduled``: ``created`` is earlier where it depends on others.
A run whose claim expired "ends" up to 20 minutes after its worker died, which is not known then.
The workers' pages say when each was requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import msgspec

from farm.records.attempt import Attempt, Result, by_word
from farm.records.reading import Reading, members
from farm.records.source import Source
from farm_twin.sources.writing import by_matrix, stamp

_RESULTS: dict[str, Result] = by_word(
    {
        "succeeded": "completed",
        "cancelled": "canceled deadline-exceeded superseded",
        "lost": "claim-expired worker-shutdown internal-error resource-unavailable "
        "intermittent-task",
    }
)
_CONDITIONS = {"all-completed": "succeeded", "all-resolved": "ended"}
"""How a task that another depends on must have ended, by the other's ``requires``."""
_PRIORITIES = ("lowest", "very-low", "low", "medium", "high", "very-high", "highest")


class _Run(msgspec.Struct, rename="camel"):
    run_id: int
    state: str
    scheduled: str | None = None
    started: str | None = None
    resolved: str | None = None
    reason_created: str = ""
    reason_resolved: str | None = None
    worker_group: str | None = None
    worker_id: str | None = None


class _Status(msgspec.Struct, rename="camel"):
    task_id: str
    task_queue_id: str = ""
    provisioner_id: str = ""
    worker_type: str = ""
    task_group_id: str = ""
    priority: str = ""
    project_id: str | None = None
    runs: list[_Run] = []


class _Metadata(msgspec.Struct):
    name: str = ""
    owner: str = ""


class _Task(msgspec.Struct):
    created: str | None = None
    dependencies: list[str] | None = None
    requires: str = ""
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Listed(msgspec.Struct):
    status: _Status
    task: _Task = msgspec.field(default_factory=_Task)


class _Worker(msgspec.Struct, rename="camel"):
    """A worker, as worker-manager lists them."""

    worker_group: str
    worker_id: str
    created: str | None = None


def knows(value: dict[str, object]) -> bool:
    """Return whether this is what Taskcluster's queue or worker-manager writes."""
    is_task = "taskGroupId" in value or "taskId" in value or _is_status(value.get("status"))
    lists_workers = any(
        isinstance(one, dict) and "workerId" in one for one in members(value, "workers")[:1]
    )
    return is_task or lists_workers or {"duration", "events"} <= value.keys()


def _is_status(found: object) -> bool:
    return isinstance(found, dict) and "taskId" in found


def read(reading: Reading) -> Iterator[Attempt]:
    """Yield a task's runs; how old their workers were is known after the last record."""
    created: dict[str, float | None] = {}
    found: list[Attempt] = []
    stored = _Store()
    for value in reading.objects():
        if "tasks" in value:
            for listed in reading.records(members(value, "tasks"), _Listed):
                found.extend(_attempts(listed, reading))
        elif _is_status(value.get("status")):
            for listed in reading.records([value], _Listed):
                found.extend(_attempts(listed, reading))
        elif "taskId" in value:
            for status in reading.records([value], _Status):
                found.extend(_attempts(_Listed(status), reading))
        elif "events" in value:
            stored.take(value, reading)
        elif "workers" in value:
            created |= reading.made(members(value, "workers"), _requested)
        else:
            reading.refuse_other(
                value, "a task group (tasks), a task's status, or a pool's workers"
            )
    found.extend(stored.attempts())
    for attempt in found:
        since = created.get(attempt.runner)
        if since is not None and attempt.started_at is not None and attempt.started_at >= since:
            attempt.runner_age = attempt.started_at - since
        yield attempt


def _requested(value: object, reading: Reading) -> tuple[str, float | None]:
    """Return a worker's name, and when it was requested."""
    worker = reading.record(value, _Worker)
    return f"{worker.worker_group}/{worker.worker_id}", reading.instant(worker.created, "created")


class _Store:
    """The tasks in a datastore.json, as its simulator and ``farm admin export`` write it."""

    def __init__(self) -> None:
        #: by task: milliseconds at which it was created, started and resolved, and its worker
        self._tasks: dict[str, dict[str, Any]] = {}

    def take(self, value: dict[str, object], reading: Reading) -> None:
        """Read events: instant, what happened, and to which task; others are of workers."""
        for event in reading.records(members(value, "events"), list[Any]):
            at, name, task, *more = event + 3 * [None]
            if not (isinstance(at, int | float) and isinstance(task, str)):
                reading.leave_out_unreadable(f"found {event!r:.60}; allowed: time, name, id")
                continue
            if str(name).startswith("task-"):
                known = self._tasks.setdefault(task, {})
                known[name] = at / 1000
                if name == "task-started":
                    known["worker"] = str(more[0] or "")

    def attempts(self) -> Iterator[Attempt]:
        """Yield the tasks."""
        for task, known in self._tasks.items():
            created_at, ended_at = known.get("task-created", 0.0), known.get("task-resolved")
            yield Attempt(
                id=task,
                submitted_at=created_at,
                eligible_at=created_at,
                started_at=known.get("task-started"),
                finished_at=ended_at,
                result="open" if ended_at is None else "succeeded",
                runner=known.get("worker", ""),
            )


def _attempts(listed: _Listed, reading: Reading) -> Iterator[Attempt]:
    # a task that ended before it was scheduled gets a run only to say so
    runs = [one for one in listed.status.runs if one.reason_created != "exception"]
    if not runs:
        reading.left_out["unscheduled"] += 1
    yield from reading.attempts(runs, partial(_attempt, listed))


def _attempt(listed: _Listed, run: _Run, reading: Reading) -> Attempt:
    status, metadata = listed.status, listed.task.metadata
    created_at = reading.instant(listed.task.created, "created")
    eligible_at = reading.needed(run.scheduled, "scheduled")
    finished_at = reading.instant(run.resolved, "resolved")
    reason = run.reason_resolved or ""
    result = _RESULTS.get(reason, "failed")
    if finished_at is None and result != "cancelled":
        result = "open"
    started_at = reading.instant(run.started, "started")
    if reason == "claim-expired":
        reading.noted["ended by an expired claim, up to 20 minutes after their workers"] += 1
    has_worker = started_at is not None and run.worker_id
    dependencies = listed.task.dependencies
    condition = _CONDITIONS.get(listed.task.requires, "succeeded")
    return Attempt(
        id=f"{status.task_id}/{run.run_id}",
        submitted_at=eligible_at if created_at is None or run.run_id else created_at,
        eligible_at=eligible_at,
        started_at=started_at,
        finished_at=finished_at,
        result=result,
        job=status.task_id,
        attempt=run.run_id + 1,
        runner=f"{run.worker_group}/{run.worker_id}" if has_worker else "",
        platform=status.task_queue_id or f"{status.provisioner_id}/{status.worker_type}",
        kind=metadata.name,
        matrix=status.task_group_id,
        user=metadata.owner,
        attributes={"project": status.project_id or "", "level": _level(status)},
        # a task that depends on nothing depends on its decision task, which creates it
        needs=tuple(f"{task}:{condition}" for task in dependencies or ()),
        needs_known=dependencies is not None,
    )


def _level(status: _Status) -> str:
    """Return the level of a priority; empty: the lowest, or another system's word."""
    known = status.priority in _PRIORITIES[1:]
    return str(_PRIORITIES.index(status.priority)) if known else ""


def write(attempts: Iterable[Attempt]) -> Iterator[dict[str, object]]:
    """Yield task groups as the queue lists them, a task for each job, with its runs."""
    for some in by_matrix(attempts):
        group = some[0][1].matrix or some[0][1].id
        tasks: dict[str, dict[str, Any]] = {}
        for _, one in some:
            task = one.job or one.id
            if task not in tasks:
                status = {"taskId": task, "taskQueueId": one.platform, "taskGroupId": group}
                level = min(max(0, one.level), len(_PRIORITIES) - 1)
                status["priority"] = _PRIORITIES[level]
                metadata = {"name": one.kind, "owner": one.user}
                tasks[task] = {
                    "status": {**status, "runs": []},
                    "task": {"created": stamp(one.submitted_at), "metadata": metadata},
                }
            tasks[task]["status"]["runs"].append(_run(one))
        yield {"taskGroupId": group, "tasks": list(tasks.values())}


def _run(one: Attempt) -> dict[str, object]:
    reasons = {"succeeded": "completed", "cancelled": "canceled", "lost": "worker-shutdown"}
    group, _, worker = one.runner.rpartition("/")
    return {
        "runId": one.attempt - 1,
        "state": "running" if one.finished_at is None else "completed",
        "reasonResolved": reasons.get(one.result, "failed"),
        "scheduled": stamp(one.arrived_at),
        "started": stamp(one.started_at),
        "resolved": stamp(one.finished_at),
        "workerGroup": group or "farm",
        "workerId": worker,
    }


SOURCE = Source(read, knows, write)
