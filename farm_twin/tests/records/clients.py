"""The same forty jobs as the client libraries of each system write them.

They are of no farm: one comes every two minutes, three machines run them for 400 s each, first come
first served, so that more work comes than can be done. What differs is the form: keys in snake or
camel case, pages or bare lists or JSON lines, times as text or numbers, and what stands where there
is nothing (null, the year 1, an empty object, no key at all).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

START = 1_793_606_400
COUNT, BETWEEN, RUN, RUNNERS = 40, 120, 400, 3
NO_TIME = "0001-01-01T00:00:00Z"
Record = dict[str, Any]


class Ran(NamedTuple):
    """A job: when it came, began and ended, seconds since 1970, and on which machine."""

    number: int
    came: int
    began: int
    ended: int
    runner: str


def jobs() -> list[Ran]:
    """Return the jobs, first come first served."""
    free_at = dict.fromkeys((f"m{number}" for number in range(RUNNERS)), START)
    found = []
    for number in range(COUNT):
        came = START + BETWEEN * number
        runner = min(free_at, key=free_at.__getitem__)
        began = max(came, free_at[runner])
        free_at[runner] = began + RUN
        found.append(Ran(number + 1, came, began, began + RUN, runner))
    return found


def stamp(at: int, digits: str = "", zone: str = "Z") -> str:
    """Return an instant as text."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}{digits}{zone}"


def lines(records: Sequence[Record]) -> str:
    """Return a record a line."""
    return "".join(json.dumps(record) + "\n" for record in records)


def table(rows: Sequence[Record], delimiter: str = ",") -> str:
    """Return rows below the names of their columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


# GitHub: gh api --paginate --slurp leaves pages in a list, octokit's paginate() a list of jobs with
# nulls, go-github leaves out what is nil, and jq -c '.jobs[]' makes lines of them


def github(one: Ran) -> Record:
    """Return a job as the API has it."""
    return {
        "id": 900 + one.number, "run_id": one.number, "run_attempt": 1, "name": "test",
        "status": "completed", "conclusion": "success", "created_at": stamp(one.came),
        "started_at": stamp(one.began), "completed_at": stamp(one.ended), "labels": ["linux"],
        "runner_id": 7, "runner_name": one.runner, "runner_group_name": None, "head_branch": None,
        "steps": [{"name": "Set up", "number": 1, "started_at": stamp(one.began, ".000")}],
    }  # fmt: skip


def of_go(record: Record) -> Record:
    """Return a record without what is nil or empty."""
    return {name: value for name, value in record.items() if value not in (None, "", [])}


def github_slurped(all_jobs: list[Ran]) -> str:
    """Return pages in a list."""
    return json.dumps([{"total_count": 1, "jobs": [github(one)]} for one in all_jobs])


def github_octokit(all_jobs: list[Ran]) -> str:
    """Return a list of jobs."""
    return json.dumps(list(map(github, all_jobs)), indent=2)


def github_go(all_jobs: list[Ran]) -> str:
    """Return what go-github marshals."""
    return lines([{"total_count": 1, "jobs": [of_go(github(one))]} for one in all_jobs])


# GitLab: python-gitlab prints the API's jobs, go-gitlab and glab an empty runner and tag_list null,
# gitbeaker camel case


def gitlab(one: Ran) -> Record:
    """Return a job as the API has it."""
    return {
        "id": one.number, "name": "test", "stage": "test", "status": "success",
        "created_at": stamp(START - 60, ".000"), "started_at": stamp(one.began, ".000"),
        "finished_at": stamp(one.ended, ".000"), "duration": float(RUN),
        "queued_duration": float(one.began - one.came), "tag_list": ["linux"],
        "runner": {"id": 3, "description": one.runner}, "failure_reason": None,
        "pipeline": {"id": 1000 + one.number, "project_id": 1, "ref": "main"},
        "user": {"username": "ana"}, "commit": None,
    }  # fmt: skip


def gitlab_python(all_jobs: list[Ran]) -> str:
    """Return what python-gitlab's command prints."""
    return json.dumps(list(map(gitlab, all_jobs)))


