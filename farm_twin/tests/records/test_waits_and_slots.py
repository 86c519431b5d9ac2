"""Waits and slots that sources say in places of their own, and what lacks them."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path

import pytest

from farm.core.errors import TraceError
from farm_twin.first_scenario import scenario_of_trace
from farm_twin.importing import import_files

START = 1_793_606_400


def swf_lines() -> list[str]:
    """Return a log of 40 jobs on three processors: first come, first served."""
    free_at = [0.0] * 3
    lines = ["; Version: 2.2", f"; UnixStartTime: {START}", "; MaxProcs: 3"]
    for number in range(40):
        at = 130 * number
        place = min(range(3), key=free_at.__getitem__)
        begins = max(at, free_at[place])
        free_at[place] = begins + 430
        lines.append(f"{number + 1} {at} {begins - at:.0f} 430 1 -1 -1 1 900 -1 1 1 1 1 1 1 -1 -1")
    return lines


def test_a_log_in_swf_has_its_waits_and_its_slots(tmp_path: Path):
    """It was read as a table with one column, and its waits were not used."""
    path = tmp_path / "log.swf"
    path.write_text("\n".join(swf_lines()) + "\n")

    bundle = import_files([path])

    assert bundle.manifest.source == "swf"
    assert bundle.manifest.capacity == 3
    assert bundle.attempts[0].submitted_at == START
    assert (bundle.attempts[3].waited, bundle.attempts[3].ran) == (40.0, 430.0)


def test_a_scenario_of_a_log_in_swf_has_its_slots(tmp_path: Path):
    """As many builders as the log says, and not by its load."""
    (tmp_path / "log.swf").write_text("\n".join(swf_lines()) + "\n")

    text, _ = scenario_of_trace(tmp_path / "log.swf", "log.swf", None)

    assert "builders: 3 " in text


def test_platforms_of_the_same_runners_are_one_pool(tmp_path: Path):
    """Each got as many builders as there were: twice the farm."""
    lines = ["submitted,started,finished,runner,platform"]
    free_at = [0.0] * 4
    for number in range(48):
        at = START + 132 * number
        place = min(range(4), key=free_at.__getitem__)
        begins = max(at, free_at[place])
        free_at[place] = begins + 600
        lines.append(f"{at},{begins:.0f},{begins + 600:.0f},box-{place},{'ab'[number // 3 % 2]}")
    (tmp_path / "jobs.csv").write_text("\n".join(lines) + "\n")

    text, _ = scenario_of_trace(tmp_path / "jobs.csv", "jobs.csv", None)

    assert text.count("  - name: ") == 1
    assert 'platform: {processors: ["a", "b"]}' in text
    assert "builders: 4 " in text


def test_a_scenario_of_doubtful_records_says_so(tmp_path: Path):
    """What was assumed stands in the file; with ``strict`` there is none."""
    lines = ["created_at,queued_at,started_at,finished_at,runner"]
    for number in range(40):
        queued = START + 600 * number + 1800 * (number % 2)
        lines.append(f"{START + 600 * number},{queued},{queued + 5},{queued + 305},r{number % 4}")
    lines[1:] = [f"{line},{number}" for number, line in enumerate(lines[1:])]
    lines[0] += ",ncpus"
    (tmp_path / "jobs.csv").write_text("\n".join(lines) + "\n")

    text, remarks = scenario_of_trace(tmp_path / "jobs.csv", "jobs.csv", None)

    assert "# two arrival columns: a job waits from queued_at;" in text
    assert any(remark.startswith("assumed: slots of a job: 1") for remark in remarks)
    with pytest.raises(TraceError, match="--strict: capacity columns unused"):
        scenario_of_trace(tmp_path / "jobs.csv", "jobs.csv", None, strict=True)


def build(number: int, at: int, **times: object) -> dict[str, object]:
    """Return a pipeline's build of Jenkins, with the times of its one part."""
    return {
        "_class": "org.jenkinsci.plugins.workflow.job.WorkflowRun",
        "number": number,
        "timestamp": 1000 * (START + at),
        "duration": 800_000,
        "result": "SUCCESS",
        "building": False,
        "actions": [
            {
                "queuingDurationMillis": 1000,
                "queuingTimeMillis": 401_000,
                "executingTimeMillis": 400_000,
                "subTaskCount": 1,
                **times,
            }
        ],
    }


def test_the_wait_inside_a_pipeline_is_no_run_time(tmp_path: Path):
    """It made run times twice as long, and began before the build."""
    path = tmp_path / "builds.json"
    path.write_text(json.dumps({"fullName": "app", "allBuilds": [build(1, 0), build(2, 1200)]}))

    first, _ = import_files([path]).attempts

    assert (first.eligible_at, first.waited, first.ran) == (START, 400.0, 400.0)


@pytest.mark.parametrize("inside", [True, False])
def test_the_last_build_alone_is_read(inside: bool, tmp_path: Path):
    """It was taken for lines of JSON, with a message on columns."""
    last = {**build(7, 0), "fullDisplayName": "app #7"}
    path = tmp_path / "last.json"
    path.write_text(json.dumps({"fullName": "app", "lastBuild": last} if inside else last))

    [attempt] = import_files([path]).attempts

    assert attempt.id == "app#7"


def test_numbers_may_be_written_as_strings(tmp_path: Path):
    """One such member refused all records of a server."""
    path = tmp_path / "builds.json"
    builds = [build(1, 0, queuingTimeMillis="401000"), build(2, 1200)]
    path.write_text(json.dumps({"fullName": "app", "allBuilds": builds}))

    assert [attempt.waited for attempt in import_files([path]).attempts] == [400.0, 400.0]


def test_labels_are_compared_without_case(tmp_path: Path):
    """Workflows write them as they like, and GitHub takes them as equal."""
    jobs = [
        {
            "id": number,
            "run_id": 1,
            "status": "completed",
            "conclusion": "success",
            "created_at": "2026-11-02T08:00:00Z",
            "started_at": "2026-11-02T08:00:10Z",
            "completed_at": "2026-11-02T08:05:00Z",
            "labels": labels,
            "runner_id": 1 + number,
            "runner_name": f"box-{number}",
        }
        for number, labels in enumerate([["X64", "Linux"], ["linux", "x64"], ["linux", "x64"]])
    ]
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"total_count": 3, "jobs": jobs}))

    assert {attempt.platform for attempt in import_files([path]).attempts} == {"linux,x64"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([{"databaseId": 1, "createdAt": "2026-11-02T08:00:00Z"}], "the jobs of each run"),
        ({"jobs": [{"databaseId": 1, "startedAt": "…"}]}, "the jobs of each run"),
        (
            {"fullName": "app", "builds": [{"number": 1, "url": "http://j/job/app/1/"}]},
            r"allBuilds\[number,timestamp",
        ),
    ],
)
def test_records_without_times_name_the_call_that_has_them(
    value: object, words: str, tmp_path: Path
):
    """The message was on a column, or a member, that these records never have."""
    path = tmp_path / "records.json"
    path.write_text(json.dumps(value))

    with pytest.raises(TraceError, match=words):
        import_files([path], zone=UTC)
