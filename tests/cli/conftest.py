"""The command ``farm``, run in this process as its entry point runs it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from farm.cli.main import main


class Said(NamedTuple):
    """What a command ended with, and what it wrote."""

    code: int
    out: str
    err: str


Command = Callable[..., Said]


@pytest.fixture
def farm(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Command:
    """Run ``farm`` with these words in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("FARM_REDIS_URL", raising=False)

    def run(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["farm", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        assert isinstance(code, int)
        return Said(code, *capsys.readouterr())

    return run