def gitlab_go(all_jobs: list[Ran]) -> str:
    """Return what glab prints: with an empty runner for a job that never had one."""
    waits = gitlab(all_jobs[-1]) | {
        "id": 99, "status": "manual", "started_at": None, "finished_at": None, "tag_list": None,
        "queued_duration": 0, "runner": {"id": 0, "description": "", "active": False},
    }  # fmt: skip
    plain = [gitlab(one) | {"failure_reason": "", "created_at": stamp(START)} for one in all_jobs]
    return json.dumps([waits, *plain])


def camel(value: Any) -> Any:
    """Return a value with keys in camel case."""
    if isinstance(value, list):
        return list(map(camel, value))
    if not isinstance(value, dict):
        return value
    return {
        "".join([first, *map(str.title, others)]): camel(inner)
        for first, *others, inner in ((*name.split("_"), inner) for name, inner in value.items())
    }


def gitlab_gitbeaker(all_jobs: list[Ran]) -> str:
    """Return what gitbeaker returns where it was asked for camel case."""
    return json.dumps(camel(list(map(gitlab, all_jobs))))


# Buildkite: the API's builds, go-buildkite's list of a build's jobs, webhooks and EventBridge


def buildkite(one: Ran) -> Record:
    """Return a job as the API has it."""
    return {
        "id": f"j{one.number}", "type": "script", "state": "passed", "name": "test",
        "created_at": stamp(START, ".000"), "runnable_at": stamp(one.came, ".000"),
        "started_at": stamp(one.began, ".000"), "finished_at": stamp(one.ended, ".000"),
        "agent_query_rules": ["queue=linux"], "agent": {"name": one.runner},
        "build_url": f"https://api.buildkite.com/v2/organizations/o/pipelines/p/builds/{one.number}",
        "exit_status": 0, "retries_count": None, "priority": {"number": 0},
    }  # fmt: skip


def buildkite_builds(all_jobs: list[Ran]) -> str:
    """Return the API's builds."""
    waiter = {"id": "w", "type": "waiter", "state": "passed"}
    return json.dumps(
        [
            {"id": f"b{one.number}", "number": one.number, "pipeline": {"slug": "p"},
             "creator": None, "jobs": [buildkite(one), waiter]}
            for one in all_jobs
        ]
    )  # fmt: skip


def buildkite_go(all_jobs: list[Ran]) -> str:
    """Return pages of go-buildkite's jobs: an agent that there is not is an empty object."""
    waiter = {"id": "w", "type": "waiter", "agent": {}, "web_url": "", "priority": None}
    plain = [of_go(buildkite(one)) | {"retried": False} for one in all_jobs]
    return lines([{"items": [waiter, *plain[:20]], "links": {}}, {"items": plain[20:]}])


def buildkite_events(all_jobs: list[Ran]) -> str:
    """Return events of EventBridge, of which each job has two."""
    found = []
    for one in all_jobs:
        job = buildkite(one) | {"uuid": f"j{one.number}"}
        del job["id"]
        for at in ("started_at", "finished_at"):
            job[at] = job[at].replace("T", " ").replace(".000Z", " UTC")
        begun = job | {"state": "running", "finished_at": None}
        build = {"uuid": f"b{one.number}", "number": one.number}
        found += [
            {"detail-type": "Job", "detail": {"version": 1, "job": state, "build": build,
                                              "pipeline": {"slug": "p"}}}
            for state in (begun, job)
        ]  # fmt: skip
    return lines(found)


# Jenkins: jobs with their builds (python-jenkins, jenkinsapi at depth), and builds alone


