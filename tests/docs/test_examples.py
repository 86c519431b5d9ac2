"""Every scenario of examples/ can be simulated, and README lists it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farm.cli.main import app

from .documents import ROOT

EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))

#: what is played of an example that never ends
PORTIONS = {"demo": ["--set", "phases.run=6h"]}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_simulates(path: Path, capsys: pytest.CaptureFixture[str]):
    """It loads, every job ends, and none is lost."""
    words = ["simulate", str(path), "--json", *PORTIONS.get(path.stem, ())]
    assert app(words, standalone_mode=False) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["jobs"]["submitted"] > 0
    assert summary["jobs"]["lost"] == 0


def test_every_example_is_listed():
    """examples/README.md says of each what one should see."""
    index = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    names = [path.relative_to(ROOT / "examples").as_posix() for path in EXAMPLES]
    assert [name for name in names if name not in index] == []
