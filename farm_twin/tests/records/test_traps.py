"""What is easily read wrongly in each source's records, a case each."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from farm.records.attempt import Attempt
from farm.records.bundle import Bundle
from farm_twin.importing import import_files
from tests.conftest import Said

DATA = Path(__file__).parent / "data"


def at(clock: str) -> str:
    """Return a time of the day of all these records."""
    return f"2026-11-02T{clock}Z"


def github(**changed: Any) -> dict[str, Any]:
    """Return a job that waited 10 s and ran 50 s."""
    return {
        "id": 1, "run_id": 1, "name": "test", "status": "completed", "conclusion": "success",
        "created_at": at("09:00:00"), "started_at": at("09:00:10"), "completed_at": at("09:01:00"),
        "labels": ["linux"], "runner_id": 7, "runner_name": "r-7",
    } | changed  # fmt: skip


def gitlab(**changed: Any) -> dict[str, Any]:
    """Return a job of a pipeline of an hour ago that waited 10 s and ran 50 s."""
    return {
        "id": 1, "name": "unit", "status": "success", "created_at": at("08:00:00"),
        "started_at": at("09:00:10"), "finished_at": at("09:01:00"), "queued_duration": 10.0,
        "tag_list": ["linux"], "runner": {"id": 3, "description": "big"}, "pipeline": {"id": 5},
    } | changed  # fmt: skip


def webhook(**changed: Any) -> dict[str, Any]:
    """Return the same job as a webhook's body."""
    return {
        "object_kind": "build", "build_id": 1, "build_name": "unit", "build_status": "success",
        "build_created_at": "2026-11-02 08:00:00 UTC", "build_queued_duration": 10.0,
        "build_started_at": "2026-11-02 09:00:10 UTC",
        "build_finished_at": "2026-11-02 09:01:00 UTC", "commit": {"id": 5},
        "runner": {"id": 3, "description": "big", "tags": ["linux"]},
    } | changed  # fmt: skip


def buildkite(*jobs: dict[str, Any]) -> dict[str, Any]:
    """Return a build of jobs that waited 10 s and ran 50 s."""
    plain = {
        "type": "script", "state": "passed", "created_at": at("08:00:00"),
        "runnable_at": at("09:00:00"), "started_at": at("09:00:10"),
        "finished_at": at("09:01:00"), "agent": {"name": "a-1", "hostname": "h"},
    }  # fmt: skip
    return {"id": "b", "number": 1, "jobs": [{"id": f"j{n}"} | plain | j for n, j in
                                             enumerate(jobs, 1)]}  # fmt: skip


def task(*runs: dict[str, Any]) -> dict[str, Any]:
    """Return a task with runs that waited 10 s and ran 50 s, without its definition."""
    plain = {
        "state": "completed", "reasonResolved": "completed", "scheduled": at("09:00:00"),
        "started": at("09:00:10"), "resolved": at("09:01:00"), "workerGroup": "g",
        "workerId": "w",
    }  # fmt: skip
    numbered = [{"runId": n} | plain | run for n, run in enumerate(runs)]
    return {"status": {"taskId": "T", "taskQueueId": "p/linux", "runs": numbered}}


def tasks(count: int) -> list[dict[str, Any]]:
    """Return tasks of one run each."""
    found = [task({}) for _ in range(count)]
    for number, one in enumerate(found):
        one["status"]["taskId"] = f"T{number}"
    return found


SACCT = "JobIDRaw|Submit|Eligible|Start|End|State|AllocCPUS|NodeList|Partition|Planned|ReqTRES"


def slurm(*rows: str) -> str:
    """Return what sacct prints of these rows."""
    return "\n".join([SACCT, *rows]).replace("~", "2026-11-02T")


def action(uuid: str = "u", **metadata: Any) -> dict[str, Any]:
    """Return a completed action that waited 10 s and ran 50 s."""
    times = {
        "worker": "w", "queuedTimestamp": at("09:00:00"),
        "workerStartTimestamp": "2026-11-02T09:00:10.000000001Z",
        "workerCompletedTimestamp": at("09:01:00"),
    } | metadata  # fmt: skip
    response = {"result": {"executionMetadata": times}}
    return {"historicalExecuteResponse": {"executeResponse": response}, "uuid": uuid}