def jenkins(one: Ran) -> Record:
    """Return a build as the API has it."""
    queued = 1000 * (one.began - one.came)
    times = {"queuingDurationMillis": queued, "buildableDurationMillis": queued}
    return {
        "_class": "hudson.model.FreeStyleBuild", "number": one.number, "id": str(one.number),
        "timestamp": 1000 * one.began, "duration": 1000 * RUN, "estimatedDuration": 1000 * RUN,
        "builtOn": one.runner, "result": "SUCCESS", "building": False,
        "fullDisplayName": f"app #{one.number}", "url": f"http://localhost/job/app/{one.number}/",
        "actions": [{}, None, {"_class": "jenkins.metrics.impl.TimeInQueueAction", **times}],
    }  # fmt: skip


def jenkins_job(all_jobs: list[Ran]) -> str:
    """Return what python-jenkins' get_job_info has at depth 2."""
    return json.dumps({"fullName": "app", "builds": list(map(jenkins, all_jobs)), "jobs": None})


def jenkins_builds(all_jobs: list[Ran]) -> str:
    """Return what jenkinsapi, or get_build_info, has of each build."""
    return lines(list(map(jenkins, all_jobs)))


# Slurm: sacct as text, sacct --json of several versions, slurmrestd's jobs of the controller


def slurm_text(all_jobs: list[Ran]) -> str:
    """Return what sacct -X -P prints."""
    return table(
        [
            {"JobIDRaw": one.number, "JobName": "test", "Partition": "linux",
             "Submit": stamp(one.came, zone=""), "Eligible": stamp(one.came, zone=""),
             "Start": stamp(one.began, zone=""), "End": stamp(one.ended, zone=""),
             "State": "COMPLETED", "AllocCPUS": 1, "NodeList": one.runner}
            for one in all_jobs
        ],
        "|",
    )  # fmt: skip


def slurm_database(one: Ran) -> Record:
    """Return a job of sacct --json up to version 22: numbers, and a word for its state."""
    return {
        "job_id": one.number, "name": "test", "partition": "linux", "nodes": one.runner,
        "time": {"submission": one.came, "eligible": one.came, "start": one.began,
                 "end": one.ended, "elapsed": RUN},
        "state": {"current": "COMPLETED", "reason": "None"}, "required": {"CPUs": 1},
    }  # fmt: skip


def slurm_json(all_jobs: list[Ran]) -> str:
    """Return what sacct --json prints."""
    found = list(map(slurm_database, all_jobs))
    return json.dumps({"meta": {}, "errors": [], "jobs": found}, indent=1)


def numbers(value: Record) -> Record:
    """Return a record with numbers as later versions write them."""
    return {
        name: {"set": True, "infinite": False, "number": number} for name, number in value.items()
    }


def slurm_rest(all_jobs: list[Ran]) -> str:
    """Return what slurmrestd's database answers: objects for numbers, lists for states."""
    found = []
    for one in all_jobs:
        job = slurm_database(one)
        job["time"] = numbers(job["time"])
        job["state"] = {"current": ["COMPLETED"]}
        found.append(job)
    return json.dumps({"jobs": found, "warnings": []})


def slurm_queue(all_jobs: list[Ran]) -> str:
    """Return what slurmrestd's controller answers, and squeue --json: one more job waits.

    When it is expected to start is no start.
    """
    found = [
        {"job_id": one.number, "name": "test", "partition": "linux", "nodes": one.runner,
         "job_state": ["COMPLETED"], "user_name": "ana",
         **numbers({"submit_time": one.came, "eligible_time": one.came, "start_time": one.began,
                    "end_time": one.ended, "cpus": 1})}
        for one in all_jobs
    ]  # fmt: skip
    return json.dumps({"jobs": found, "last_backfill": {"set": True, "number": 0}})


# Taskcluster: the API's objects (Python, JavaScript), Go's with the year 1, messages of Pulse


def task(one: Ran) -> Record:
    """Return a task and its status as the queue has them."""
    run = {
        "runId": 0, "state": "completed", "reasonCreated": "scheduled",
        "reasonResolved": "completed", "scheduled": stamp(one.came, ".000"),
        "started": stamp(one.began, ".000"), "resolved": stamp(one.ended, ".000"),
        "workerGroup": "g", "workerId": one.runner,
    }  # fmt: skip
    status = {"taskId": f"T{one.number}", "taskQueueId": "p/linux", "taskGroupId": "G",
              "priority": "low", "state": "completed", "runs": [run]}  # fmt: skip
    definition = {"created": stamp(START, ".000"), "metadata": {"name": "test", "owner": "ana"}}
    return {"status": status, "task": definition}


