"""The harness itself: it takes what cases a folder has, and no mistake in them passes silently."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
AVERAGE = {"threshold": 20, "weight": 0.01, "limit": 10}
CASE = {
    "name": "first",
    "group": "average",
    "inputs": {
        "params": AVERAGE,
        "start": {"n": 0, "avg": 0},
        "samples_run_length": [[5.0, 1]],
        "more": "than is read",
    },
    "expect": {"avg": 5.0},
}


def run(folder: Path, files: dict[str, Any]) -> tuple[int, str]:
    """Run the tests of BOINC's and of no case left over on a folder with these files."""
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-q"),
            *(str(HERE / "test_boinc.py"), str(HERE / "test_every_case_is_read.py")),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parents[1],
        env={**os.environ, "FARM_CASES": str(folder)},
    )
    return done.returncode, done.stdout + done.stderr


def test_several_files_with_less_and_more_keys(tmp_path: Path) -> None:
    """Files of a system add up; absent keys and keys besides those needed do no harm."""
    second = {"format": "boinc-runtime-cases/1", "remark": ["x"], "cases": [CASE]}
    code, said = run(tmp_path, {"boinc.json": {"cases": [CASE]}, "more.json": second})
    assert code == 0, said
    assert "7 passed" in said


def test_every_mistake_is_said(tmp_path: Path) -> None:
    """What cannot be tried fails and says why; one mistake does not hide another."""
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


@pytest.mark.parametrize(
    ("files", "message"), [({}, "holds no *.json"), ({"boinc.json": "{"}, "boinc.json: not JSON")]
)
def test_unreadable_folder(files: dict[str, Any], message: str, tmp_path: Path) -> None:
    """A folder without cases, or with a file that is not JSON, is no success."""
    code, said = run(tmp_path, files)
    assert code != 0
    assert message in said
