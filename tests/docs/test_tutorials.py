"""Each page that shows commands is followed from its first line to its last, in one folder.

``...`` in an output stands for anything.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .documents import BLOCKS, FOLLOWED, ROOT, steps_of
from .typing_along import assert_prints, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def is_live(page: Path) -> bool:
    """Return whether a page starts a farm: its numbers are the machine's."""
    return bool(re.search(r"(?m)^\$ farm (up|run)\b", page.read_text(encoding="utf-8")))


def marked(page: Path) -> object:
    """Mark pages that start a farm as live tests."""
    return pytest.param(page, id=page.stem, marks=[pytest.mark.live] if is_live(page) else [])


@pytest.mark.parametrize("page", [marked(page) for page in FOLLOWED])
def test_page(page: Path, tmp_path: Path):
    """A reader who types it, beside a copy of examples/, sees the output shown, and its pictures.

    FARM_FIGURES=1 (`make figures`) puts the pictures into docs/figures.
    """
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
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
    live = is_live(page)
    for block in (block for block in BLOCKS if block.document == page):
        if named := re.match(r"# (\w[\w-]*\.\w+)\n", block.text):
            (folder / named[1]).write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            for step in steps_of(block):
                done = run(step.command, folder)
                assert done.returncode == 0, f"{step.command}\n{done.stdout}{done.stderr}"
                if step.output.strip():
                    of_farm = live and not step.command.startswith("farm simulate")
                    assert_prints(step.output, done.stdout, live=of_farm)