def taskcluster_group(all_jobs: list[Ran]) -> str:
    """Return two pages of a group."""
    found = list(map(task, all_jobs))
    pages = [{"taskGroupId": "G", "tasks": part} for part in (found[:20], [], found[20:])]
    return json.dumps(pages)


def taskcluster_go(all_jobs: list[Ran]) -> str:
    """Return statuses that a Go client marshals: one was never claimed, or resolved."""
    found = [{"status": task(one)["status"]} for one in all_jobs]
    found[0]["status"]["projectId"] = ""
    waits = task(all_jobs[-1])["status"] | {"taskId": "W", "runs": [], "expires": NO_TIME}
    return lines([*found, {"status": waits}])


def taskcluster_pulse(all_jobs: list[Ran]) -> str:
    """Return messages: of each task that it runs, and that it ended."""
    found = []
    for one in all_jobs:
        ended = task(one)["status"]
        [run] = ended["runs"]
        begun = run | {"state": "running", "resolved": None, "reasonResolved": None}
        found += [
            {"status": status, "runId": 0, "workerId": one.runner, "version": 1}
            for status in (ended | {"runs": [begun]}, ended)
        ]
    return lines(found)


# Kueue: kubectl's list, the API's (Python's client), and Go's, in which nothing has a kind


def workload(one: Ran) -> Record:
    """Return a workload as the API has it."""
    conditions = [
        {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": stamp(at)}
        for kind, reason, at in (
            ("QuotaReserved", "QuotaReserved", one.began), ("Admitted", "Admitted", one.began),
            ("Finished", "Succeeded", one.ended),
        )
    ]  # fmt: skip
    pods = {"name": "main", "count": 1, "flavors": {"cpu": "linux"}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload",
        "metadata": {"name": f"w{one.number}", "namespace": "n", "uid": f"u{one.number}",
                     "creationTimestamp": stamp(one.came)},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 1}]},
        "status": {"conditions": conditions,
                   "admission": {"clusterQueue": "cq", "podSetAssignments": [pods]}},
    }  # fmt: skip


def kueue_kubectl(all_jobs: list[Ran]) -> str:
    """Return what kubectl get -o json prints."""
    found = {"apiVersion": "v1", "items": list(map(workload, all_jobs)), "kind": "List"}
    return json.dumps(found, indent=4)


def kueue_api(all_jobs: list[Ran]) -> str:
    """Return what Python's client returns for custom objects."""
    found = list(map(workload, all_jobs))
    return json.dumps({"kind": "WorkloadList", "items": found, "metadata": {"continue": ""}})


def kueue_go(all_jobs: list[Ran]) -> str:
    """Return a list that a Go program marshals."""
    found = [workload(one) for one in all_jobs]
    for one in found:
        del one["kind"], one["apiVersion"]
        one["status"]["requeueState"] = None
    return json.dumps({"metadata": {}, "items": found})


# Bazel: the JSON log, and what Python's and Go's programs make of the binary one


def spawn(one: Ran) -> Record:
    """Return a remote spawn as Bazel's log has it."""
    return {
        "commandArgs": ["cc"], "mnemonic": "CppCompile", "runner": "remote", "cacheHit": False,
        "status": "", "exitCode": 0, "targetLabel": f"//a:{one.number}",
        "platform": {"properties": [{"name": "OSFamily", "value": "linux"}]},
        "metrics": {"queueTime": f"{one.began - one.came}s", "executionWallTime": f"{RUN}s",
                    "startTime": stamp(one.began)},
    }  # fmt: skip


