"""Jobs at random, as each system itself would have written them: the same attempts come out.

The writers here are not the farm's own: they know what the systems do with jobs that are cancelled
while they wait, tried again, re-run beside copies, or still open, and what else is in such files.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.records.attempt import Result
from farm_twin.importing import load_records
from tests.fixtures.examples import examples

START = 1_793_600_000
Written = list[dict[str, Any]]


class Try(NamedTuple):
    """An attempt: its job, its number, and when it could start, did, and ended."""

    job: int
    number: int
    eligible: int
    started: int | None
    finished: int | None
    result: Result


def stamp(at: int | None, hours: int = 0, digits: str = "") -> str | None:
    """Return an instant as these systems write it, by a clock that is some hours ahead."""
    if at is None:
        return None
    text = datetime.fromtimestamp(at, timezone(timedelta(hours=hours))).isoformat()
    return text[:19] + digits + (text[19:] if hours else "Z")


def exactly(at: int | None) -> str | None:
    """Return an instant with milliseconds."""
    return stamp(at, digits=".000")


@st.composite
def tries(draw: st.DrawFn) -> list[Try]:
    """Draw the attempts of some jobs, of which four are of one run."""
    found = []
    for job in range(draw(st.integers(1, 12))):
        at, number = START + draw(st.integers(0, 30_000)), 1
        while True:
            starts = at + draw(st.just(0) | st.integers(3, 4_000))
            ends = starts + draw(st.integers(5, 3_000))
            how = draw(st.sampled_from(["succeeded", "failed", "cancelled", "lost", "lost",
                                        "gave up", "waiting", "running"]))  # fmt: skip
            times = {"gave up": (None, ends), "waiting": (None, None), "running": (starts, None)}
            result = {"gave up": "cancelled", "waiting": "open", "running": "open"}.get(how, how)
            found.append(Try(job, number, at, *times.get(how, (starts, ends)), result))
            if how != "lost":
                break
            at, number = ends + draw(st.integers(3, 30)), number + 1
    return found


def by_run(found: list[Try]) -> Iterator[tuple[int, list[Try]]]:
    """Yield the runs."""
    for run, some in groupby(found, lambda one: one.job // 4):
        yield run, list(some)


def github_job(one: Try, number: int, draw: Random) -> dict[str, Any]:
    """Return a job of GitHub's; its start may be stale, and its step's clock elsewhere."""
    ran = one.started is not None
    is_stale = not ran or draw.random() < 0.3
    step = stamp(one.started, draw.choice([-5, 0, 9]), ".000")
    words = {"succeeded": "success", "cancelled": "cancelled", "open": None}
    status = "in_progress" if ran else "queued"
    return {
        "id": number, "run_id": one.job // 4, "run_attempt": one.number, "name": f"job{one.job}",
        "status": "completed" if one.finished else status,
        "conclusion": words.get(one.result, "failure"), "created_at": stamp(one.eligible),
        "started_at": stamp(one.eligible if is_stale else one.started),
        "completed_at": stamp(one.finished), "labels": ["linux"],
        "runner_id": 7 if ran else 0, "runner_name": "r-7" if ran else "",
        "steps": [{"number": 1, "started_at": step}] if ran and is_stale else [],
    }  # fmt: skip


def github(found: list[Try], draw: Random) -> Written:
    """Return pages of jobs: a re-run lists those that were over by then, under new ids."""
    pages, number = [], 0
    for _, some in by_run(found):
        listed: list[dict[str, Any]] = []
        for attempt in sorted({one.number for one in some}):
            new = [one for one in some if one.number == attempt]
            begins = min(one.eligible for one in new)
            jobs = [github_job(one, number + n, draw) for n, one in enumerate(new)]
            names = {job["name"] for job in jobs}
            copied = [
                old | {"id": number + 100 + n, "run_attempt": attempt,
                       "created_at": stamp(begins)}
                for n, old in enumerate(listed)
                if old["name"] not in names and (old["completed_at"] or "9") < stamp(begins - 3)
            ]  # fmt: skip
            number += 200
            listed = [*listed, *jobs]
            pages.append({"total_count": 1, "jobs": draw.sample(both := jobs + copied, len(both))})
    times = dict.fromkeys(("created_at", "started_at", "completed_at"), stamp(START))
    skipped = {"id": -1, "run_id": 0, "name": "deploy", "status": "completed", "labels": [],
               "conclusion": "skipped", "runner_id": 0, "runner_name": "", **times}  # fmt: skip
    return [*pages, {"jobs": [skipped]}, {"total_count": 0, "workflow_runs": []}]


def webhooks(found: list[Try], draw: Random) -> Written:
    """Return the deliveries of each job."""
    bodies = []
    for number, one in enumerate(found):
        job = github_job(one, number, draw)
        idle = {"runner_id": None, "runner_name": None, "steps": [], "conclusion": None}
        queued = {"status": "queued", "started_at": stamp(one.eligible), "completed_at": None}
        bodies.append({"action": "queued", "workflow_job": job | idle | queued})
        if one.started is not None:
            picked = {"status": "in_progress", "started_at": stamp(one.started),
                      "completed_at": None, "steps": []}  # fmt: skip
            bodies.append({"action": "in_progress", "workflow_job": job | picked})
        if one.finished is not None:
            bodies.append({"action": "completed", "workflow_job": job})
    return bodies


def buildkite(found: list[Try], _: Random) -> Written:
    """Return builds; a lost agent has a reason, or only an exit status."""
    words = {"succeeded": "passed", "cancelled": "canceled", "open": "scheduled"}
    builds = []
    for run, some in by_run(found):
        names = {(one.job, one.number) for one in some}
        jobs: Written = [
            {
                "id": f"{one.job}-{one.number}", "type": "script", "name": f"job{one.job}",
                "state": words.get(one.result, "failed"),
                "exit_status": -1 if one.result == "lost" else None,
                "signal_reason": "agent_stop" if one.result == "lost" and one.job % 2 else None,
                "created_at": exactly(START), "runnable_at": exactly(one.eligible),
                "started_at": exactly(one.started), "finished_at": exactly(one.finished),
                "agent": {"name": "a", "hostname": "h"} if one.started else None,
                "retries_count": one.number - 1 or None,
                "retried_in_job_id": f"{one.job}-{one.number + 1}"
                if (one.job, one.number + 1) in names else None,
            }
            for one in some
        ]  # fmt: skip
        others = [{"id": f"w{run}", "type": "waiter"}, {"id": f"b{run}", "state": "broken"}]
        builds.append({"id": f"b{run}", "number": run, "jobs": [*others, *jobs]})
    return builds


def taskcluster(found: list[Try], draw: Random) -> Written:
    """Return task groups in two pages, beside tasks that were never due."""
    reasons = {"succeeded": ["completed"], "failed": ["failed"], "open": [None],
               "cancelled": ["canceled", "deadline-exceeded"],
               "lost": ["claim-expired", "worker-shutdown"]}  # fmt: skip
    pages = []
    never = {"runId": 0, "state": "exception", "reasonCreated": "exception",
             "reasonResolved": "canceled", **dict.fromkeys(("scheduled", "resolved"),
                                                           exactly(START))}  # fmt: skip
    for run, some in by_run(found):
        tasks: Written = [{"status": {"taskId": f"u{run}", "runs": []}},
                          {"status": {"taskId": f"x{run}", "runs": [never]}}]  # fmt: skip
        for job, each in groupby(some, lambda one: one.job):
            runs = [
                {"runId": one.number - 1, "state": "x", "scheduled": exactly(one.eligible),
                 "started": exactly(one.started), "resolved": exactly(one.finished),
                 "reasonResolved": draw.choice(reasons[one.result])}
                for one in each
            ]  # fmt: skip
            tasks.append({"status": {"taskId": f"t{job}", "taskGroupId": str(run), "runs": runs},
                          "task": {"metadata": {"name": f"job{job}"}}})  # fmt: skip
        draw.shuffle(tasks)
        pages += [{"taskGroupId": str(run), "tasks": part} for part in (tasks[:2], tasks[2:])]
    return pages


def packed(values: Written, draw: Random, path: Path) -> None:
    """Write objects in any order, some of them twice, and in any packaging."""
    values = draw.sample(values, len(values)) + values[:1]
    texts = [json.dumps(one, indent=draw.choice([None, 2])) for one in values]
    how = draw.choice(["", "\n", "][", ",", "gzip"])
    text = ("" if how == "gzip" else how).join(texts)
    content = (f"[{text}]" if how in ("][", ",") else text).encode()
    if how == "gzip":  # of several parts, as logs are appended
        content = gzip.compress(content[:100]) + gzip.compress(content[100:])
    path.write_bytes(content)


@pytest.mark.parametrize("write", [github, webhooks, buildkite, taskcluster])
@examples(50)
@given(found=tries(), draw=st.randoms(use_true_random=False))
def test_the_same_attempts_come_out(
    write: Callable[[list[Try], Random], Written], found: list[Try], draw: Random
):
    """Waits, whether they ended, results and numbers: all are known, and nothing else is there."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        packed(write(found, draw), draw, path)
        read = load_records([path]).attempts
    lost: Result = "failed" if write in (github, webhooks) else "lost"  # GitHub has no word for it
    assert sorted(
        (one.kind, one.attempt, one.eligible_at, one.started_at or 0, one.finished_at or 0,
         one.result) for one in read
    ) == sorted(
        (f"job{one.job}", one.number, one.eligible, one.started or 0, one.finished or 0,
         lost if one.result == "lost" else one.result) for one in found
    )  # fmt: skip
