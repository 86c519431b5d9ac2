"""What a shell is told that may come next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from farm.cli.completion import keys, runs, scenarios
from tests.cli.conftest import SMALL

PROGRAM = "import sys; sys.argv[0] = 'farm'; from farm.cli.main import main; main()"


def completed(folder: Path, line: str) -> list[str]:
    """Return what completes the last word of a line, as bash asks for it."""
    words = line.split(" ")
    environment = os.environ | {
        "_FARM_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "COLUMNS": "80",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr == ""
    return done.stdout.split()


def fill(folder: Path) -> None:
    """Put a scenario and a run there."""
    (folder / "mine.yaml").write_text(SMALL.replace("name: linux", "name: oak"))
    (folder / "runs" / "one-1").mkdir(parents=True)
    (folder / "runs" / "one-1" / "meta.json").touch()


def test_examples_keys_and_runs_are_completed(tmp_path: Path, monkeypatch) -> None:
    """Only commands and options were."""
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COMP_WORDS", "farm simulate mine.yaml --set pools")
    assert scenarios(None, None, "quick") == ["quickstart"]
    assert scenarios(None, None, "mi") == ["mine.yaml"]
    assert keys(None, None, "pools.oak.bu") == ["pools.oak.builders="]
    assert keys(None, None, "nothing") == []
    assert runs(None, None, "") == ["runs/one-1", "runs/"]
    assert runs(None, None, "runs/o") == ["runs/one-1", "runs/one-1/"]
    assert runs(None, None, "nowhere/") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("farm simulate qui", ["quickstart"]),
        ("farm simulate mi", ["mine.yaml"]),
        ("farm simulate mine.yaml --set pools.oak.bu", ["pools.oak.builders="]),
        ("farm report ru", ["runs/one-1", "runs/"]),
        ("farm simu", ["simulate"]),
    ],
)
def test_a_shell_is_told_examples_keys_and_runs(
    tmp_path: Path, line: str, words: list[str]
) -> None:
    """Only commands and options were."""
    fill(tmp_path)
    assert completed(tmp_path, line) == words
