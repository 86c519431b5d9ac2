"""GitHub's workflow files say what jobs need; its API does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from farm.core.errors import InputError
from farm.records.attempt import Attempt
from farm_twin.importing import import_files
from farm_twin.sources.workflow_files import NO_FILE, NOT_NAMED, NOT_READ, read_workflow_files
from farm_twin.tests.records.test_needs import at

CI = """
name: CI
on: [push]
concurrency:
  group: ${{ github.workflow }}-${{ github.head_ref || github.ref }}
  cancel-in-progress: true
jobs:
  lint:
    runs-on: [self-hosted]
    steps: []
  test:
    name: Test ${{ matrix.py }}
    needs: lint
    strategy: {matrix: {py: ["3.11", "3.12"]}}
  e2e:
    needs: [lint]
    strategy: {matrix: {py: [1], os: [linux]}}
  maybe:
    if: github.ref == 'refs/heads/main'
    needs: e2e
  build:
    needs: test
    uses: ./.github/workflows/build.yml
  report:
    if: ${{ always() }}
    needs: [test, maybe, build]
  alarm:
    needs: test
    if: failure()
"""
BUILD = """
on: {workflow_call: {}}
jobs:
  compile: {steps: []}
  pack:
    name: Pack it
    needs: compile
"""
RUNS: dict[str, Any] = {
    "total_count": 1,
    "workflow_runs": [
        {"id": 1, "run_number": 1, "event": "push", "path": ".github/workflows/ci.yml@main"}
    ],
}


def job(number: int, name: str, came: float, ended: float, **more: object) -> dict[str, Any]:
    """Return a job of a run, as the API has it."""
    return {
        "id": number, "run_id": 1, "run_attempt": 1, "name": name, "workflow_name": "CI",
        "head_branch": "main", "status": "completed", "conclusion": "success",
        "created_at": at(came), "started_at": at(came + 0.5), "completed_at": at(ended),
        "labels": ["linux"], "runner_id": number, "runner_name": f"r{number}", **more,
    }  # fmt: skip


JOBS = [
    job(1, "lint", 0, 1),
    job(2, "Test 3.11", 1, 4),
    job(3, "Test 3.12", 1, 5, conclusion="failure"),
    job(4, "e2e (1, linux)", 1, 3),
    job(5, "build / compile", 5, 7),
    job(6, "build / Pack it", 7, 8),
    job(7, "report", 8, 9),
    job(8, "alarm", 5, 6),
]


def read(
    folder: Path, jobs: list[dict[str, Any]], files: dict[str, str], *pages: object
) -> tuple[dict[str, Attempt], dict[str, int]]:
    """Return the attempts by the names of their jobs, and what was noted."""
    workflows = folder / ".github" / "workflows"
    workflows.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (workflows / name).write_text(text, encoding="utf-8")
    path = folder / "records.json"
    page = {"total_count": len(jobs), "jobs": jobs}
    path.write_text("".join(map(json.dumps, [page, *pages])), encoding="utf-8")
    bundle = import_files([path], "github", workflows=folder)
    return {one.kind: one for one in bundle.attempts}, bundle.manifest.noted


FILES = {"ci.yml": CI, "build.yml": BUILD}


def test_jobs_need_what_their_workflow_file_says(tmp_path: Path) -> None:
    """Matrices, names with expressions, conditions, reusable workflows, and what was skipped."""
    found, _ = read(tmp_path, JOBS, FILES, RUNS)
    needs = {name: attempt.needs for name, attempt in found.items()}
    assert needs == {
        "lint": (),
        "Test 3.11": ("1:succeeded",),
        "Test 3.12": ("1:succeeded",),
        "e2e (1, linux)": ("1:succeeded",),
        # one of the tests had failed, so it seems that it was let through
        "build / compile": ("2:succeeded", "3:ended"),
        "build / Pack it": ("5:succeeded",),
        # maybe was skipped, and needed e2e
        "report": ("2:ended", "3:ended", "5:ended", "6:ended", "4:ended"),
        "alarm": ("2:ended", "3:failed"),
    }
    assert all(attempt.needs_known for attempt in found.values())


def test_groups_are_those_of_the_file(tmp_path: Path) -> None:
    """By the branch that expressions name; one that hangs on anything else is none, and told."""
    found, _ = read(tmp_path, JOBS, FILES, RUNS)
    assert {one.group for one in found.values()} == {"CI-refs/heads/main:cancel"}
    waits = CI.replace("cancel-in-progress: true", "cancel-in-progress: ${{ github.ref == '' }}")
    created = {**RUNS["workflow_runs"][0], "created_at": at(-1)}
    found, _ = read(tmp_path, JOBS, {"ci.yml": waits}, {"workflow_runs": [created]})
    assert {one.group for one in found.values()} == {"CI-refs/heads/main:latest"}
    # the run was created a minute before its place, and its jobs, were
    assert found["lint"].arrived_at - found["lint"].submitted_at == 60
    other = CI.replace("github.workflow }}", "inputs.who }}")
    found, noted = read(tmp_path, JOBS, {"ci.yml": other}, RUNS)
    assert {one.group for one in found.values()} == {""}
    assert noted[NOT_READ] == len(JOBS)


def test_a_job_of_no_file_is_told(tmp_path: Path) -> None:
    """Files may be newer than runs; what such a job needs is then read from its times."""
    jobs = [*JOBS, job(9, "old name", 0, 1), job(10, "x", 0, 1, run_id=2, workflow_name="Else")]
    found, noted = read(tmp_path, jobs, FILES)
    assert (noted[NOT_NAMED], noted[NO_FILE]) == (1, 1)
    assert not found["old name"].needs_known
    assert not found["x"].needs_known


def test_a_job_that_is_tried_again_needs_its_last_tries(tmp_path: Path) -> None:
    """A failed test is run again, and only then comes what needs it."""
    jobs = [
        job(1, "lint", 0, 1),
        job(3, "Test 3.12", 1, 5, conclusion="failure"),
        job(13, "Test 3.12", 30, 34, run_attempt=2),
        job(15, "build / compile", 34, 40, run_attempt=2),
    ]
    found, _ = read(tmp_path, jobs, FILES, RUNS)
    assert found["Test 3.12"].needs == ("1:succeeded", "3:ended")
    assert found["build / compile"].needs == ("13:succeeded",)


def test_a_folder_without_workflows_is_refused(tmp_path: Path) -> None:
    """In one sentence that says what is allowed, and so is a file without jobs."""
    with pytest.raises(
        InputError, match=r"found no file \.yml or \.yaml; allowed: a folder of work"
    ):
        read_workflow_files(tmp_path)
    with pytest.raises(InputError, match="found no folder; allowed"):
        read_workflow_files(tmp_path / "none")
    (tmp_path / "a.yml").write_text("jobs: {a: {needs: 3}}", encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.yml: jobs\.a\.needs: found 3; allowed: a job of the"):
        read_workflow_files(tmp_path)
    (tmp_path / "a.yml").write_text("name: a\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.yml: found no jobs; allowed: a workflow file"):
        read_workflow_files(tmp_path)


def test_other_sources_have_no_workflow_files(tmp_path: Path) -> None:
    """They say themselves what their jobs need."""
    with pytest.raises(InputError, match="--workflows: found with gitlab; allowed: with github"):
        import_files([tmp_path / "x.json"], "gitlab", workflows=tmp_path)