def bazel_old(all_jobs: list[Ran]) -> str:
    """Return objects with nothing between them."""
    return "".join(json.dumps(spawn(one), indent=2) for one in all_jobs)


def snake(value: Any) -> Any:
    """Return a value with keys in snake case."""
    if isinstance(value, list):
        return list(map(snake, value))
    if not isinstance(value, dict):
        return value
    spelled = ("".join(f"_{c.lower()}" if c.isupper() else c for c in name) for name in value)
    return dict(zip(spelled, map(snake, value.values()), strict=True))


def bazel_python(all_jobs: list[Ran]) -> str:
    """Return what Python makes of a binary log with the names of its fields."""
    return lines([snake(spawn(one)) for one in all_jobs])


def bazel_go(all_jobs: list[Ran]) -> str:
    """Return what Go's encoding/json makes of it: times in two numbers, no zeros."""
    found = []
    for one in all_jobs:
        record = snake(of_go(spawn(one)))
        wait = one.began - one.came
        record["metrics"] = {
            "queue_time": {"seconds": wait} if wait else {}, "start_time": {"seconds": one.began},
            "execution_wall_time": {"seconds": RUN - 1, "nanos": 999_000_000},
            "process_outputs_time": {"nanos": 1_000_000},
        }  # fmt: skip
        found.append(record)
    return lines(found)


# Remote Execution: Buildbarn's messages, the same by the names of fields, ActionResults with times
# in two numbers, and a BuildBuddy invocation's executions


def metadata(one: Ran) -> Record:
    """Return the times of an action."""
    return {
        "worker": one.runner, "queuedTimestamp": stamp(one.came),
        "workerStartTimestamp": stamp(one.began, ".000000000"),
        "workerCompletedTimestamp": stamp(one.ended),
    }  # fmt: skip


def action(one: Ran) -> Record:
    """Return a message of Buildbarn's."""
    response = {"result": {"executionMetadata": metadata(one)}}
    digest = {"hash": "ab", "sizeBytes": "142"}
    return {
        "historicalExecuteResponse": {"actionDigest": digest, "executeResponse": response},
        "uuid": f"u{one.number}", "instanceName": "linux",
    }  # fmt: skip


def reapi_buildbarn(all_jobs: list[Ran]) -> str:
    """Return messages, a line each."""
    return lines(list(map(action, all_jobs)))


def reapi_fields(all_jobs: list[Ran]) -> str:
    """Return them with the names of their fields."""
    return lines([snake(action(one)) for one in all_jobs])


def reapi_go(all_jobs: list[Ran]) -> str:
    """Return ActionResults as Go's encoding/json writes them."""
    found = []
    for one in all_jobs:
        record = snake(metadata(one))
        for name, at in (("queued", one.came), ("worker_start", one.began),
                         ("worker_completed", one.ended)):  # fmt: skip
            record[f"{name}_timestamp"] = {"seconds": at, "nanos": 0}
        found.append({"exit_code": 0, "execution_metadata": record})
    return lines(found)


def reapi_buildbuddy(all_jobs: list[Ran]) -> str:
    """Return an invocation's executions."""
    found = [
        {"executionId": f"e{one.number}", "executedActionMetadata": metadata(one), "exitCode": 0}
        for one in all_jobs
    ]
    return json.dumps({"execution": found})


# SWF: as the Parallel Workloads Archive has it, and without a header, tabs between


def swf(one: Ran) -> list[object]:
    """Return the fields of a line."""
    wait = one.began - one.came
    unknown = [-1] * 4
    return [one.number, one.came - START, wait, RUN, 1, *unknown[:2], 1, RUN, -1, 1, 1, 1, 1, 1, 1,
            *unknown[:2]]  # fmt: skip


def swf_archive(all_jobs: list[Ran]) -> str:
    """Return a log with a header."""
    header = f"; Version: 2.2\n; UnixStartTime: {START}\n; MaxProcs: {RUNNERS}\n;\n"
    return header + "".join(f"{' '.join(map(str, swf(one)))}\n" for one in all_jobs)


