"""What jobs need, by the word of the systems that ran them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from farm.records.attempt import Attempt
from farm_twin.importing import import_files

BEGINS = datetime(2026, 11, 2, 9, tzinfo=UTC).timestamp()


def at(minutes: float) -> str:
    """Return an instant as ISO 8601."""
    text = datetime.fromtimestamp(BEGINS + 60 * minutes, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def read(folder: Path, source: str, *values: object, text: str = "") -> dict[str, Attempt]:
    """Return the attempts in a file, by their ids."""
    path = folder / "records"
    path.write_text(text or "".join(map(json.dumps, values)), encoding="utf-8")
    bundle = import_files([path], source, zone=UTC)
    return {attempt.id: attempt for attempt in bundle.attempts}


def buildkite_job(name: str, runnable: float, ended: float, **more: object) -> dict[str, Any]:
    """Return a job of a build, minutes after its beginning."""
    return {
        "id": name, "type": "script", "name": name, "step_key": name, "state": "passed",
        "created_at": at(0), "runnable_at": at(runnable), "started_at": at(runnable + 1),
        "finished_at": at(ended), "agent_query_rules": ["queue=linux"],
        "agent": {"name": f"a-{name}"}, **more,
    }  # fmt: skip


def test_a_step_of_buildkite_needs_the_steps_it_depends_on(tmp_path: Path) -> None:
    """By their keys, or that of their group; one that may fail only has to end."""
    jobs = [
        buildkite_job("lint", 0, 5, group_key="checks"),
        buildkite_job("types", 0, 6, group_key="checks"),
        buildkite_job("build", 6, 9, depends_on=["checks"]),
        buildkite_job(
            "test", 9, 12, step={"depends_on": [{"step": "build", "allow_failure": True}]}
        ),
        buildkite_job("docs", 0, 12, depends_on=None),
    ]
    found = read(tmp_path, "buildkite", {"id": "b", "number": 1, "jobs": jobs})
    assert found["build"].needs == ("lint:succeeded", "types:succeeded")
    assert found["test"].needs == ("build:ended",)
    assert (found["docs"].needs, found["docs"].needs_known) == ((), True)


def test_what_follows_a_wait_step_needs_all_before_it(tmp_path: Path) -> None:
    """A retried job counts with the try that had ended last, and needs the one before it."""
    jobs = [
        buildkite_job("a", 0, 4, state="failed", retried_in_job_id="a2"),
        buildkite_job("a2", 4.1, 8, created_at=at(4)),
        buildkite_job("b", 0, 3),
        {"id": "w", "type": "waiter", "state": "passed"},
        buildkite_job("c", 8, 12),
    ]
    found = read(tmp_path, "buildkite", {"id": "b", "number": 1, "jobs": jobs})
    assert found["c"].needs == ("a2:succeeded", "b:succeeded")
    assert found["a2"].needs == ("a:ended",)
    assert (found["b"].needs, found["b"].needs_known) == ((), True)


def test_a_build_without_depends_on_or_waits_says_nothing(tmp_path: Path) -> None:
    """What its jobs need is then read from when they came."""
    jobs = [buildkite_job("a", 0, 4), buildkite_job("b", 4, 8)]
    found = read(tmp_path, "buildkite", {"id": "b", "number": 1, "jobs": jobs})
    assert not found["b"].needs_known


def gitlab_job(number: int, name: str, stage: str, due: float, ended: float, **more: object) -> Any:
    """Return a job of a pipeline."""
    pipeline = {"id": more.pop("pipeline", 5), "project_id": 1, "ref": "main"}
    return {
        "id": number, "name": name, "stage": stage, "status": "success", "created_at": at(0),
        "started_at": at(due + 1), "finished_at": at(ended), "queued_duration": 60.0,
        "tag_list": ["linux"], "runner": {"id": 3, "description": f"r{name}"},
        "pipeline": pipeline, **more,
    }  # fmt: skip


def test_jobs_of_gitlab_go_by_the_order_of_stages(tmp_path: Path) -> None:
    """Their ids tell it; one that came before the stage ahead had ended has needs of its own."""
    jobs = [
        gitlab_job(13, "deploy", "deploy", 9, 12),
        gitlab_job(12, "early", "test", 0, 3),
        gitlab_job(11, "unit", "test", 6, 9),
        gitlab_job(10, "compile", "build", 0, 6),
    ]
    found = read(tmp_path, "gitlab", *jobs)
    assert found["11"].needs == ("10:succeeded",)
    assert set(found["13"].needs) == {"11:succeeded", "12:succeeded"}
    assert (found["12"].needs, found["12"].needs_known) == ((), False)


def test_the_stages_of_a_pipelines_webhook_are_in_order(tmp_path: Path) -> None:
    """Also where ids are not: here a retried job has the only one of its stage."""
    webhook = {
        "object_kind": "pipeline", "object_attributes": {"id": 5, "stages": ["build", "test"]},
    }  # fmt: skip
    jobs = [gitlab_job(11, "unit", "test", 6, 9), gitlab_job(12, "compile", "build", 0, 6)]
    assert read(tmp_path, "gitlab", *jobs)["11"].needs == ()
    assert read(tmp_path, "gitlab", *jobs, webhook)["11"].needs == ("12:succeeded",)


def test_needs_of_gitlabs_graph_are_believed(tmp_path: Path) -> None:
    """A job that was split needs to have ended in all its parts."""
    jobs = [
        gitlab_job(10, "unit: [a]", "test", 0, 6, needs=[]),
        gitlab_job(11, "unit: [b]", "test", 0, 7, needs=[]),
        gitlab_job(12, "lint", "test", 0, 2, needs=[]),
        gitlab_job(13, "pages", "test", 7, 8, needs={"nodes": [{"name": "unit"}]}),
    ]
    assert read(tmp_path, "gitlab", *jobs)["13"].needs == ("10:succeeded", "11:succeeded")


def task(name: str, scheduled: float, resolved: float, how: str = "completed", **more: Any) -> Any:
    """Return a task of a group, with its only run."""
    run = {
        "runId": 0, "state": how, "reasonCreated": "scheduled", "scheduled": at(scheduled),
        "started": at(scheduled + 1), "resolved": at(resolved), "reasonResolved": how,
        "workerGroup": "g", "workerId": f"w-{name}",
    }  # fmt: skip
    status = {"taskId": name, "taskQueueId": "p/linux", "taskGroupId": "G", "runs": [run]}
    return {"status": status, "task": {"created": at(0), "metadata": {"name": name}, **more}}


def test_a_task_needs_its_dependencies(tmp_path: Path) -> None:
    """All completed or all resolved, as it requires; such that are not there are left out."""
    tasks = [
        task("A", 0, 5, "failed", dependencies=["gone"]),
        task("B", 0, 6, dependencies=[]),
        task("C", 6, 9, dependencies=["A", "B"], requires="all-resolved"),
        task("D", 9, 12, dependencies=["B", "C"], requires="all-completed"),
    ]
    found = read(tmp_path, "taskcluster", {"taskGroupId": "G", "tasks": tasks})
    assert found["C/0"].needs == ("A/0:ended", "B/0:ended")
    assert found["D/0"].needs == ("B/0:succeeded", "C/0:succeeded")
    assert found["B/0"].needs_known
    assert (found["A/0"].needs, found["A/0"].needs_known) == ((), True)


SLURM = "JobIDRaw|JobID|JobName|Partition|Submit|Eligible|Start|End|State|AllocCPUS|SubmitLine"


def slurm_row(number: int, due: int, state: str, line: str, name: str = "") -> str:
    """Return a job that ran for four minutes, and was due some after its submission."""
    times = [f"2026-11-02T09:{minute:02}:00" for minute in (0, due, due + 1, due + 5)]
    return "|".join([str(number), name or str(number), "j", "cpu", *times, state, "1", line])


def test_a_job_of_slurm_needs_what_its_command_says(tmp_path: Path) -> None:
    """An array is all its tasks; of a failed job that was to fail, too."""
    lines = [
        SLURM,
        slurm_row(500, 0, "FAILED", "sbatch a.sh"),
        slurm_row(511, 0, "COMPLETED", "sbatch --array=1-2 b.sh", "510_1"),
        slurm_row(510, 0, "COMPLETED", "sbatch --array=1-2 b.sh", "510_2"),
        slurm_row(520, 5, "COMPLETED", "sbatch --dependency=afternotok:500,afterok:510 c.sh"),
        slurm_row(521, 5, "COMPLETED", "sbatch -d afterany:500:510 c.sh"),
        slurm_row(522, 5, "COMPLETED", "sbatch --dependency=afterany:500?afterany:510 c.sh"),
    ]
    found = read(tmp_path, "slurm", text="\n".join(lines))
    by_job = {one.job: one.needs for one in found.values()}
    ids = {one.job: one.id for one in found.values()}
    needs = (f"{ids['500']}:failed", f"{ids['511']}:succeeded", f"{ids['510']}:succeeded")
    assert by_job["520"] == needs
    assert by_job["521"] == tuple(f"{ids[name]}:ended" for name in ("500", "511", "510"))
    assert by_job["522"] == ()


def jenkins_build(number: int, began: float, ran: float, upstream: str = "") -> dict[str, Any]:
    """Return a build, and which one started it."""
    causes = [{"upstreamProject": upstream, "upstreamBuild": 1}] if upstream else [{}]
    return {
        "number": number, "timestamp": 1000 * (BEGINS + 60 * began), "duration": 60_000 * ran,
        "builtOn": "a", "result": "SUCCESS",
        "actions": [{"queuingDurationMillis": 0, "buildableDurationMillis": 0},
                    {"causes": causes}],
    }  # fmt: skip


def test_a_build_of_jenkins_needs_the_one_that_started_it(tmp_path: Path) -> None:
    """But not one that was still running when it came."""
    jobs = [
        {"fullName": "app", "allBuilds": [jenkins_build(1, 0, 10)]},
        {"fullName": "test", "allBuilds": [jenkins_build(1, 10, 5, "app")]},
        {"fullName": "stage", "allBuilds": [jenkins_build(1, 5, 2, "app")]},
    ]
    found = read(tmp_path, "jenkins", *jobs)
    assert found["test#1"].needs == ("app#1:ended",)
    assert found["stage#1"].needs == ()


def test_limits_of_groups_are_kept(tmp_path: Path) -> None:
    """Buildkite's with its number, GitLab's of one at a time."""
    job = buildkite_job("a", 0, 4, concurrency_group="deploy", concurrency=2)
    assert read(tmp_path, "buildkite", {"id": "b", "number": 1, "jobs": [job]})["a"].group == (
        "deploy:2"
    )
    held = gitlab_job(10, "deploy", "deploy", 0, 6, resource_group="production")
    assert read(tmp_path, "gitlab", held)["10"].group == "1/production:1"


@pytest.mark.parametrize("text", ["sbatch job.sh -d", "sbatch --dependency= x", "srun -d data"])
def test_a_command_without_a_dependency_says_nothing(tmp_path: Path, text: str) -> None:
    """Words that only look like the option."""
    path = tmp_path / "log"
    path.write_text(f"{SLURM}\n{slurm_row(500, 0, 'COMPLETED', text)}")
    bundle = import_files([path], "slurm", zone=UTC)
    assert {one.needs for one in bundle.attempts} == {()}
    assert "that wait for a start" not in " ".join(bundle.manifest.remarks)
