"""``taskcluster``: the queue's answers: task groups and statuses, and worker-manager's workers.

A task is pending from its run's ``scheduled``: ``created`` is earlier where it depends on others.
A run whose claim expired "ends" up to 20 minutes after its worker died.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from farm.records.attempt import Attempt, Result
from farm.records.reading import Reading, members
from farm.records.writing import by_matrix, stamp, waits_from

_RESULTS: dict[str, Result] = {"completed": "succeeded", "failed": "failed"}
_CANCELLED = {"canceled", "deadline-exceeded", "superseded"}
_OF_THE_FARM = {"claim-expired", "worker-shutdown", "internal-error", "resource-unavailable",
                "intermittent-task"}  # fmt: skip


class _Run(msgspec.Struct, rename="camel"):
    run_id: int
    state: str
    scheduled: str | None = None
    started: str | None = None
    resolved: str | None = None
    reason_resolved: str | None = None
    worker_group: str | None = None
    worker_id: str | None = None


class _Status(msgspec.Struct, rename="camel"):
    task_id: str
    task_queue_id: str = ""
    provisioner_id: str = ""
    worker_type: str = ""
    task_group_id: str = ""
    project_id: str | None = None
    runs: list[_Run] = []


class _Metadata(msgspec.Struct):
    name: str = ""
    owner: str = ""


class _Task(msgspec.Struct):
    created: str | None = None
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Listed(msgspec.Struct):
    status: _Status
    task: _Task = msgspec.field(default_factory=_Task)


def knows(value: dict[str, Any]) -> bool:
    """Return whether this is what Taskcluster's queue writes."""
    return "taskGroupId" in value or "taskId" in value or _is_status(value.get("status"))


def _is_status(found: Any) -> bool:
    return isinstance(found, dict) and "taskId" in found


def read(reading: Reading) -> Iterator[Attempt]:
    """Yield a task's runs."""
    for value in reading.objects():
        if "tasks" in value:
            for one in members(value, "tasks"):
                yield from _attempts(reading.record(one, _Listed), reading)
        elif _is_status(value.get("status")):
            yield from _attempts(reading.record(value, _Listed), reading)
        elif "taskId" in value:
            yield from _attempts(_Listed(reading.record(value, _Status)), reading)
        else:
            reading.refuse_other(value, "a task group (tasks), or a task's status")


def _attempts(listed: _Listed, reading: Reading) -> Iterator[Attempt]:
    status, metadata = listed.status, listed.task.metadata
    if not status.runs:
        reading.leave_out("unscheduled")
    created_at = reading.instant(listed.task.created, "created")
    for run in status.runs:
        eligible_at = reading.needed(run.scheduled, "scheduled")
        finished_at = reading.instant(run.resolved, "resolved")
        reason = run.reason_resolved or ""
        result: Result = "open" if finished_at is None else _RESULTS.get(reason, "failed")
        if result == "failed" and reason in _OF_THE_FARM:
            result = "lost"
        elif reason in _CANCELLED:
            result = "cancelled"
        started_at = reading.instant(run.started, "started")
        has_worker = started_at is not None and run.worker_id
        yield Attempt(
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
            attributes={"project": status.project_id} if status.project_id else {},
        )


def write(attempts: Iterable[Attempt]) -> Iterator[dict[str, Any]]:
    """Yield task groups as the queue lists them, a task for each attempt."""
    reasons = {"succeeded": "completed", "cancelled": "canceled", "lost": "worker-shutdown"}
    for some in by_matrix(attempts):
        group = some[0][1].matrix or some[0][1].id
        tasks = []
        for _, one in some:
            group_of, _, worker = one.runner.rpartition("/")
            run = {
                "runId": 0,
                "state": "running" if one.finished_at is None else "completed",
                "reasonResolved": reasons.get(one.result, "failed"),
                "scheduled": stamp(waits_from(one)),
                "started": stamp(one.started_at),
                "resolved": stamp(one.finished_at),
                "workerGroup": group_of or "farm",
                "workerId": worker,
            }
            status = {"taskId": one.id, "taskQueueId": one.platform, "taskGroupId": group}
            metadata = {"name": one.kind, "owner": one.user}
            task = {"created": stamp(one.submitted_at), "metadata": metadata}
            tasks.append({"status": {**status, "runs": [run]}, "task": task})
        yield {"taskGroupId": group, "tasks": tasks}
