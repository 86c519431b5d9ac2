"""A disk that is full: one message, exit code 2, and no half of a file."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import SMALL


def fill(monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """Let files of this ending, and their drafts, be made, and nothing be written into them."""

    def refuse(path: Path, write: Any, content: Any, **how: Any) -> object:
        if not path.name.removesuffix(".part").endswith(ending):
            return write(path, content, **how)
        path.open("wb").close()
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("write_text", "write_bytes"):
        write = getattr(Path, name)
        monkeypatch.setattr(
            Path,
            name,
            lambda path, content, write=write, **how: refuse(path, write, content, **how),
        )


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        (["init", "-o", "new.yaml"], "new.yaml"),
        (["simulate", "small.yaml", "--out", "run", "-q"], "scenario.yaml"),
        (["simulate", "small.yaml", "--out", "run", "-q"], "meta.json"),
        (["simulate", "small.yaml", "--out", "run", "-q"], "summary.json"),
        (["sweep", "small.yaml", "-n", "2", "--out", "all", "-q"], "scenario.yaml"),
    ],
)
def test_what_cannot_be_written_is_named_and_not_begun(
    farm, monkeypatch, tmp_path: Path, words: list[str], ending: str
) -> None:
    """It was exit code 1 for some files and 2 for others, and a scenario of no bytes stayed."""
    (tmp_path / "small.yaml").write_text(SMALL)
    with monkeypatch.context() as disk:
        fill(disk, ending)
        done = farm(*words)
    assert (done.code, done.err.count("error: ")) == (2, 1)
    assert f"{ending}: cannot be written: No space left on device" in done.err
    assert not [path for path in tmp_path.rglob(f"*{ending}*") if not path.stat().st_size]
