"""docs/reference/systems.md: the evidence that each row names exists, and runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import Said

from .documents import ROOT, blocks_of, steps_of
from .test_commands_exist import problem
from .typing_along import run

PAGE = ROOT / "docs/reference/systems.md"


class Row(NamedTuple):
    """A feature, and its evidence."""

    feature: str
    shown: str

    @property
    def commands(self) -> list[str]:
        """Return the commands among the evidence."""
        return re.findall(r"`(farm [^`]+)`", self.shown)

    @property
    def tests(self) -> list[str]:
        """Return the tests among the evidence."""
        return re.findall(r"\b(?:farm_[a-z]+/)?tests/[\w/]+(?:\.py)?", self.shown)


ROWS = [
    Row(*(cell.strip() for cell in line.strip("|").split(" | ")))
    for line in PAGE.read_text("utf-8").splitlines()
    if re.match(r"\| (?!feature \|)", line)
]
#: take a minute, or an idle machine, and have their own tests
ELSEWHERE = ("farm admin study ", "farm admin calibrate ")
#: what a command must show, by what it begins with: it could run and show nothing of its row
SHOWS = {
    "farm simulate quickstart --set scheduling.policy=score ": r"waiting time +8m44s .* 57s",
    "farm simulate fair-share-two-teams --set 'scheduling.fair_share=[auth": r"\npush/a +109 ",
    "farm simulate sticky-images": r"\nswitches +10 between",
    "farm job twin-2": "twin-1, which does the same action, is executed for both",
    "farm jobs --where invocation=web/ada,state=running": r"\nweb-1 +running ",
    "farm simulate quickstart --set scheduling.platform_grace=15m ": r" 132 failed",
    "farm admin estimate --run-time RUN --estimator last-3": "mean of the kind's last successes",
    "farm simulate thesis-single-matrix --set workload.0": r"\nmakespan +31\.6s",
}


def test_every_row_names_its_evidence() -> None:
    """A command, a test, or a page; for a missing feature, none."""
    bare = [
        row.feature
        for row in ROWS
        if not (row.commands or row.tests or "](" in row.shown or row.shown.startswith("*missing"))
    ]
    assert len(ROWS) >= 70
    assert bare == []


def test_every_command_of_every_row_is_valid() -> None:
    """The command line knows the command and its options."""
    flaws = {command: problem(command) for row in ROWS for command in row.commands}
    assert {command: flaw for command, flaw in flaws.items() if flaw} == {}


def test_the_named_tests_exist() -> None:
    """Each is a file of tests, or a folder of such."""
    named = {test for row in ROWS for test in row.tests}
    assert named
    assert [test for test in named if not (ROOT / test).exists()] == []


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The page's files, and the results of its first commands: two runs, and a farm that is up."""
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
def test_every_command_of_every_row_runs(folder: Path, farm: Callable[..., Said]) -> None:
    """In the order of the page, each succeeds and prints something.

    All in this process: most of them take less time than an interpreter's start.
    """
    shown = dict.fromkeys(command for row in ROWS for command in row.commands)
    assert all(any(command.startswith(begin) for command in shown) for begin in SHOWS)
    commands = [command for command in shown if not command.startswith(ELSEWHERE)]
    failed = {}
    for command in commands:
        said = farm(*shlex.split(command)[1:])
        if said.code or not (said.out + said.err).strip():
            failed[command] = f"{said.code}: {said.err[-500:]}"
        for begin, words in SHOWS.items():
            if command.startswith(begin) and not re.search(words, said.out):
                failed[command] = f"not in it: {words}"
    assert failed == {}
