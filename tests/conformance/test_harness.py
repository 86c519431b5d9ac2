"""The harness itself: it reads all cases of a folder, and reports every mistake in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # each runs pytest in a separate process

HERE = Path(__file__).parent
AVERAGE = {"threshold": 20, "weight": 0.01, "limit": 10}
CASE = {
    "name": "first",
    "group": "average",
    "inputs": {
        "params": AVERAGE,
        "start": {"n": 0, "avg": 0},
        "samples_run_length": [[5.0, 1]],
        "note": "more than is read",
    },
    "expect": {"avg": 5.0},
}


def run(folder: Path, files: dict[str, Any], *tests: str) -> tuple[int, str]:
    """Run tests (those of BOINC's cases by default) on a folder with these files."""
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text)
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pytest",
                "-n",
                "0",
                "-p",
                "no:cacheprovider",
                "-q",
                "--tb=short",
            ),
            *(str(HERE / f"test_{name}.py") for name in tests or ("boinc", "every_case_is_read")),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parents[1],
        env={**os.environ, "FARM_CASES": str(folder)},
    )
    return done.returncode, done.stdout + done.stderr


def test_several_files_with_less_and_more_keys(tmp_path: Path) -> None:
    """Files of a system add up; absent keys and explanations do no harm."""
    second = {"format": "boinc-runtime-cases/1", "remark": ["x"], "cases": [CASE]}
    code, said = run(tmp_path, {"boinc.json": {"cases": [CASE]}, "more.json": second})
    assert code == 0, said
    assert "7 passed" in said


def test_every_mistake_is_reported(tmp_path: Path) -> None:
    """A case that cannot be tested fails with a reason; one mistake does not hide another."""
    wrong = [
        CASE | {"group": "quota"},
        CASE | {"expect": {"mean": 5.0}},
        CASE | {"expect": {}},
        CASE | {"expect": {"avg": 6.0}},
    ]
    files = {
        "boinc.json": {"cases": [CASE, *wrong], "quota_cases": [{"n": 1}]},
        "boinc-none.json": {"cases": []},
        "condor.json": {"cases": [CASE]},
    }
    code, said = run(tmp_path, files)
    assert code == 1
    for message in (
        "unknown group quota",
        "mean is expected",
        "nothing is expected",
        "avg: 5.0, not 6.0",
        "no test reads quota_cases",
        "boinc-none.json: holds no cases",
        "condor.json: neither name nor format",
    ):
        assert message in said
    assert f"{len(wrong) + 3} failed" in said


def first(system: str, key: str) -> dict[str, Any]:
    """Return the first case of a list of the file in the tree, under a name of its own."""
    (case, *_) = json.loads((HERE / f"cases/{system}.json").read_text())[key]
    return case


def test_no_case_passes_that_tests_nothing_or_has_unread_keys(tmp_path: Path) -> None:
    """Of every system: unknown steps, keys and kinds, and cases without any of them."""
    tree, run_of_thesis = first("buildbarn", "derived"), first("thesis", "golden_runs")
    estimate, guess = first("launchpad", "cases"), first("launchpad", "estimate_duration_cases")
    (step, *_) = tree["steps"]
    numbers = {"LJF": {"1": run_of_thesis["results"]["event_none"]["LJF"]["1"]}}
    wrong: dict[str, dict[str, list[tuple[dict[str, Any], str]]]] = {
        "boinc": {
            "cases": [
                (CASE | {"group": "quota"}, "unknown group quota"),
                (CASE | {"weight": 2}, "case: unknown key weight"),
                (CASE | {"inputs": CASE["inputs"] | {"wieght": 2}}, "inputs: unknown key wieght"),
            ]
        },
        "buildbarn": {
            "derived": [
                (tree | {"steps": []}, "there are no steps"),
                ({k: v for k, v in tree.items() if k != "steps"}, "there are no steps"),
                (tree | {"steps": [{"expect": "peace"}]}, "no step does anything"),
                (tree | {"steps": [step | {"do": "dance"}]}, "unknown step dance"),
                (tree | {"steps": [step | {"colour": 7}]}, "step arrive: unknown key colour"),
                (tree | {"steps": [step, {"t": 7}]}, "unknown key t"),
                (tree | {"policy": "lifo"}, "scenario: unknown key policy"),
                (
                    tree | {"steps": [{"do": "repeat", "n": 2, "body": []}]},
                    "there are no steps",
                ),
                (
                    {"steps": [{k: v for k, v in step.items() if k != "expect"}]},
                    "nothing is expected",
                ),
            ]
        },
        "launchpad": {
            "cases": [
                (estimate | {"era": "1999"}, "era '1999'"),
                (estimate | {"kind": "magic"}, "case: unknown key kind"),
                (estimate | {"expect": {}}, "nothing is expected"),
            ],
            "score_cases": [({"inputs": {"magic": 1}, "score": 1}, "argument 'magic'")],
            "judge_failure_cases": [({"score": 1}, "unknown key score")],
            "estimate_duration_cases": [
                (guess | {"kind": "magic"}, "kind: found 'magic'"),
                (guess | {"hsitory": [1]}, "case: unknown key hsitory"),
            ],
        },
        "taskcluster": {"ties": [({"sim": "dance", "tasks": 1}, "unknown sim dance")]},
        "thesis": {
            "golden_runs": [
                (run_of_thesis | {"results": {}}, "no results"),
                (run_of_thesis | {"results": {"event_none": {}}}, "event_none: no results"),
                (run_of_thesis | {"results": {"event_none": {"LJF": {}}}}, "LJF: no results"),
                (run_of_thesis | {"results": {"event_magic": numbers}}, "known slowdowns are"),
                (
                    run_of_thesis | {"results": {"event_none": {"MAGIC": numbers["LJF"]}}},
                    "unknown policy MAGIC",
                ),
                (run_of_thesis | {"steps": 9}, "case: unknown key steps"),
            ]
        },
    }
    files, refused = {}, []
    for system, lists in wrong.items():
        files[f"{system}.json"] = {
            key: [
                case | {"name": f"{key}-{number}", "id": f"{key}-{number}"}
                for number, (case, _) in enumerate(pairs)
            ]
            for key, pairs in lists.items()
        }
        for key, pairs in lists.items():
            refused += [(f"{key}-{number}", message) for number, (_, message) in enumerate(pairs)]
    code, said = run(tmp_path, files, *wrong)
    assert code == 1
    failed = [line for line in said.splitlines() if line.startswith("FAILED")]
    for name, message in refused:
        assert message in said
        found = any(f"[{name}]" in line or f"[{name}-" in line for line in failed)
        assert found, f"{name} passed, though: {message}"


@pytest.mark.parametrize(
    ("files", "message"), [({}, "holds no *.json"), ({"boinc.json": "{"}, "boinc.json: not JSON")]
)
def test_unreadable_folder(files: dict[str, Any], message: str, tmp_path: Path) -> None:
    """A folder without cases, or with a file that is not JSON, is no success."""
    code, said = run(tmp_path, files)
    assert code != 0
    assert message in said


def test_no_folder(tmp_path: Path) -> None:
    """A name that leads nowhere is no success either."""
    code, said = run(tmp_path / "absent", {})
    assert code != 0
    assert "absent: not a folder" in said
