"""What the documents say that a command prints is what it prints.

A fenced ``console`` block is run line by line in a folder that holds a copy of examples/; ``...``
in the output stands for anything. How long the machine took is not compared, and of what a live
farm prints no number is.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .documents import BLOCKS, ROOT, Block, Step, steps_of

CONSOLE = [block for block in BLOCKS if block.language == "console"]
LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def is_live(block: Block) -> bool:
    """Whether a block runs a live farm."""
    return any(step.command.startswith("farm run") for step in steps_of(block))


def marked(block: Block) -> object:
    """A live farm takes its time."""
    marks = [pytest.mark.live, pytest.mark.slow] if is_live(block) else []
    return pytest.param(block, id=block.name, marks=marks)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which a reader may have typed the commands."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


@pytest.mark.parametrize("block", [marked(block) for block in CONSOLE])
def test_console_block(block: Block, folder: Path):
    """A reader who types what is shown sees what is shown."""
    for step in steps_of(block):
        done = run(step, folder)
        expects_failure = step.output.startswith("error:")
        assert done.returncode == (2 if expects_failure else 0), done.stderr
        found = done.stderr if expects_failure else done.stdout
        if step.output.strip():
            live = is_live(block) and not step.command.startswith("farm simulate")
            assert_prints(step.output, found, live=live)


def run(step: Step, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command with this interpreter's ``farm`` in front."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    plain = {"PATH": path, "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
    return subprocess.run(
        step.command,
        shell=True,
        cwd=folder,
        env=os.environ | plain,
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )


def assert_prints(expected: str, found: str, *, live: bool) -> None:
    """Compare, leaving out blank space and what differs from machine to machine."""
    hide = without_numbers if live else same_speed
    expected, found = hide(expected), hide(found)
    if not doctest.OutputChecker().check_output(expected, found, LENIENT):
        assert found == expected


def same_speed(text: str) -> str:
    """Hide the real time that a run took."""
    return re.sub(r"^took +.*? of real time", "took TIME of real time", text, flags=re.MULTILINE)


def without_numbers(text: str) -> str:
    """Hide numbers with their units, and which server it was."""
    text = re.sub(r"\b(?:redis|valkey)\b(?= \d)", "SERVER", same_speed(text))
    return re.sub(r"[-+]?\d[\d.,]*(?: ?(?:ms|s|m|h|d|%)\b)?(?: \d\d[smh]\b)?", "N", text)
