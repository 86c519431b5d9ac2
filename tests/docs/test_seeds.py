"""docs/reference/seeds.md: what each row says that it is shown by is there, and runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from .documents import ROOT, blocks_of, steps_of
from .test_commands_exist import problem
from .typing_along import run

PAGE = ROOT / "docs/reference/seeds.md"


class Row(NamedTuple):
    """A feature, whether it is there, and what shows it."""

    feature: str
    here: str
    shown: str

    @property
    def commands(self) -> list[str]:
        """Return the commands that show it."""
        return re.findall(r"`(farm [^`]+)`", self.shown)

    @property
    def tests(self) -> list[str]:
        """Return the tests that show it."""
        return re.findall(r"\btests/[\w/]+(?:\.py)?", self.shown)


ROWS = [
    Row(*(cell.strip() for cell in line.strip("|").split(" | ")))
    for line in PAGE.read_text("utf-8").splitlines()
    if re.match(r"\| (?!feature \|)", line)
]
#: take a minute, or an idle machine, and have tests of their own
ELSEWHERE = ("farm study ", "farm calibrate ")


def test_every_row_says_what_shows_it() -> None:
    """A command, a test, or a page; of what is missing, nothing."""
    bare = [
        row.feature
        for row in ROWS
        if not (row.commands or row.tests or "](" in row.shown or row.here.startswith("missing"))
    ]
    assert len(ROWS) >= 70
    assert bare == []


def test_every_command_of_every_row_can_be_typed() -> None:
    """The command line knows the command and its options."""
    flaws = {command: problem(command) for row in ROWS for command in row.commands}
    assert {command: flaw for command, flaw in flaws.items() if flaw} == {}


def test_the_tests_that_are_named_exist() -> None:
    """A file of tests, or a folder of such."""
    named = {test for row in ROWS for test in row.tests}
    assert named
    assert [test for test in named if not (ROOT / test).exists()] == []


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The page's files, and what its first commands leave: two runs, and a farm that is up."""
    try:
        for block in blocks_of(PAGE):
            if named := re.match(r"# (\S+)\n", block.text):
                (tmp_path / named[1]).write_text(block.text.removeprefix(named[0]), "utf-8")
            for step in steps_of(block):
                done = run(step.command, tmp_path)
                assert done.returncode == 0, done.stderr
        yield tmp_path
    finally:
        run("farm down --now", tmp_path)


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_command_of_every_row_runs(folder: Path) -> None:
    """In the order of the page, each ends well and says something."""
    failed = {}
    for command in (command for row in ROWS for command in row.commands):
        if command.startswith(ELSEWHERE):
            continue
        done = run(command, folder)
        if done.returncode or not (done.stdout + done.stderr).strip():
            failed[command] = f"{done.returncode}: {done.stderr[-500:]}"
    assert failed == {}