def swf_plain(all_jobs: list[Ran]) -> str:
    """Return a log that a converter wrote: a remark, and numbers with fractions."""
    rows = ("\t".join(f"{number:.2f}" for number in swf(one)) for one in all_jobs)
    return "; converted\n# a remark\n" + "".join(f"{row}\n" for row in rows)


# Tables: Batsim's, and what databases and spreadsheets export


def batsim(all_jobs: list[Ran]) -> str:
    """Return Batsim's table of jobs, which names no machines."""
    return table(
        [
            {"job_id": one.number, "workload_name": "w", "submission_time": one.came - START,
             "requested_number_of_resources": 1, "requested_time": 900, "success": 1,
             "starting_time": one.began - START, "execution_time": f"{RUN}.000000",
             "finish_time": one.ended - START, "waiting_time": one.began - one.came,
             "turnaround_time": one.ended - one.came, "stretch": 1.0,
             "allocated_resources": one.runner[1:]}
            for one in all_jobs
        ]
    )  # fmt: skip


def csv_pandas(all_jobs: list[Ran]) -> str:
    """Return a frame with its index, and NaT for none."""
    return table(
        [
            {"": one.number - 1, "created_at": f"{stamp(one.came, zone='')}+00:00",
             "started_at": stamp(one.began, zone="+00:00").replace("T", " "),
             "finished_at": stamp(one.ended, ".000000", "+00:00").replace("T", " "),
             "runner": one.runner, "cancelled_at": "NaT"}
            for one in all_jobs
        ]
    )  # fmt: skip


def csv_psql(all_jobs: list[Ran]) -> str:
    r"""Return what psql's \copy writes: hours as a zone, and no value as \N."""
    return table(
        [
            {"id": one.number, "queued_at": stamp(one.came, zone="+00").replace("T", " "),
             "started_at": stamp(one.began, zone="+00").replace("T", " "),
             "finished_at": stamp(one.ended, zone="+00").replace("T", " "), "runner": one.runner,
             "note": "\\N"}
            for one in all_jobs
        ],
        "\t",
    )  # fmt: skip


def csv_excel(all_jobs: list[Ran]) -> str:
    """Return what a German spreadsheet saves."""

    def cell(at: int) -> str:
        return f"{datetime.fromtimestamp(at, UTC):%d.%m.%Y %H:%M:%S}"

    return table(
        [
            {"Id": one.number, "Created at": cell(one.came), "Started at": cell(one.began),
             "Duration (s)": f"{RUN},0", "Runner": one.runner}
            for one in all_jobs
        ],
        ";",
    )  # fmt: skip


def jsonl_bigquery(all_jobs: list[Ran]) -> str:
    """Return rows whose numbers and times are text."""

    def cell(at: int) -> str:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"

    return lines(
        [
            {"id": str(one.number), "submitted_at": cell(one.came),
             "started_at": cell(one.began),
             "duration_ms": str(1000 * RUN), "runner": one.runner}
            for one in all_jobs
        ]
    )  # fmt: skip


CLIENTS: dict[str, tuple[Callable[[list[Ran]], str], ...]] = {
    "github": (github_slurped, github_octokit, github_go),
    "gitlab": (gitlab_python, gitlab_go, gitlab_gitbeaker),
    "buildkite": (buildkite_builds, buildkite_go, buildkite_events),
    "jenkins": (jenkins_job, jenkins_builds),
    "slurm": (slurm_text, slurm_json, slurm_rest, slurm_queue),
    "taskcluster": (taskcluster_group, taskcluster_go, taskcluster_pulse),
    "kueue": (kueue_kubectl, kueue_api, kueue_go),
    "bazel": (bazel_old, bazel_python, bazel_go),
    "reapi": (reapi_buildbarn, reapi_fields, reapi_go, reapi_buildbuddy),
    "swf": (swf_archive, swf_plain),
    "csv": (batsim, csv_pandas, csv_psql, csv_excel),
    "jsonl": (jsonl_bigquery,),
}
"""By source, what writes its records."""
