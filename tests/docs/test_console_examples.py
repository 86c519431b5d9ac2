"""Commands print what the documents show.

A fenced ``console`` block is run line by line in a folder that holds a copy of examples/; ``...``
in the output stands for anything. Tutorials are followed as a whole: see test_tutorials.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .documents import BLOCKS, ROOT, TUTORIALS, Block, steps_of
from .typing_along import assert_prints, run

CONSOLE = [b for b in BLOCKS if b.language == "console" and b.document not in TUTORIALS]


def is_live(block: Block) -> bool:
    """Return whether a block runs a live farm."""
    return any(step.command.startswith("farm run") for step in steps_of(block))


def marked(block: Block) -> object:
    """Mark blocks with a live farm as slow."""
    marks = [pytest.mark.live, pytest.mark.slow] if is_live(block) else []
    return pytest.param(block, id=block.name, marks=marks)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which a reader could have typed the commands."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


@pytest.mark.parametrize("block", [marked(block) for block in CONSOLE])
def test_console_block(block: Block, folder: Path):
    """A reader who types the commands sees the output shown."""
    for step in steps_of(block):
        done = run(step.command, folder)
        expects_failure = step.output.startswith("error:")
        assert done.returncode == (2 if expects_failure else 0), done.stderr
        found = done.stderr if expects_failure else done.stdout
        if step.output.strip():
            live = is_live(block) and not step.command.startswith("farm simulate")
            assert_prints(step.output, found, live=live)
