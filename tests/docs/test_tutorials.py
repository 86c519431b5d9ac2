"""Each tutorial is followed from its first line to its last, in an empty folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .documents import BLOCKS, ROOT, TUTORIALS, steps_of
from .typing_along import assert_prints, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def marked(page: Path) -> object:
    """A tutorial that starts a farm is a live test."""
    live = "$ farm up" in page.read_text(encoding="utf-8")
    return pytest.param(page, id=page.stem, marks=[pytest.mark.live] if live else [])


@pytest.mark.parametrize("page", [marked(page) for page in TUTORIALS])
def test_tutorial(page: Path, tmp_path: Path):
    """A reader who types it sees the output shown, and gets its pictures.

    FARM_FIGURES=1 (`make figures`) puts the pictures into docs/figures.
    """
    try:
        follow(page, tmp_path)
    finally:
        if (tmp_path / ".farm" / "farm.json").exists():
            subprocess.run(
                [sys.executable, "-m", "farm", "down", "--now"], cwd=tmp_path, timeout=120
            )
    for picture in re.findall(r"\]\(\.\./figures/([\w.-]+)\)", page.read_text(encoding="utf-8")):
        made = tmp_path / picture
        assert made.stat().st_size > 1000
        if os.environ.get("FARM_FIGURES"):
            shutil.copy(made, ROOT / "docs" / "figures")


def test_no_task_needs_more_than_three_commands():
    """Twelve of three people: each has a heading of its own, and one to three commands."""
    text = (ROOT / "docs/tutorials/twelve-tasks.md").read_text(encoding="utf-8")
    _, *tasks = re.split(r"(?m)^\*\*(?=\d+\.)", text)
    assert [int(task.partition(".")[0]) for task in tasks] == [*range(1, 13)]
    assert {len(re.findall(r"(?m)^\$ farm ", task)) for task in tasks} == {1, 2, 3}
    assert text.count("\n## ") == 3


def follow(page: Path, folder: Path) -> None:
    """Write the files that the page names in their first line, and run its commands, in order."""
    live = "$ farm up" in page.read_text(encoding="utf-8")
    for block in (block for block in BLOCKS if block.document == page):
        if named := re.match(r"# (\w[\w-]*\.\w+)\n", block.text):
            (folder / named[1]).write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            for step in steps_of(block):
                done = run(step.command, folder)
                assert done.returncode == 0, f"{step.command}\n{done.stdout}{done.stderr}"
                if step.output.strip():
                    assert_prints(step.output, done.stdout, live=live)