def jenkins(*actions: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """Return a job with one build that was buildable for 10 s of the minute in the queue."""
    queue = {"queuingDurationMillis": 60_000, "buildableDurationMillis": 10_000}
    build = {
        "_class": "hudson.model.FreeStyleBuild", "number": 1, "timestamp": 1_793_610_010_000,
        "duration": 50_000, "builtOn": "n", "result": "SUCCESS",
        "actions": [{}, *(actions or [queue])],
    } | changed  # fmt: skip
    return {"fullName": "app", "allBuilds": [build]}


def matrix_run(**changed: Any) -> dict[str, Any]:
    """Return the seventh build of a configuration of a project."""
    run = {"_class": "hudson.matrix.MatrixRun", "number": 7, **changed}
    [build] = jenkins(**run)["allBuilds"]
    return build


def matrix_project(**configuration: Any) -> dict[str, Any]:
    """Return a multi-configuration project of one configuration, without builds of its own."""
    return {"fullName": "app", "allBuilds": [], "activeConfigurations": [configuration]}


def spawn(**metrics: Any) -> dict[str, Any]:
    """Return a remote spawn that waited 10 s and ran 50 s."""
    times = {"startTime": at("09:00:12"), "setupTime": "2s", "queueTime": "10s",
             "executionWallTime": "48s"} | metrics  # fmt: skip
    return {"mnemonic": "CppCompile", "runner": "remote", "targetLabel": "//a:b", "metrics": times}


def workload(spec: dict[str, Any] | None = None, **times: str) -> dict[str, Any]:
    """Return a workload with conditions that are true since these times."""
    conditions = [
        {"type": kind, "status": "True", "reason": "Succeeded", "lastTransitionTime": since}
        for kind, since in times.items()
    ]
    metadata = {"name": "a", "uid": "a", "creationTimestamp": at("09:00:00")}
    return {"kind": "Workload", "metadata": metadata, "spec": spec or {},
            "status": {"conditions": conditions}}  # fmt: skip


ADMITTED = {"QuotaReserved": at("09:00:05"), "Admitted": at("09:00:10"),
            "Finished": at("09:01:00")}  # fmt: skip
OTHER = {"id": 9, "name": "other"}


def workloads(count: int) -> list[dict[str, Any]]:
    """Return workloads that waited 10 s and ran 50 s."""
    found = [workload(**ADMITTED) for _ in range(count)]
    for number, one in enumerate(found):
        one["metadata"]["uid"] = f"w{number}"
    return found


class Trap(NamedTuple):
    """Records, and what is to be made of them: the only attempt, or why there is none of it."""

    source: str
    records: list[Any] | str
    #: the attempt's wait and run time, result and number; None: it is left out
    means: tuple[float | None, float | None, str, int] | None = (10.0, 50.0, "succeeded", 1)
    #: a part of what is counted
    told: str = ""
    #: what else the attempt is
    check: Callable[[Attempt], object] | None = None


TRAPS = {
    "a run without jobs is no demand": Trap("github", [
        github(), {"total_count": 0, "jobs": []}, {"total_count": 0, "workflow_runs": None},
        {"workflow_runs": [{"id": 2, "status": "queued"}, {"id": 3, "conclusion": "cancelled"}]},
    ]),
    "other events' deliveries, and null for an empty list": Trap("github", [
        {"zen": "x", "hook": {}}, {"action": "completed", "workflow_job": github(labels=None)}],
        told="other events", check=lambda one: one.platform == ""),
    "a run's own times are not its jobs'": Trap("github", [
        github(), {"workflow_runs": [{"id": 1, "run_started_at": at("12:00:00")}]}]),
    "an old server has no created_at": Trap(
        "github", [github(created_at=None)], (None, 50.0, "succeeded", 1), "waits not known"),
    "old webhooks have it in their first delivery": Trap("github", [
        {"action": "completed", "workflow_job": github(created_at=None)},
        {"action": "queued", "workflow_job": github(
            status="queued", created_at=None, started_at=at("09:00:00"), completed_at=None)}]),
    "an approval whose end no delivery has": Trap("github", [
        {"action": "waiting", "workflow_job": github(status="waiting", completed_at=None)},
        {"action": "queued", "workflow_job": github(started_at=at("09:00:00"))},
        {"action": "completed", "workflow_job": github()},
    ], (None, 50.0, "succeeded", 1), "held back for an approval, their waits not known"),
    "a webhook's job without a runner": Trap("github", [
        {"action": "completed", "workflow_job": github(
            conclusion="cancelled", runner_id=None, runner_name=None)},
    ], (None, None, "cancelled", 1)),
    "pages and deliveries of one job, held back for an approval": Trap("github", [
        {"jobs": [github(started_at=at("09:20:10"), completed_at=at("09:21:00"))]},
        {"action": "queued", "workflow_job": github(status="queued", started_at=at("09:20:00"))},
        {"action": "queued", "workflow_job": github(status="queued", started_at=at("09:00:00"))},
        {"action": "waiting", "workflow_job": github(status="waiting")},
    ], told="that came twice"),
    "pages of one job before and after its pickup": Trap("github", [
        github(status="queued", completed_at=None, runner_id=0, runner_name=""),
        github(status="in_progress", completed_at=None)], (10.0, None, "open", 1),
        "that came twice"),
    "a copy of what was cancelled while it waited": Trap("github", [
        github(runner_id=0, runner_name="", conclusion="cancelled"),
        github(id=2, run_attempt=2, runner_id=0, runner_name="", conclusion="cancelled",
               created_at=at("10:00:00"))], (None, None, "cancelled", 1),
        "copied from earlier attempts"),
    "a window without runs": Trap("github", [{"total_count": 0, "workflow_runs": []}, github()]),
    "runs line by line, and their deliveries": Trap("github", [
        {"id": 1, "run_number": 5, "actor": {"login": "ana"}}, github(),
        {"action": "completed", "workflow_run": {"id": 2, "event": None}, "sender": {}}],
        check=lambda one: one.user == "ana"),
    "Gitea has the beginning of 1970 for what is not yet": Trap("github", [
        github(status="queued", started_at="1970-01-01T00:00:00Z", runner_id=0, runner_name="",
               completed_at="1970-01-01T01:00:00+01:00")], (None, None, "open", 1)),
    "a job's clock in another zone than its steps'": Trap("github", [
        github(started_at=at("09:00:00"), steps=[{"started_at": "2026-11-02T18:00:10+09:00"}])]),
    "steps that are not in their order": Trap("github", [github(steps=[
        {"number": 2, "started_at": at("09:00:50")},
        {"number": 1, "started_at": at("09:00:10")}])]),
    "the year 9999 is an end that is not yet": Trap("github", [
        github(status="in_progress", completed_at="9999-12-31T23:59:59Z")],
        (10.0, None, "open", 1)),
    "pipelines are not jobs": Trap(
        "gitlab", [{"id": 5, "sha": "ab", "status": "success"}, gitlab()], told="pipelines"),
    "webhooks of pipelines": Trap("gitlab", [
        {"object_kind": "pipeline", "builds": []}, webhook()], told="other events"),
    "a bridge starts a pipeline, and takes no runner": Trap("gitlab", [
        gitlab(**OTHER), gitlab(runner=None, downstream_pipeline={"id": 6})], None, "no work"),
    "a matrix has its jobs' names": Trap(
        "gitlab", [gitlab(name="unit: [a, b]")],
        check=lambda one: (one.job, one.kind) == ("5/unit: [a, b]", "unit")),
    "without a pipeline no job is another's retry": Trap(
        "gitlab", [gitlab(pipeline=None)], check=lambda one: (one.job, one.matrix) == ("", "")),
    "a time limit is of the farm": Trap(
        "gitlab", [gitlab(status="failed", failure_reason="job_execution_timeout")],
        (10.0, 50.0, "lost", 1)),
    "an erased job keeps its times": Trap("gitlab", [gitlab(erased_at=at("10:00:00"))]),
    "a cancelled job's duration may grow": Trap("gitlab", [
        gitlab(**OTHER), gitlab(status="canceled", started_at=None, queued_duration=9e5)],
        None, "waiting since an unknown time"),
    "one runner is many machines": Trap(
        "gitlab", [gitlab(runner_manager={"system_id": "s_1"})],
        check=lambda one: one.runner == "big/s_1"),
    "times with the user's offset": Trap(
        "gitlab", [gitlab(started_at="2026-11-02T10:00:10.000+01:00")]),
    "a webhook's local times, and its pipeline": Trap("gitlab", [
        webhook(build_started_at="2026-11-02 17:00:10 +0800", retries_count=1)],
        (10.0, 50.0, "succeeded", 2), check=lambda one: one.matrix == "5"),
    "a webhook's better times": Trap("gitlab", [
        webhook(build_started_at="2026-11-02 09:00 UTC", build_started_at_iso=at("09:00:10"))]),
    "labels come with the pickup": Trap("gitlab", [
        webhook(), webhook(build_status="pending", build_started_at=None, build_finished_at=None,
                     runner=None)], check=lambda one: one.platform == "linux"),
    "scheduled_at is before the job is due": Trap(
        "buildkite", [buildkite({"scheduled_at": at("07:00:00")})]),
    "what is held by a concurrency group": Trap("buildkite", [buildkite(
        {"id": "x", "state": "limited", "started_at": None, "finished_at": None}, {})],
        None, "never due"),
    "what was broken or skipped": Trap("buildkite", [buildkite(
        {"id": "x", "state": "broken", "started_at": None}, {})], None, "never due"),
    "blocks and triggers": Trap(
        "buildkite", [buildkite({"id": "x", "type": "trigger"}, {})], None, "no work"),
    "an expired job has another end": Trap("buildkite", [buildkite(
        {"state": "expired", "started_at": None, "finished_at": None, "expired_at": at("10:00:00")}
    )], (None, None, "cancelled", 1)),
    "an agent that went silent": Trap(
        "buildkite", [buildkite({"state": "failed", "exit_status": -1})], (10.0, 50.0, "lost", 1)),
    "what is held by the plan's limit": Trap("buildkite", [buildkite(
        {"id": "x", "state": "platform_limited", "started_at": None, "finished_at": None}, {})],
        None, "never due"),
    "retried jobs that were not fetched": Trap(
        "buildkite", [buildkite({"retries_count": 2})], (10.0, 50.0, "succeeded", 3)),
    "times as webhooks have them": Trap(
        "buildkite", [buildkite({"runnable_at": "2026-11-02 09:00:00 UTC"})]),
    "no rules are the default queue": Trap(
        "buildkite", [buildkite({})], check=lambda one: one.platform == "queue=default"),
    "agents of one host": Trap(
        "buildkite", [buildkite({})], check=lambda one: one.runner == "h"),
    "a status without its task, and an empty page": Trap(
        "taskcluster", [task({}), {"taskGroupId": "G", "tasks": [], "continuationToken": "c"}]),
    "an expired claim": Trap("taskcluster", [task(
        {"state": "exception", "reasonResolved": "claim-expired"})],
        (10.0, 50.0, "lost", 1), "up to 20 minutes after their workers"),
    "a run that only says how a task ended before it was due": Trap("taskcluster", [
        {"status": task({})["status"] | {"taskId": "U"}},
        task({"state": "exception", "reasonCreated": "exception", "reasonResolved": "canceled",
              "started": None, "resolved": at("09:00:00")})], told="unscheduled"),
    "messages of a task, without the last": Trap("taskcluster", [
        task({"state": "pending", "started": None, "resolved": None}),
        task({"state": "running", "resolved": None})], (10.0, None, "open", 1)),
    "a pool's workers say when they were requested": Trap("taskcluster", [
        task({}), {"workers": [{"workerGroup": "g", "workerId": "w", "created": at("08:59:00")}]}],
        check=lambda one: one.runner_age == 70.0),
    "a datastore of the simulator": Trap("taskcluster", [{"duration": 9e6, "events": [
        [0, "worker-requested", "w", {"capacity": 1}], [1e6, "task-created", "T"],
        [1010000.0, "task-started", "T", "w"], [1060000.0, "task-resolved", "T"]]}],
        check=lambda one: one.runner == "w"),
    "Planned counts until now": Trap("slurm", slurm(
        "1|~08:00:00|~09:00:00|~09:00:10|~09:01:00|COMPLETED|8|n1|gpu|9999|cpu=8")),
    "a pending job is not yet eligible": Trap("slurm", slurm(
        "1|~08:00:00|~09:00:00|~09:00:10|~09:01:00|COMPLETED|8|n1|gpu|10|",
        "2|~08:00:00|Unknown|Unknown|Unknown|PENDING|0|None assigned|gpu|0|"),
        told="not yet eligible"),
    "steps are parts of their jobs": Trap("slurm", slurm(
        "1|~08:00:00|~09:00:00|~09:00:10|~09:01:00|COMPLETED|8|n1|gpu|10|",
        "1.batch|~09:00:10|~09:00:10|~09:00:10|~09:01:00|COMPLETED|8|n1||10|"), told="steps"),
    "several nodes are not one slot": Trap("slurm", slurm(
        "1|~08:00:00|~09:00:00|~09:00:10|~09:01:00|COMPLETED|64|n[02-03]|gpu|10|"),
        told="jobs of several nodes, so without a runner",
        check=lambda one: one.runner == ""),
    "what two calls print": Trap("slurm", slurm(
        "1|~08:00:00|~09:00:00|~09:00:10|~09:01:00|COMPLETED|64|n1|gpu|10|", SACCT)),
    "GPUs are labels, too": Trap("slurm", slurm(
        "1|~08:00:00|~09:00:00|~09:00:10|~09:01:00|COMPLETED|8|n1|gpu|10|cpu=8,gres/gpu:a100=2"),
        check=lambda one: one.platform == "gpu,gpu:a100"),
    "features are labels, too": Trap("slurm", slurm(
        "1|~08:00:00|~09:00:00|~09:00:10|~09:01:00|COMPLETED|8|n1|gpu|a100&ib|").replace(
        "Planned", "Constraints"), check=lambda one: one.platform == "gpu,a100,ib"),
    "what never started had asked for processors": Trap("slurm", slurm(
        "1|~08:00:00|~09:00:00|None|~09:01:00|CANCELLED by 7|0|None assigned|gpu||cpu=8,node=1"),
        (None, None, "cancelled", 1), check=lambda one: one.slots == 8),
    "times as SLURM_TIME_FORMAT=%s prints them": Trap("slurm", slurm(
        "1|1793606400|1793610000|1793610010|1793610060|COMPLETED|8|n1|gpu||")),
    "numbers that may be none, or endless": Trap("slurm", [{"jobs": [
        {"job_id": 1, "state": {"current": ["COMPLETED"]}, "nodes": "n1", "time": {
            "submission": 1793606400, "eligible": {"set": True, "number": 1793610000},
            "start": 1793610010, "end": 1793610060}},
        {"job_id": 2, "state": {"current": ["PENDING"]}, "time": {
            "submission": 1793606400, "eligible": 2**64 - 1}},
        {"job_id": 3, "state": {"current": ["PENDING"]}, "time": {
            "submission": 1793606400, "eligible": {"set": False, "infinite": True}}},
    ]}], told="not yet eligible"),
    "an older sacct has one state": Trap("slurm", [{"jobs": [{
        "job_id": 1, "state": {"current": "COMPLETED"}, "nodes": "n1",
        "time": {"submission": 1793606400, "eligible": 1793610000, "start": 1793610010,
                 "end": 1793610060}}]}]),
    "a message that came twice": Trap("reapi", [action(), action()], told="that came twice"),
    "an action's result, as a client has it": Trap(
        "reapi", [action()["historicalExecuteResponse"]["executeResponse"]["result"]]),
    "an action has the invocations that fair share goes by": Trap("reapi", [action(
        auxiliaryMetadata=[{"toolInvocationId": "b1", "correlatedInvocationsId": "c1",
                            "actionMnemonic": "CppCompile", "targetId": ""}])],
        check=lambda one: (one.matrix, one.kind, one.attributes) == ("b1", "CppCompile", {
            "tool_invocation_id": "b1", "correlated_invocations_id": "c1"})),
    "an action without a worker": Trap(
        "reapi", [action(), action("v", worker="")], told="without the times of a worker"),
    "an action whose worker did not complete it": Trap(
        "reapi", [action(), action("v", workerCompletedTimestamp=None)],
        told="without the times of a worker"),
    "nothing but sums without the fields' names": Trap(
        "jenkins", [jenkins({"queuingDurationMillis": 60_000})], (None, 50.0, "succeeded", 1),
        "without buildableDurationMillis"),
    "the jobs of a folder": Trap("jenkins", [{"_class": "com.….Folder", "jobs": [jenkins()]}],
        check=lambda one: one.kind == "app"),
    "a running build": Trap(
        "jenkins", [jenkins(result=None, duration=0)], (10.0, None, "open", 1)),
    "a build with its result, but not yet done": Trap(
        "jenkins", [jenkins(building=True, duration=0)], (10.0, None, "open", 1)),
    "the built-in node": Trap(
        "jenkins", [jenkins(builtOn="")], check=lambda one: one.runner == "built-in"),
    "a matrix's parent takes no executor": Trap("jenkins", [
        jenkins(), jenkins(_class="hudson.matrix.MatrixBuild", number=2)], told="no work"),
    "a configuration's build names the one that started it": Trap("jenkins", [matrix_project(
        name="os=linux", allBuilds=[matrix_run(actions=[
            {"queuingDurationMillis": 60_000, "buildableDurationMillis": 10_000},
            {"causes": [{"upstreamProject": "app", "upstreamBuild": 9}]}])])],
        check=lambda one: (one.matrix, one.kind) == ("app#9", "app/os=linux")),
    "or else has its number": Trap("jenkins", [matrix_project(
        fullName="app/os=linux", allBuilds=[matrix_run()])],
        check=lambda one: (one.matrix, one.id) == ("app#7", "app/os=linux#7")),
    "below its own build, and not those of an earlier one": Trap("jenkins", [
        {"fullName": "app", "allBuilds": [jenkins(
            _class="hudson.matrix.MatrixBuild", number=7, runs=[
                matrix_run(url="http://ci/job/app/os%3Dlinux/7/"),
                matrix_run(url="http://ci/job/app/os%3Dmac/6/", number=6),
                {"number": 7, "url": "http://ci/job/app/os%3Dbsd/7/"},
            ])["allBuilds"][0]]}],
        told="no work",
        check=lambda one: (one.matrix, one.kind) == ("app#7", "app/os=linux")),
    "nor does a pipeline without parts": Trap("jenkins", [
        jenkins(), jenkins(_class="org.jenkinsci.plugins.workflow.job.WorkflowRun", number=2)],
        told="no work"),
    "a spawn that was tried again": Trap(
        "bazel", [spawn(retryTime="5s")], told="one wait for all tries"),
    "a hit has an old time": Trap("bazel", [
        spawn(), spawn() | {"cacheHit": True, "runner": "disk cache hit"}],
        told="served from the cache"),
    "pods start after the admission": Trap(
        "kueue", [workload(**ADMITTED, PodsReady=at("09:00:40"))]),
    "a workload that is held": Trap("kueue", [
        workload(**ADMITTED),
        workload({"active": False}) | {
            "metadata": {"uid": "b", "creationTimestamp": at("09:00:00")}},
    ], told="held"),
    "a watch's last word": Trap("kueue", [
        {"type": "ADDED", "object": workload()},
        {"type": "MODIFIED", "object": workload(**ADMITTED)},
        {"type": "DELETED", "object": workload(**ADMITTED)}]),
    "a watch that broke off": Trap("kueue", [
        {"type": "BOOKMARK", "object": {"kind": "Workload", "metadata": {"resourceVersion": "1"}}},
        {"type": "ADDED", "object": workload(**ADMITTED)},
        {"type": "ERROR", "object": {"kind": "Status", "code": 410}}], told="events of a watch"),
    "a workload that was deleted while it waited": Trap("kueue", [
        {"type": "ADDED", "object": workload()},
        {"type": "DELETED", "object": workload() | {"metadata": {
            "name": "a", "uid": "a", "creationTimestamp": at("09:00:00"),
            "deletionTimestamp": at("09:30:00")}}}], (None, None, "cancelled", 1)),
    "a workload that was deleted, it is not known when": Trap("kueue", [
        {"type": "ADDED", "object": workload()}, {"type": "DELETED", "object": workload()},
        workload(**ADMITTED) | {"metadata": {
            "uid": "b", "creationTimestamp": at("09:00:00")}}], told="not known when"),
    "the items of a list of workloads do not say what they are": Trap("kueue", [{
        "kind": "WorkloadList", "items": [workload(**ADMITTED) | {"kind": None}]}]),
    "a member that the first objects have not": Trap("jsonl", [
        {"submitted": None}, {"submitted": at("09:00:00"), "started": at("09:00:10"),
                              "finished": at("09:01:00"), "kind": "unit"}],
        told="without a time of submission", check=lambda one: one.kind == "unit"),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap(name: str, tmp_path: Path):
    """It is one attempt with the right wait, or it is counted why it is none."""
    trap = TRAPS[name]
    bundle = read(trap, tmp_path / "log")
    known = bundle.manifest
    assert trap.told in ", ".join([*known.left_out, *known.noted])
    if trap.means is None:
        assert sum(known.left_out.values()) == 1
        return
    [one] = bundle.attempts
    waited = None if one.waited is None else round(one.waited, 6)
    ran = None if one.ran is None else round(one.ran, 6)
    assert (waited, ran, one.result, one.attempt) == trap.means
    assert trap.check is None or trap.check(one)


OTHER_WORKLOAD = workload({"queueName": "lq"}, **ADMITTED)
OTHER_WORKLOAD["metadata"] = {"uid": "b", "creationTimestamp": at("09:00:00")}
OTHER_WORKLOAD["status"]["admission"] = {"clusterQueue": "cq"}
RESULT = action()["historicalExecuteResponse"]["executeResponse"]["result"]


@pytest.mark.parametrize(
    ("source", "records"),
    [
        ("github", [github(), github(id=2)]),
        ("github", [{"action": "completed", "workflow_run": {"id": 1}}, github(), github(id=2)]),
        ("buildkite", [{"number": 2, "pipeline": {}, "jobs": []}, buildkite({}, {})]),
        ("reapi", [RESULT, action(worker="v")["historicalExecuteResponse"]["executeResponse"]]),
        ("jenkins", [jenkins() | {"fullName": None},
                     jenkins(timestamp=1_793_610_910_000) | {"fullName": None}]),
        ("jenkins", [{"jobs": [{**jenkins(), "fullName": None, "name": name} for name in "ab"]}]),
        *(("gitlab", [{name: value for name, value in gitlab(id=number).items() if name != without}
                      for number in (1, 2)])
          for without in ("tag_list", "queued_duration")),
        ("kueue", [{"kind": "List", "items": []}, workload({"queueName": "lq"}), OTHER_WORKLOAD]),
        ("kueue", [workload({"queueName": "lq"}), OTHER_WORKLOAD]),
    ],
)  # fmt: skip
def test_two_records_are_recognised_and_kept_apart(source: str, records: list[Any], tmp_path: Path):
    """By their first object, whatever it is; without ids they are not copies of each other."""
    (tmp_path / "log").write_text("\n".join(map(json.dumps, records)))
    bundle = import_files([tmp_path / "log"])
    assert bundle.manifest.source == source
    one, other = bundle.attempts
    assert one.id != other.id
    assert one.platform == other.platform


@pytest.mark.parametrize(
    ("source", "records"),
    [
        ("github", [github(id=None if n == 3 else n, run_id=n) for n in range(12)]),
        ("github", [{"jobs": [github(id={} if n == 3 else n) for n in range(12)]}]),
        ("github", [{"action": "completed", "workflow_job": github(
            id=n, run_id=n, labels=3 if n == 3 else [])} for n in range(12)]),
        ("github", [*(github(id=n, run_id=n) for n in range(11)),
                    {"workflow_runs": [{"id": None}, {"id": 1}]}]),
        ("gitlab", [gitlab(id=n, name="x", pipeline=5 if n == 3 else None) for n in range(12)]),
        ("gitlab", [webhook(build_id=None if n == 3 else n) for n in range(12)]),
        ("buildkite", [buildkite(*({"name": []} if n == 3 else {} for n in range(12)))]),
        ("buildkite", [buildkite(*({} for _ in range(12))),
                       {"number": 2, "pipeline": "p", "jobs": []}]),
        ("taskcluster", [{"tasks": [*tasks(11), task({"scheduled": None})]}]),
        ("taskcluster", [*tasks(11), task({"started": "soon"})]),
        ("taskcluster", [*tasks(11), {"taskId": 7, "runs": None}]),
        ("taskcluster", [*tasks(11), {"workers": [{"workerId": "w", "created": "x"}]}]),
        ("kueue", [{"kind": "List", "items": [*workloads(11), workload() | {"spec": 7}]}]),
        ("kueue", [*workloads(11), workload(Admitted="soon")]),
        ("slurm", slurm(*(f"{n}|2026-11-02T09:00:00|2026-11-02T09:00:00|2026-11-02T09:00:10|"
                          f"2026-11-02T09:01:00|COMPLETED|1|n{n}|cpu||" for n in range(11)),
                        "11|Unknown|Unknown|Unknown|Unknown|COMPLETED|1|n1|cpu||")),
        ("bazel", [{"mnemonic": "M", "runner": "remote", "targetLabel": f"//a:{n}",
                    "metrics": {"startTime": at("09:00:00"), "queueTime": queued}}
                   for n, queued in enumerate([*11 * ["1s"], "long"])]),
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_read_is_left_out(
    source: str, records: list[Any] | str, tmp_path: Path
):
    """One null of an API in a year of records is not the end of all of them."""
    bundle = read(Trap(source, records), tmp_path / "log")
    assert len(bundle.attempts) >= 11
    [(reason, count)] = bundle.manifest.left_out.items()
    assert (reason.partition(" (")[0], count) == ("that could not be read", 1)


def test_a_watch_knows_when_each_admission_ended(tmp_path: Path):
    """A workload that was evicted has two attempts and two waits; its last state has one."""
    again = {"QuotaReserved": at("09:20:00"), "Admitted": at("09:20:00")}
    evicted = workload(**ADMITTED | {"Evicted": at("09:10:00")})
    del evicted["status"]["conditions"][2]  # not finished
    states = [workload(), workload(QuotaReserved=at("09:00:05"), Admitted=at("09:00:10")), evicted,
              workload(Evicted=at("09:10:00")), workload(**again),
              workload(**again, Finished=at("09:40:00"))]  # fmt: skip
    told = [{"type": "MODIFIED", "object": one} for one in states]
    for count, last in ((6, (600.0, 1200.0, "succeeded")), (3, (None, None, "open"))):
        bundle = read(Trap("kueue", told[:count]), tmp_path / "watch")
        assert [(one.job, one.attempt, one.waited, one.ran, one.result)
                for one in bundle.attempts] == [
            ("a", 1, 10.0, 590.0, "lost"), ("a", 2, *last)]  # fmt: skip
    assert "evicted" in str(read(Trap("kueue", [evicted]), tmp_path / "w").manifest.noted)


def read(trap: Trap, path: Path) -> Bundle:
    """Return what a trap's records tell."""
    told = trap.records if isinstance(trap.records, str) else json.dumps(trap.records, indent=1)
    path.write_text(told)
    return import_files([path], trap.source, zone=UTC)


@pytest.mark.parametrize("path", sorted(DATA.iterdir()), ids=lambda path: path.stem)
def test_a_preview_needs_no_output(path: Path, farm: Callable[..., Said]):
    """Of each source, also of taskcluster, which is the name of a trace format, too."""
    zone = ("--zone", "UTC") if path.stem == "slurm" else ()
    said = farm("import", path.stem, path, "--show", *zone)
    assert said.code == 0
    assert said.out.splitlines()[1].startswith("job")
