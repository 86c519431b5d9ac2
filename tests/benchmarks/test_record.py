"""The record of what commands cost: which version is the other one, and what counts as dearer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import numpy as np
import pytest

from benchmarks import record


def commit(root: Path, text: str, *, record_too: bool) -> str:
    """Commit a file of this text, and a line of the record; return the commit."""
    (root / "benchmarks").mkdir(exist_ok=True)
    (root / "code.py").write_text(text)
    if record_too:
        with (root / "benchmarks/record.jsonl").open("a") as lines:
            lines.write(f"{text}\n")
    record.git("add", "-A", cwd=root)
    who = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    record.git(*who, "commit", "-q", "-m", text, cwd=root)
    return record.git("rev-parse", "HEAD", cwd=root).decode().strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """An empty checkout."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def test_a_change_is_measured_beside_the_last_line_of_another_change(checkout: Path) -> None:
    """Beside its own line it would be compared with itself, and no change could fail."""
    first = commit(checkout, "first", record_too=True)
    commit(checkout, "second", record_too=False)
    third = commit(checkout, "third", record_too=True)

    assert record.commit_of_last_line(before_head=True, root=checkout) == first
    assert record.commit_of_last_line(before_head=False, root=checkout) == third
    commit(checkout, "fourth", record_too=False)
    assert record.commit_of_last_line(before_head=True, root=checkout) == third


def test_without_a_line_there_is_nothing_to_compare_with(checkout: Path) -> None:
    """The first line has no ratios."""
    commit(checkout, "first", record_too=False)

    assert record.commit_of_last_line(before_head=True, root=checkout) is None


def test_the_ratio_of_pairs_is_that_of_their_logarithms() -> None:
    """Pairs that all differ by a factor have no interval; noise has one that holds it."""
    before = np.array([1.0, 2.0, 1.5, 1.2])
    exact = record.ratio_of((before * 1.2).tolist(), before.tolist())
    assert (exact.low, exact.mean, exact.high) == pytest.approx((1.2, 1.2, 1.2), abs=1e-3)

    noisy = record.ratio_of([1.3, 2.2, 1.9, 1.3], before.tolist())
    assert noisy.low < 1.15 < noisy.high
    with pytest.raises(ValueError, match="found 1 pairs"):
        record.ratio_of([1.0], [1.0])


def test_a_command_is_dearer_only_if_its_whole_interval_is_above_the_limit() -> None:
    """A noisy machine must not fail a change, and a change that says its reason may cost more."""
    ratios = {
        "farm status": record.Ratio(1.16, 1.2, 1.25),
        "farm --help": record.Ratio(1.05, 1.3, 1.6),
        "farm doctor": record.Ratio(1.3, 1.4, 1.5),
    }

    assert record.dearer(ratios, {"farm doctor": "it now says the range"}) == [
        "farm status: 1.20 times as dear (1.16 to 1.25); allowed: 1.15"
    ]


def test_every_line_of_the_record_can_be_read() -> None:
    """The check reads what the last change accepted."""
    lines = record.RECORD.read_bytes().splitlines() if record.RECORD.exists() else []
    for line in lines:
        msgspec.json.decode(line, type=record.Line)
